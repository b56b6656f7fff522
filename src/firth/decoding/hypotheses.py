"""What goes into decoding and what comes out: prompts side by side, continuations with their scores.

N rows, T tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Hypothesis:
    """A continuation of a prompt. ``score`` is log p of its tokens under the model, the end
    included where it was reached; ``normalised`` is what hypotheses are ranked by."""

    ids: list[int]  # without prompt and end
    score: float
    normalised: float
    finished: bool  # the model ended it; otherwise the room was used up


@dataclass(frozen=True)
class Prompts:
    """Prompts of different lengths, aligned left."""

    ids_NT: torch.Tensor
    lens_N: torch.Tensor

    @classmethod
    def pad(cls, prompts: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> "Prompts":
        assert all(len(prompt) for prompt in prompts), "a prompt has at least one token"
        longest = max(len(prompt) for prompt in prompts)
        rows = [[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts]
        lens = [len(prompt) for prompt in prompts]
        return cls(torch.tensor(rows, device=device), torch.tensor(lens, device=device))

    @property
    def shortest(self) -> int:
        return int(self.lens_N.min())

    @property
    def longest(self) -> int:
        return self.ids_NT.shape[1]

    def select(self, index: torch.Tensor) -> "Prompts":
        return Prompts(self.ids_NT[index], self.lens_N[index])
