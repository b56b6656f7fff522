"""The attention of modern decoders: rotary positions, fewer keys and values than queries (grouped-query attention,
Ainslie et al. 2023), and norms of queries and keys where a model has them.

B batch, T tokens, N rows of decoding, S sentences, H heads, G heads of keys and values, K head size, D hidden size.
"""

import math
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional

from firth.nn.attention import Angles, Groups, SelfAttention, attention_weights, rotate
from firth.nn.blocks import Block, BlockConfig
from firth.nn.cache import KeyValues
from firth.nn.layers import RMSNorm


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
