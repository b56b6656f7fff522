"""A lookup table as a model: one layer, whatever stands around a word.

B batch, T tokens, D width, V words.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.types import Layers


class Lookup(nn.Module):
    """Row 0 is padding, row 1 any unknown word (it starts at zero and may learn). Words that were met later get rows of
    their own behind the table, which do not learn (``add``)."""

    def __init__(self, table_VD: NDArray[np.float32], tune: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.from_numpy(table_VD), freeze=not tune, padding_idx=0)
        self.more: list[NDArray[np.float32]] = []
        self._more = torch.zeros(0, table_VD.shape[1])

    def add(self, row: NDArray[np.float32]) -> int:
        """The id of a new row."""
        self.more.append(row)
        return self.table.num_embeddings + len(self.more) - 1

    def last(
        self,
        ids_BT: torch.Tensor,
        blocks_BT: torch.Tensor | None = None,
        positions_BT: torch.Tensor | None = None,
        segments_BT: torch.Tensor | None = None,
    ) -> torch.Tensor:
        size = self.table.num_embeddings
        if not self.more:
            found: torch.Tensor = self.table(ids_BT)
            return found
        if len(self._more) != len(self.more):
            self._more = torch.from_numpy(np.stack(self.more))
        late = ids_BT >= size
        hidden = self.table(ids_BT.masked_fill(late, 0))
        rows = self._more.to(hidden.device)[(ids_BT - size).clamp(min=0)]
        return torch.where(late[:, :, None], rows, hidden)

    def forward(
        self,
        ids_BT: torch.Tensor,
        blocks_BT: torch.Tensor | None = None,
        positions_BT: torch.Tensor | None = None,
        segments_BT: torch.Tensor | None = None,
    ) -> Layers:
        mask = torch.ones_like(ids_BT, dtype=torch.bool) if blocks_BT is None else blocks_BT > 0
        return Layers(self.last(ids_BT)[None], mask)
