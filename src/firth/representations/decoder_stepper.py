"""A decoder that continues texts token by token, with the keys and values of what was read kept.

When the positions are used up, the older half of the text falls out and the rest is read again: a model
with learned positions cannot slide. All rows have read equally many tokens, so this befalls all at once.

N rows, T tokens, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from firth.models.decoder import Decoder
from firth.nn.cache import KeyValues


@dataclass
class DecoderState:
    """The cache, and the tokens that are in it."""

    cache: KeyValues
    ids_NT: torch.Tensor


class DecoderStepper:
    """``vocab_size``: tokens beyond it are spare rows of the table and never chosen; ``scores`` stands in for the
    model's own, which it must equal."""

    def __init__(
        self, model: Decoder, vocab_size: int, scores: Callable[[torch.Tensor], torch.Tensor] | None = None
    ) -> None:
        self.model = model
        self.scores = scores or model.scores
        self.vocab_size = vocab_size

    def start(self, num_rows: int) -> DecoderState:
        nothing = torch.zeros((num_rows, 0), dtype=torch.long, device=self.model.tokens.weight.device)
        return DecoderState(self.model.begin(num_rows), nothing)

    def prefill(self, ids_NT: torch.Tensor) -> tuple[torch.Tensor, DecoderState]:
        most = self.model.config.max_positions
        if ids_NT.shape[1] > most:
            ids_NT = ids_NT[:, -max(1, most // 2) :]
        state = DecoderState(self.model.begin(len(ids_NT)), ids_NT)
        hidden = self.model.advance(ids_NT, state.cache)[:, -1]
        return self._log_probs(hidden), state

    def step(self, ids_N: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        ids_NT = torch.cat((state.ids_NT, ids_N[:, None]), 1)
        if ids_NT.shape[1] > self.model.config.max_positions:
            return self.prefill(ids_NT)
        hidden = self.model.advance(ids_N[:, None], state.cache)[:, -1]
        return self._log_probs(hidden), DecoderState(state.cache, ids_NT)

    def reorder(self, state: DecoderState, index_N: torch.Tensor) -> DecoderState:
        return DecoderState(state.cache.reorder(index_N), state.ids_NT[index_N])

    def _log_probs(self, hidden_ND: torch.Tensor) -> torch.Tensor:
        return self.scores(hidden_ND)[:, : self.vocab_size].float().log_softmax(-1)
