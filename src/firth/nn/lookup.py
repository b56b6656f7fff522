"""Tables of vectors as networks: word vectors that a task reads alone or beside a model, and token vectors.

B batch, T tokens, D width, V words or tokens.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.types import Inputs, Layers, Network
from firth.nn.layers import TokenNetwork

_ADDING = threading.Lock()


class Lookup(TokenNetwork):
    """Row 0 is padding, row 1 any unknown word (it starts at zero and may learn). Words that were met later get rows of
    their own behind the table, which do not learn (``add``)."""

    def __init__(self, table_VD: NDArray[np.float32], tune: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.from_numpy(table_VD), freeze=not tune, padding_idx=0)
        self.more: list[NDArray[np.float32]] = []
        self._more = torch.zeros(0, table_VD.shape[1])

    def add(self, row: NDArray[np.float32]) -> int:
        """The id of a new row. Several threads may add some."""
        with _ADDING:
            self.more.append(row)
            return self.table.num_embeddings + len(self.more) - 1

    def forward(self, inputs: Inputs) -> Layers:
        return Layers(self.rows(inputs.ids)[None], inputs.mask)

    def rows(self, ids_BT: torch.Tensor) -> torch.Tensor:
        """[B, T, D]."""
        size = self.table.num_embeddings
        if not self.more:
            found: torch.Tensor = self.table(ids_BT)
            return found
        more = self._more  # another thread may put another in its place
        if len(more) != len(self.more):
            more = self._more = torch.from_numpy(np.stack(self.more))
        late = ids_BT >= size
        hidden = self.table(ids_BT.masked_fill(late, 0))
        rows = more.to(hidden.device)[(ids_BT - size).clamp(min=0)]
        return torch.where(late[:, :, None], rows, hidden)


class TokenTable(TokenNetwork):
    """A row for each token, which may learn."""

    def __init__(self, table_VD: torch.Tensor) -> None:
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(table_VD, freeze=False)

    def forward(self, inputs: Inputs) -> Layers:
        return Layers(self.tokens(inputs.ids)[None], inputs.mask)

    @property
    def can_pack(self) -> bool:
        return True

    def packed(self, inputs: Inputs, lens: Sequence[int]) -> Iterator[torch.Tensor]:
        yield self.tokens(inputs.ids)


_SHIFT = 32


def join_ids(model_ids: NDArray[np.int64], word_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number a token."""
    return model_ids + (word_ids << _SHIFT)


class WithExtraVectors(TokenNetwork):
    """Layers come from the model alone; ``vectors`` are the words' own."""

    def __init__(self, base: Network, extra_vectors: Lookup) -> None:
        super().__init__()
        self.base = base
        self.extra_vectors = extra_vectors.requires_grad_(False)

    def forward(self, inputs: Inputs) -> Layers:
        return self.base(replace(inputs, ids=_own(inputs.ids)))

    def last(self, inputs: Inputs) -> torch.Tensor:
        return self.base.last(replace(inputs, ids=_own(inputs.ids)))

    def picked(self, inputs: Inputs, picks_BP: torch.Tensor) -> torch.Tensor:
        return self.base.picked(replace(inputs, ids=_own(inputs.ids)), picks_BP)

    def vectors(self, ids_BT: torch.Tensor) -> torch.Tensor:
        """[B, T, E]."""
        return self.extra_vectors.rows(ids_BT >> _SHIFT)


def _own(ids_BT: torch.Tensor) -> torch.Tensor:
    return ids_BT & ((1 << _SHIFT) - 1)
