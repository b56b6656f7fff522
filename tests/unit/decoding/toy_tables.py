"""Language models made of tables: log p of the next token given the last two, and plain search over them.

N rows, V vocabulary.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch

from firth.decoding.steps import Hypothesis

State = tuple[torch.Tensor, ...]


class TableStepper:
    """Cached: the state is the token before the last one."""

    def __init__(self, table_VVV: torch.Tensor) -> None:
        self.table = table_VVV
        self.vocab_size = len(table_VVV)
        self.reorders = 0
        self.rows_stepped: list[int] = []

    @classmethod
    def random(cls, vocab_size: int, seed: int, sharpness: float = 2.0) -> "TableStepper":
        scores = torch.randn((vocab_size,) * 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return cls((scores * sharpness).log_softmax(-1))

    def start(self, num_rows: int) -> State:
        return (torch.zeros(num_rows, dtype=torch.long),)

    def step(self, ids_N: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        self.rows_stepped.append(len(ids_N))
        return self.table[state[0], ids_N], (ids_N,)

    def reorder(self, state: State, index_N: torch.Tensor) -> State:
        self.reorders += 1
        return tuple(part.index_select(0, index_N) for part in state)

    def log_prob(self, tokens: Sequence[int], prompt_len: int) -> float:
        """Of everything after the prompt."""
        padded = [0, *tokens]
        return float(sum(self.table[padded[i - 1], padded[i], padded[i + 1]] for i in range(prompt_len, len(tokens))))


class WholeStepper(TableStepper):
    """Uncached: the state is the whole text, read anew at each step; prompts are read in one go."""

    def start(self, num_rows: int) -> State:
        return (torch.zeros((num_rows, 1), dtype=torch.long),)

    def step(self, ids_N: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        text = torch.cat((state[0], ids_N[:, None]), 1)
        return self.table[text[:, -2], text[:, -1]], (text,)

    def prefill(self, ids_NT: torch.Tensor) -> tuple[torch.Tensor, State]:
        text = torch.cat((torch.zeros_like(ids_NT[:, :1]), ids_NT), 1)
        return self.table[text[:, -2], text[:, -1]], (text,)


def search_everything(
    model: TableStepper, prompt: list[int], max_tokens: int, eos_id: int, penalty: Callable[[int], float]
) -> list[Hypothesis]:
    """Every continuation, best first: those that end, and those that fill the room."""
    others = [token for token in range(model.vocab_size) if token != eos_id]
    found = []
    for length in range(1, max_tokens + 1):
        for body in itertools.product(others, repeat=length - 1):
            last = [eos_id] if length < max_tokens else list(range(model.vocab_size))
            for token in last:
                tokens = [*body, token]
                score = model.log_prob([*prompt, *tokens], len(prompt))
                ended = token == eos_id
                found.append(Hypothesis(tokens[:-1] if ended else tokens, score, score / penalty(length), ended))
    return sorted(found, key=lambda one: -one.normalised)


def same(first: Hypothesis, second: Hypothesis) -> bool:
    return (
        first.ids == second.ids
        and first.finished == second.finished
        and bool(np.isclose(first.score, second.score, atol=1e-9))
        and bool(np.isclose(first.normalised, second.normalised, atol=1e-9))
    )
