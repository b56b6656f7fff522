"""Where a token stands: sinusoids, rotary angles and bucketed relative bias.

B batch, H heads, T tokens, D head size.
"""

import math

import torch
from torch import nn


def sinusoids(num_positions: int, dim: int, base: float = 10000.0) -> torch.Tensor:
    """[num_positions, dim]: sin in the first half, cos in the second, of one wave a column (Vaswani et al.
    2017, 3.5, where the two take turns; which column is which makes no difference to a model)."""
    frequencies = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies
    return torch.cat((angles.sin(), angles.cos()[:, : dim // 2]), dim=1).float()


def repeat_positions(module: nn.Module, trained: int) -> None:
    """Learned positions beyond those that were trained: these once more (as Beltagy et al. 2020 made RoBERTa longer).
    In a longer text neighbours then stand to each other as they did in training, where noise would tell them nothing."""
    for name, part in module.named_modules():
        if name.endswith("positions") and isinstance(part, nn.Embedding) and part.num_embeddings > trained:
            with torch.no_grad():
                part.weight.copy_(part.weight[torch.arange(part.num_embeddings, device=part.weight.device) % trained])


def rotary_angles(
    positions_BT: torch.Tensor, head_dim: int, base: float = 10000.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [B, 1, T, D] for positions (Su et al. 2021)."""
    frequencies = base ** (-torch.arange(0, head_dim, 2, device=positions_BT.device, dtype=torch.float32) / head_dim)
    angles = positions_BT[:, None, :, None].float() * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(heads_BHTD: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Turns each pair (i, i + D/2) by its angle."""
    cos, sin = angles
    first, second = heads_BHTD.chunk(2, dim=-1)
    return heads_BHTD * cos + torch.cat((-second, first), dim=-1) * sin


def relative_buckets(
    distance: torch.Tensor, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> torch.Tensor:
    """Buckets of (key - query): exact when near, logarithmic when far (Raffel et al. 2020)."""
    bucket = torch.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        bucket = bucket + (distance > 0) * num_buckets
        distance = distance.abs()
    else:
        distance = -distance.clamp(max=0)
    exact = num_buckets // 2
    far = (
        exact
        + (
            torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (num_buckets - exact)
        ).long()
    )
    return bucket + torch.where(distance < exact, distance, far.clamp(max=num_buckets - 1))


class RelativeBias(nn.Module):
    """A learned number a head and bucket, added to the attention scores; shared by all layers."""

    def __init__(
        self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_buckets, num_heads))
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional

    def forward(self, queries_BQ: torch.Tensor, keys_BK: torch.Tensor) -> torch.Tensor:
        """[B, H, Q, K] from the positions of queries and keys."""
        buckets = relative_buckets(
            keys_BK[:, None, :] - queries_BQ[:, :, None], self.num_buckets, self.max_distance, self.bidirectional
        )
        return self.weight[buckets].permute(0, 3, 1, 2)
