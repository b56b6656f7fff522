"""The base of networks from ids to layers.

B batch, T tokens, P picked tokens, N tokens of sequences end to end, D hidden size.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from firth.core.types import Inputs, Layers


class TokenNetwork(nn.Module):
    """A ``Network`` (core/types.py): whoever extends it says ``forward``, and what it can do with less work."""

    if TYPE_CHECKING:  # nn.Module's own takes and gives anything

        def __call__(self, inputs: Inputs) -> Layers: ...

    def last(self, inputs: Inputs) -> torch.Tensor:
        """The last layer only, [B, T, D]."""
        return self(inputs).last

    def picked(self, inputs: Inputs, picks_BP: torch.Tensor) -> torch.Tensor:
        """The last layer at some tokens of each row only, [B, P, D]."""
        hidden_BTD = self.last(inputs)
        return hidden_BTD.gather(1, picks_BP[:, :, None].expand(-1, -1, hidden_BTD.shape[-1]))

    @property
    def can_pack(self) -> bool:
        """Whether ``packed`` is possible."""
        return False

    def packed(self, inputs: Inputs, lens: Sequence[int]) -> Iterator[torch.Tensor]:
        """The layers, one after another, [N, D], of sequences that stand end to end."""
        raise NotImplementedError(f"{type(self).__name__} reads rows: ask can_pack before packed")
