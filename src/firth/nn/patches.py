"""An image as a sequence: patches turned into vectors by one matrix (Dosovitskiy et al. 2021), 2-D sinusoidal positions,
positions stretched to another grid; and the order of patches by windows, plain or shifted (Liu et al. 2021); and what every network that reads images has in common.

B batch, C channels, H height and W width in pixels, P edge of a patch, R rows and S columns of patches, T = R S, D hidden size,
N windows of M x M patches.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from firth.core.types import note_computing
from firth.nn.attention import sinusoids
from firth.nn.layers import GradientContext


def cut_patches(pixels_BCHW: torch.Tensor, size: int) -> torch.Tensor:
    """[B, T, C P P]: patches row by row, each channel by channel as in the image."""
    batch, channels, height, width = pixels_BCHW.shape
    grid = pixels_BCHW.view(batch, channels, height // size, size, width // size, size)
    return grid.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * size * size)


class PatchEmbedding(nn.Module):
    """A convolution whose stride is its size, as one matrix product."""

    def __init__(self, size: int, num_channels: int, hidden_dim: int) -> None:
        super().__init__()
        self.size = size
        self.project = nn.Linear(num_channels * size * size, hidden_dim)

    def forward(self, pixels_BCHW: torch.Tensor) -> torch.Tensor:
        note_computing()
        return self.project(cut_patches(pixels_BCHW, self.size))


def sinusoids_2d(rows: int, columns: int, dim: int) -> torch.Tensor:
    """[T, dim]: half of the columns say the row, half the column (MoCo v3, Chen et al. 2021)."""
    by_row, by_column = sinusoids(rows, dim // 2), sinusoids(columns, dim - dim // 2)
    grid = (by_row[:, None].expand(-1, columns, -1), by_column[None].expand(rows, -1, -1))
    return torch.cat(grid, -1).flatten(0, 1)


def stretch_positions(table_TD: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Positions of a square grid for another one, by bicubic interpolation (Dosovitskiy et al. 2021, 3.2)."""
    edge = round(len(table_TD) ** 0.5)
    if (rows, columns) == (edge, edge):
        return table_TD
    grid_1DRS = table_TD.view(1, edge, edge, -1).permute(0, 3, 1, 2)
    found = functional.interpolate(grid_1DRS, size=(rows, columns), mode="bicubic", align_corners=False)
    return found.permute(0, 2, 3, 1).reshape(rows * columns, -1)


def window_order(rows: int, columns: int, window: int, shift: int) -> torch.Tensor:
    """[T]: which patch of the image stands where, if windows follow each other row by row and the image was rolled up and
    to the left by ``shift`` before (Liu et al. 2021, 3.2)."""
    grid_RS = torch.arange(rows * columns).view(rows, columns).roll((-shift, -shift), (0, 1))
    parts = grid_RS.view(rows // window, window, columns // window, window)
    return parts.transpose(1, 2).flatten()


def shift_regions(rows: int, columns: int, window: int, shift: int) -> torch.Tensor:
    """[N, M M]: of a rolled image, in the order of ``window_order``, which patches were neighbours before: those with equal
    numbers."""

    def bands(size: int) -> torch.Tensor:
        places = torch.arange(size)
        return (places >= size - window).long() + (places >= size - shift).long()

    grid_RS = 3 * bands(rows)[:, None] + bands(columns)[None, :]
    parts = grid_RS.view(rows // window, window, columns // window, window)
    return parts.transpose(1, 2).reshape(-1, window * window)


def relative_places(window: int) -> torch.Tensor:
    """[M M, M M]: for a query (row) and a key (column) of a window, the row of the table of biases: one of (2M - 1)²
    differences of places (query - key)."""
    rows, columns = (
        axis.flatten() for axis in torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
    )
    by_rows, by_columns = rows[:, None] - rows[None, :], columns[:, None] - columns[None, :]
    return (by_rows + window - 1) * (2 * window - 1) + by_columns + window - 1


class _OrderContext(GradientContext):
    inverse: torch.Tensor


class Reorder(torch.autograd.Function):
    """Tokens in another order; on the way back they are put into the old one, not added up one by one."""

    @staticmethod
    def forward(
        ctx: _OrderContext, hidden_BTD: torch.Tensor, order_T: torch.Tensor, inverse_T: torch.Tensor
    ) -> torch.Tensor:
        ctx.inverse = inverse_T
        return hidden_BTD.index_select(1, order_T)

    @staticmethod
    def backward(ctx: _OrderContext, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0].index_select(1, ctx.inverse), None, None


def reorder(hidden_BTD: torch.Tensor, order_T: torch.Tensor, inverse_T: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = Reorder.apply(hidden_BTD, order_T, inverse_T)
    return found


# -- what every network that reads images has in common: pixels to patches to layers.
#
# B batch, C channels, H height and W width in pixels, T tokens of the last layer (patches, or groups of merged ones), U patches of
# the input, P picked tokens, D width of the last layer.


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
