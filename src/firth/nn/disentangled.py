"""Disentangled attention (He et al. 2021, 3.1): scores of content to content, content to distance and distance to content.

Distances have vectors of their own, one table for all layers, of which each layer makes queries and keys with the matrices
that it uses for tokens (DeBERTa v2 and v3). Near distances are distinguished one by one, far ones by buckets of the logarithm.

B batch, H heads, T tokens, D hidden size, K head size, R rows of the table.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from firth.nn.attention import Angles, Groups, SelfAttention, attend, attention_weights
from firth.nn.layers import dropout


def log_buckets(distance: torch.Tensor, num_buckets: int, max_distance: int) -> torch.Tensor:
    """Distances up to half the buckets as they are, larger ones by their logarithm, so that ``max_distance`` is last."""
    middle = num_buckets // 2
    far = distance.abs().clamp(min=middle).float()
    logs = torch.ceil(torch.log(far / middle) / math.log((max_distance - 1) / middle) * (middle - 1)) + middle
    return torch.where(distance.abs() <= middle, distance, logs.long() * distance.sign())


class RelativeTable(nn.Module):
    """A vector for every bucket of distances to either side, normed."""

    def __init__(self, dim: int, num_buckets: int, max_distance: int, eps: float) -> None:
        super().__init__()
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.table = nn.Embedding(2 * num_buckets, dim)
        self.norm = nn.LayerNorm(dim, eps=eps)

    def forward(self, positions_BT: torch.Tensor) -> Angles:
        """The vectors [R, D], and which of them is that of each pair of tokens [B, 1, T, T]."""
        away = positions_BT[:, :, None] - positions_BT[:, None, :]
        rows = log_buckets(away, self.num_buckets, self.max_distance) + self.num_buckets
        return self.norm(self.table.weight), rows.clamp(0, 2 * self.num_buckets - 1)[:, None]


class DisentangledAttention(SelfAttention):
    """Self-attention that takes the vectors and numbers of distances in the place of rotary angles. Rows only."""

    def __init__(self, hidden_dim: int, num_heads: int, dropout_prob: float, distance_dropout_prob: float) -> None:
        super().__init__(hidden_dim, num_heads, dropout_prob)
        self.distance_dropout_prob = distance_dropout_prob

    def forward(
        self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None, causal: bool = False
    ) -> torch.Tensor:
        query, key, bias = self._parts(hidden_BTD, mask, angles)
        value = self._heads(self._third(hidden_BTD, 2))
        mixed = attend(query, key, value, bias, self.dropout_prob if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def weights(self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None) -> torch.Tensor:
        return attention_weights(*self._parts(hidden_BTD, mask, angles))

    def packed(
        self, hidden_ND: torch.Tensor, groups: Groups, angles: Angles | None, window: int | None = None
    ) -> torch.Tensor:
        raise NotImplementedError("disentangled attention reads rows")

    def _third(self, hidden: torch.Tensor, part: int) -> torch.Tensor:
        """Queries (0), keys (1) or values (2)."""
        weight, bias = self.qkv.weight.chunk(3)[part], self.qkv.bias.chunk(3)[part]
        return functional.linear(hidden, weight, bias)

    def _parts(
        self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys, and what distances (and the mask) add to their products. Three products are added, so that each is
        divided by √3K; the queries are divided by √3 here, and the rest by whoever multiplies."""
        assert angles is not None
        table_RD, rows = angles
        table_RD = dropout(table_RD, self.distance_dropout_prob, self.training)
        query = self._heads(self._third(hidden_BTD, 0)) * 3**-0.5
        key = self._heads(self._third(hidden_BTD, 1))
        far_query, far_key = (self._heads(self._third(table_RD[None], part)) for part in (0, 1))  # [1, H, R, K]
        rows = rows.expand(len(hidden_BTD), self.num_heads, -1, -1)
        # query i meets the distance i - j; key j meets the same distance, so its scores are gathered by columns
        to_distance = (query @ far_key.transpose(-1, -2)).gather(3, rows)
        from_distance = (key @ (far_query * 3**-0.5).transpose(-1, -2)).gather(3, rows.transpose(-1, -2))
        bias = (to_distance + from_distance.transpose(-1, -2)) * query.shape[-1] ** -0.5
        return query, key, bias if mask is None else bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
