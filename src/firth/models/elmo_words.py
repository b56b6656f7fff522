"""ELMo over numbered words, for tasks: words get numbers as they are met, and are spelt when they are read.

B batch, T words, N distinct words, M characters, P output size of a direction.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.types import Layers
from firth.models.elmo import Elmo

PADDING, BEGIN, END = range(3)  # numbers that are no words


class ElmoWords(nn.Module):
    """Layers of rows of word numbers; each distinct word of a batch is spelt and computed once. The table of
    spellings is no weight: numbers mean something within this object only."""

    def __init__(self, elmo: Elmo, marks_3M: NDArray[np.int64]) -> None:
        """``marks_3M``: the characters of padding, and of the words that begin and end a sentence."""
        super().__init__()
        self.elmo = elmo
        self.numbers: dict[str, int] = {}
        self.spelt: list[NDArray[np.uint16]] = list(marks_3M.astype(np.uint16))
        self._lens = [int((row != marks_3M[PADDING, 0]).sum()) for row in marks_3M]
        self._padding = int(marks_3M[PADDING, 0])
        self._widest = max(width for width, _ in elmo.config.filters)

    def missing(self, words: list[str]) -> list[str]:
        return [word for word in dict.fromkeys(words) if word not in self.numbers]

    def add(self, words: list[str], characters_NM: NDArray[np.int64]) -> None:
        """New words and their characters."""
        for word, row in zip(words, characters_NM.astype(np.uint16), strict=True):
            self.numbers[word] = len(self.spelt)
            self.spelt.append(row)
            self._lens.append(int((row != self._padding).sum()))

    def _vectors(self, ids_BT: torch.Tensor) -> torch.Tensor:
        distinct, places_BT = torch.unique(ids_BT, return_inverse=True)
        chosen = distinct.tolist()
        longest = max(self._lens[number] for number in chosen) + self._widest
        rows = np.stack([self.spelt[number][:longest] for number in chosen]).astype(np.int64)
        vectors_NP = self.elmo.tokens(torch.from_numpy(rows).to(ids_BT.device))
        return nn.functional.embedding(places_BT, vectors_NP)

    def forward(
        self,
        ids_BT: torch.Tensor,
        blocks_BT: torch.Tensor | None = None,
        positions_BT: torch.Tensor | None = None,
        segments_BT: torch.Tensor | None = None,
    ) -> Layers:
        mask = ids_BT != PADDING if blocks_BT is None else blocks_BT > 0
        found: Layers = self.elmo(self._vectors(ids_BT), mask)
        return found

    def last(
        self,
        ids_BT: torch.Tensor,
        blocks_BT: torch.Tensor | None = None,
        positions_BT: torch.Tensor | None = None,
        segments_BT: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return self(ids_BT, blocks_BT).last
