"""A model with a table of word vectors beside it: both read the same tokens.

A token's number holds both of its ids, the model's own in the lower half and the word's in the upper one, so that whatever
cuts, frames and pads rows of numbers need not know of it: special tokens and padding have no word (row 0, zeros).

B batch, T tokens, E width of the word vectors.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.types import Layers
from firth.models.lookup import Lookup

_SHIFT = 32


def join_ids(model_ids: NDArray[np.int64], word_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number a token."""
    return model_ids + (word_ids << _SHIFT)


class Beside(nn.Module):
    """Layers come from the model alone; ``vectors`` are the words' own."""

    def __init__(self, base: nn.Module, beside: Lookup) -> None:
        super().__init__()
        self.base = base
        self.beside = beside.requires_grad_(False)

    def forward(
        self,
        ids_BT: torch.Tensor,
        blocks_BT: torch.Tensor | None = None,
        positions_BT: torch.Tensor | None = None,
        segments_BT: torch.Tensor | None = None,
    ) -> Layers:
        found: Layers = self.base(_own(ids_BT), blocks_BT, positions_BT, segments_BT)
        return found

    def last(
        self,
        ids_BT: torch.Tensor,
        blocks_BT: torch.Tensor | None = None,
        positions_BT: torch.Tensor | None = None,
        segments_BT: torch.Tensor | None = None,
    ) -> torch.Tensor:
        found: torch.Tensor = self.base.last(_own(ids_BT), blocks_BT, positions_BT, segments_BT)  # type: ignore[operator]
        return found

    def vectors(self, ids_BT: torch.Tensor) -> torch.Tensor:
        """[B, T, E]."""
        return self.beside.last(ids_BT >> _SHIFT)


def _own(ids_BT: torch.Tensor) -> torch.Tensor:
    return ids_BT & ((1 << _SHIFT) - 1)
