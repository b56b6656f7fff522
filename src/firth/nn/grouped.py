"""Attention of two published kinds: grouped queries (Llama, Qwen) and disentangled positions (DeBERTa)."""

import math
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional

from firth.nn.attention import Angles, Groups, SelfAttention, attend, attention_weights, rotate
from firth.nn.blocks import Block, BlockConfig
from firth.nn.cache import KeyValues
from firth.nn.layers import RMSNorm, dropout


class Scaling(Protocol):
    """How rotary positions reach further than those of training: all frequencies divided by a factor (``linear``), or
    the low ones only (``llama3``)."""

    @property
    def kind(self) -> str: ...
    @property
    def factor(self) -> float: ...
    @property
    def low_freq_factor(self) -> float: ...
    @property
    def high_freq_factor(self) -> float: ...
    @property
    def trained_positions(self) -> int: ...


def rope_frequencies(head_dim: int, base: float, scaling: Scaling | None = None) -> torch.Tensor:
    """[K / 2] turns of each pair of dimensions from a token to the next, in radians."""
    found = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    if scaling is None:
        return found
    slow = found / scaling.factor
    if scaling.kind == "linear":
        return slow
    # How often a pair turns round within the positions of training: those that do so often are left as they are.
    turns = scaling.trained_positions * found / (2 * math.pi)
    share = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    share = share.clamp(0, 1)
    return share * found + (1 - share) * slow


class GroupedAttention(SelfAttention):
    """Queries in ``num_heads``, keys and values in ``num_kv_heads``, each read by as many queries; one matrix for all
    three. For decoders: it has no windows and no picked tokens."""

    def __init__(
        self,
        config: BlockConfig,
        head_dim: int,
        num_kv_heads: int,
        qkv_bias: bool,
        qk_norm: bool,
    ) -> None:
        super().__init__(config.hidden_dim, config.num_heads, config.attention_dropout_prob, config.bias, head_dim)
        self.num_kv_heads, self.head_dim = num_kv_heads, head_dim
        self.qkv = nn.Linear(config.hidden_dim, (config.num_heads + 2 * num_kv_heads) * head_dim, bias=qkv_bias)
        self.query_norm = RMSNorm(head_dim, config.norm_eps) if qk_norm else None
        self.key_norm = RMSNorm(head_dim, config.norm_eps) if qk_norm else None

    def matrices(self) -> dict[str, int]:
        """For Muon. The parts of the first matrix differ in height where groups are, so it is taken as one."""
        return {"qkv.weight": 3 if self.num_kv_heads == self.num_heads else 1, "out.weight": 1}

    def _project(self, hidden_BTD: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries [B, H, T, K], keys and values [B, G, T, K], before they are turned."""
        sizes = [self.num_heads, self.num_kv_heads, self.num_kv_heads]
        heads = self.qkv(hidden_BTD).unflatten(-1, (sum(sizes), self.head_dim)).transpose(1, 2)
        query, key, value = heads.split(sizes, 1)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        return query, key, value

    def _repeat(self, heads: torch.Tensor) -> torch.Tensor:
        """[B, H, T, K]: what each query head reads."""
        groups = self.num_heads // self.num_kv_heads
        return heads if groups == 1 else heads.repeat_interleave(groups, 1)

    def forward(
        self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None, causal: bool = False
    ) -> torch.Tensor:
        query, key, value = self._project(hidden_BTD)
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        return self._attend(query, self._repeat(key), self._repeat(value), mask, None, None, causal)

    def weights(self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None) -> torch.Tensor:
        query, key, _ = self._project(hidden_BTD)
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        return attention_weights(query, self._repeat(key), mask)

    def cached(
        self,
        hidden_NTD: torch.Tensor,
        cache: KeyValues,
        layer: int,
        mask: torch.Tensor | None,
        first: int = 0,
        angles: Angles | None = None,
    ) -> torch.Tensor:
        """As in other decoders; the cache holds turned keys, of the groups only."""
        num_tokens = hidden_NTD.shape[1]
        parts = list(self._project(hidden_NTD))
        if angles is not None:
            parts[:2] = [rotate(part, angles) for part in parts[:2]]
        # [S, H or G, J = T * W, K]: the rows of a sentence side by side
        query, key, value = (
            part.unflatten(0, (cache.num_sentences, cache.width)).permute(0, 2, 3, 1, 4).flatten(2, 3) for part in parts
        )
        found = cache.put(layer, torch.stack((key, value)), first)
        key, value = (self._repeat(part) for part in found)
        causal = mask is None and num_tokens > 1
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        mixed = mixed.unflatten(2, (num_tokens, cache.width)).permute(0, 3, 2, 1, 4)  # [S, W, T, H, K]
        return self.out(mixed.reshape(len(hidden_NTD), num_tokens, -1))

    def packed(
        self, hidden_ND: torch.Tensor, groups: Groups, angles: Angles | None, window: int | None = None
    ) -> torch.Tensor:
        raise NotImplementedError("decoders read padded rows")


class GroupedBlock(Block):
    """A block with this attention."""

    def __init__(self, config: BlockConfig, head_dim: int, num_kv_heads: int, qkv_bias: bool, qk_norm: bool) -> None:
        super().__init__(config, head_dim=head_dim)
        self.attention = GroupedAttention(config, head_dim, num_kv_heads, qkv_bias, qk_norm)


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
