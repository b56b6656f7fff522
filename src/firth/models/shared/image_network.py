"""What every network that reads images has in common: pixels to patches to layers.

B batch, C channels, H height and W width in pixels, T tokens of the last layer (patches, or groups of merged ones), U patches of
the input, P picked tokens, D width of the last layer.
"""

from typing import NamedTuple

import torch
from torch import nn


class Masked(NamedTuple):
    """Patches of the input that the network must not see, and the vector that stands for them."""

    where_BU: torch.Tensor  # true where a patch is hidden
    token_D: torch.Tensor


class ImageNetwork(nn.Module):
    """Pixels are normalised, float32 [B, C, H, W]. A subclass says all but ``forward``."""

    stride: int  # pixels along the edge of a token of the last layer
    patch_size: int
    embed_dim: int  # the width of the patches
    dim: int  # the width of the last layer
    num_layers: int  # above the patches
    has_class_token: bool = False
    shows_attention: bool = False  # whether every patch may look at every other, as ``attention`` says

    def layers(self, pixels_BCHW: torch.Tensor, masked: Masked | None = None) -> list[torch.Tensor]:
        """Every layer, patches row by row; the first is that of the patches, the last is normed."""
        raise NotImplementedError

    def patches(self, pixels_BCHW: torch.Tensor, masked: Masked | None, picks_BP: torch.Tensor | None) -> torch.Tensor:
        """The last layer at the picked patches, or at all, [B, P or T, D]; a class token is left out."""
        raise NotImplementedError

    def summary(self, pixels_BCHW: torch.Tensor) -> torch.Tensor:
        """One vector per image from the last layer, [B, D]."""
        raise NotImplementedError

    def attention(self, pixels_BCHW: torch.Tensor) -> torch.Tensor:
        """Attention weights of every layer and head, [L, B, heads, T, T]."""
        raise NotImplementedError

    def start(self, generator: torch.Generator) -> None:
        """Random weights before training, where they are not those of every network."""

    def forward(self, pixels_BCHW: torch.Tensor) -> torch.Tensor:
        return self.summary(pixels_BCHW)


def hide(hidden_BUD: torch.Tensor, masked: Masked | None) -> torch.Tensor:
    """Patches with the mask token in place of hidden ones (SimMIM, Xie et al. 2022)."""
    if masked is None:
        return hidden_BUD
    return torch.where(masked.where_BU[:, :, None], masked.token_D, hidden_BUD)
