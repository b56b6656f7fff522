"""What decoding asks of a model: one token in for every row, log-probabilities of the next one out.

N rows (one hypothesis each), T tokens, V vocabulary.
"""

from typing import Protocol, TypeVar, runtime_checkable

import torch

State = TypeVar("State")
StateOut = TypeVar("StateOut", covariant=True)


class Stepper(Protocol[State]):
    """A model that continues texts, with whatever it keeps of the tokens that it has read.

    All rows have read equally many tokens at any time, so caches need no lengths: prompts of
    different lengths are aligned left, and a row whose prompt is over is continued while
    others still read theirs. Rows of one sentence stand together and equally many belong to
    each; ``reorder`` never moves a row to another sentence's place without that sentence's
    rows all leaving. A model that reads a source first (translation) is wrapped with it.
    """

    @property
    def vocab_size(self) -> int: ...

    def start(self, num_rows: int) -> State:
        """What is known before the first token; row n of a model with sources reads source n."""
        ...

    def step(self, ids_N: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """Reads a token a row; log-probabilities [N, V] of the next one, which the caller may change. The old state
        is not used again."""
        ...

    def reorder(self, state: State, index_N: torch.Tensor) -> State:
        """The state whose row n is the old row ``index[n]``; there may be more or fewer rows than before. The old
        state is not used again."""
        ...


@runtime_checkable
class Prefilled(Protocol[StateOut]):
    """A stepper that reads a whole prompt in one pass, as Transformers do."""

    def prefill(self, ids_NT: torch.Tensor) -> tuple[torch.Tensor, StateOut]:
        """What ``start`` and T steps would give."""
        ...


def reorder_tensors(state: tuple[torch.Tensor, ...], index_N: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """``reorder`` for a state of tensors whose first dimension is the row."""
    return tuple(part.index_select(0, index_N) for part in state)


def read_prompts(stepper: Stepper[State], ids_NT: torch.Tensor) -> tuple[torch.Tensor, State]:
    """Log-probabilities after prompts of equal length, and the state: in one pass where the model can."""
    assert ids_NT.shape[1] > 0, "a prompt has at least one token, if only the one that begins a text"
    if isinstance(stepper, Prefilled):
        found: tuple[torch.Tensor, State] = stepper.prefill(ids_NT)
        return found
    state = stepper.start(len(ids_NT))
    for place in range(ids_NT.shape[1]):
        log_probs_NV, state = stepper.step(ids_NT[:, place], state)
    return log_probs_NV, state
