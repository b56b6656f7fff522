"""A recurrent language model one token at a time, for decoding.

N rows, V vocabulary, H hidden size.
"""

from typing import TypeAlias

import torch

from firth.models.recurrent import Recurrent
from firth.nn.softmax import TokenOutput

State: TypeAlias = list[torch.Tensor]  # [S, N, H] a layer


class RecurrentStepper:
    """``Stepper`` and ``Prefilled`` of the decoding room: what has been read is the state, however much it was."""

    def __init__(self, model: Recurrent, head: TokenOutput) -> None:
        self.model, self.head = model, head

    @property
    def vocab_size(self) -> int:
        return self.model.config.vocab_size

    def start(self, num_rows: int) -> State:
        return self.model.zero_state(num_rows)

    def step(self, ids_N: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        reading = self.model.read(ids_N[:, None], state)
        return self.head.log_probs(reading.hidden_TBD[0], self.model.tokens.weight), reading.state

    def prefill(self, ids_NT: torch.Tensor) -> tuple[torch.Tensor, State]:
        reading = self.model.read(ids_NT)
        return self.head.log_probs(reading.hidden_TBD[-1], self.model.tokens.weight), reading.state

    def reorder(self, state: State, index_N: torch.Tensor) -> State:
        return [part.index_select(1, index_N) for part in state]
