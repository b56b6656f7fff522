"""Multi-head self-attention (Vaswani et al. 2017).

B batch, T tokens, P picked tokens, N tokens of sequences end to end, D hidden size, H heads, K = D / H.
"""

import torch
from torch import nn
from torch.nn import functional

from firth.nn.attention.attend import attend, attention_weights
from firth.nn.attention.cache import KeyValues, Past
from firth.nn.attention.positions import rotate

Angles = tuple[torch.Tensor, torch.Tensor]
Groups = list[tuple[int, int, int]]  # of sequences end to end: first token, how many of equal length, that length


class SelfAttention(nn.Module):
    """Queries, keys and values from one matrix product; softmax(QKᵀ/√K)V by the fused kernel."""

    def __init__(
        self,
        hidden_dim: int,
        num_heads: int,
        dropout_prob: float,
        bias: bool = True,
        head_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout_prob = dropout_prob
        inner_dim = num_heads * head_dim if head_dim else hidden_dim
        self.qkv = nn.Linear(hidden_dim, 3 * inner_dim, bias=bias)
        self.out = nn.Linear(inner_dim, hidden_dim, bias=bias)

    def _heads(self, hidden_BTD: torch.Tensor) -> torch.Tensor:
        return hidden_BTD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(
        self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None, causal: bool = False
    ) -> torch.Tensor:
        """``mask`` is boolean (true: may look) or a number to add, broadcast to [B, H, T, T]; ``causal``
        without a mask lets a token look at itself and what is before it."""
        query, key, value = (self._heads(part) for part in self.qkv(hidden_BTD).chunk(3, dim=-1))
        return self._attend(query, key, value, mask, angles, angles, causal)

    def step(
        self, hidden_NTD: torch.Tensor, past: Past | None, mask: torch.Tensor | None, angles: Angles | None
    ) -> tuple[torch.Tensor, Past]:
        """The next tokens only, with the keys (turned) and values of those before them [N, H, T, K]."""
        query, key, value = (self._heads(part) for part in self.qkv(hidden_NTD).chunk(3, dim=-1))
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        if past is not None:
            key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        return self._attend(query, key, value, mask, None, None), (key, value)

    def cached(
        self, hidden_NTD: torch.Tensor, cache: KeyValues, layer: int, mask: torch.Tensor | None, first: int = 0
    ) -> torch.Tensor:
        """The tokens that the cache was opened for, which gave the mask; they look back as far as token ``first``."""
        num_tokens = hidden_NTD.shape[1]
        shape = (cache.num_sentences, cache.width, num_tokens, 3, self.num_heads, -1)
        all_3SHJK = self.qkv(hidden_NTD).view(shape).permute(3, 0, 4, 2, 1, 5).flatten(3, 4)
        key, value = cache.put(layer, all_3SHJK[1:], first)
        causal = mask is None and num_tokens > 1
        mixed = functional.scaled_dot_product_attention(all_3SHJK[0], key, value, attn_mask=mask, is_causal=causal)
        mixed = mixed.transpose(1, 2).flatten(2)  # [S, T * W, D]
        if num_tokens > 1 and cache.width > 1:
            mixed = mixed.unflatten(1, (num_tokens, -1)).transpose(1, 2)
        return self.out(mixed.reshape(len(hidden_NTD), num_tokens, -1))

    def picked(
        self,
        hidden_BTD: torch.Tensor,
        picked_BPD: torch.Tensor,
        mask: torch.Tensor | None,
        angles: Angles | None,
        picked_angles: Angles | None,
    ) -> torch.Tensor:
        """Only some tokens ask; all are asked. The same numbers as ``forward`` at those tokens."""
        dim = self.out.in_features
        weight, bias = self.qkv.weight, self.qkv.bias
        query = functional.linear(picked_BPD, weight[:dim], None if bias is None else bias[:dim])
        both = functional.linear(hidden_BTD, weight[dim:], None if bias is None else bias[dim:])
        key, value = both.chunk(2, dim=-1)
        return self._attend(self._heads(query), self._heads(key), self._heads(value), mask, picked_angles, angles)

    def packed(self, hidden_ND: torch.Tensor, groups: Groups, angles: Angles | None) -> torch.Tensor:
        """Sequences end to end, without padding: each sees itself only. The same numbers as ``forward`` for each."""
        parts = self.qkv(hidden_ND).split([count * length for _, count, length in groups])
        dropout = self.dropout_prob if self.training else 0.0
        mixed = []
        for part, (first, count, length) in zip(parts, groups, strict=True):
            query, key, value = part.view(count, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
            if angles is not None:
                mine = (angles[0][0, :, first : first + length], angles[1][0, :, first : first + length])
                query, key = rotate(query, mine), rotate(key, mine)
            found = attend(query, key, value, None, dropout)
            mixed.append(found.transpose(1, 2).reshape(count * length, -1))
        return self.out(mixed[0] if len(mixed) == 1 else torch.cat(mixed))

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        query_angles: Angles | None,
        key_angles: Angles | None,
        causal: bool = False,
    ) -> torch.Tensor:
        if query_angles is not None and key_angles is not None:
            query, key = rotate(query, query_angles), rotate(key, key_angles)
        dropout = self.dropout_prob if self.training else 0.0
        mixed = attend(query, key, value, mask, dropout, causal)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def weights(self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None) -> torch.Tensor:
        """The attention itself, [B, H, T, T], to be looked at."""
        query, key, _ = (self._heads(part) for part in self.qkv(hidden_BTD).chunk(3, dim=-1))
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        return attention_weights(query, key, mask)
