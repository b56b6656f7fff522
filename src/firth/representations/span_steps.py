"""Writing spans for given sentinels: each sentinel once, in order, with at least one token after it.

N rows, V vocabulary.
"""

from dataclasses import dataclass

import torch

from firth.models.encoder_decoder_steps import DecoderState, EncoderDecoderStepper


@dataclass
class SpanState:
    """What the model keeps, which sentinel each row is at (-1: before the first), and the tokens since."""

    inner: DecoderState
    at_N: torch.Tensor
    written_N: torch.Tensor


class SpanStepper:
    """A ``Stepper`` that rules out what is no filling; the log-probabilities of the rest stay as they are."""

    def __init__(self, inner: EncoderDecoderStepper, sentinels: list[int], eos_id: int, max_span: int) -> None:
        """``sentinels`` are the ids that the text has, in its order."""
        self.inner, self.max_span = inner, max_span
        self.vocab_size = inner.vocab_size
        self.ends = torch.tensor([*sentinels, eos_id])  # what ends the span before the first, after it, and so on

    def start(self, num_rows: int) -> SpanState:
        nothing = torch.zeros(num_rows, dtype=torch.long)
        return SpanState(self.inner.start(num_rows), nothing - 1, nothing)

    def step(self, ids_N: torch.Tensor, state: SpanState) -> tuple[torch.Tensor, SpanState]:
        log_probs_NV, inner = self.inner.step(ids_N, state.inner)
        ended_N = ids_N == self.ends[(state.at_N + 1).clamp(max=len(self.ends) - 1)]
        at_N = state.at_N + ended_N
        written_N = torch.where(ended_N, 0, state.written_N + 1)
        next_N = self.ends[(at_N + 1).clamp(max=len(self.ends) - 1)]
        gain_N = log_probs_NV.gather(1, next_N[:, None])[:, 0]
        found = log_probs_NV.clone()
        found[:, self.ends] = float("-inf")
        found[(written_N >= self.max_span) | (at_N < 0)] = float("-inf")
        may_N = (written_N > 0) | (at_N < 0)
        found[may_N, next_N[may_N]] = gain_N[may_N]
        return found, SpanState(inner, at_N, written_N)

    def reorder(self, state: SpanState, index_N: torch.Tensor) -> SpanState:
        return SpanState(self.inner.reorder(state.inner, index_N), state.at_N[index_N], state.written_N[index_N])
