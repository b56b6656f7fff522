"""Multi-head self-attention (Vaswani et al. 2017).

B batch, T tokens, P picked tokens, D hidden size, H heads, K = D / H.
"""

import torch
from torch import nn
from torch.nn import functional

from firth.nn.positions import rotate

Angles = tuple[torch.Tensor, torch.Tensor]


class SelfAttention(nn.Module):
    """Queries, keys and values from one matrix product; softmax(QKᵀ/√K)V by the fused kernel."""

    def __init__(self, hidden_dim: int, num_heads: int, dropout_prob: float, bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout_prob = dropout_prob
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim, bias=bias)
        self.out = nn.Linear(hidden_dim, hidden_dim, bias=bias)

    def _heads(self, hidden_BTD: torch.Tensor) -> torch.Tensor:
        return hidden_BTD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None) -> torch.Tensor:
        """``mask`` is boolean (true: may look) or a number to add, broadcast to [B, H, T, T]."""
        query, key, value = (self._heads(part) for part in self.qkv(hidden_BTD).chunk(3, dim=-1))
        return self._attend(query, key, value, mask, angles, angles)

    def picked(
        self,
        hidden_BTD: torch.Tensor,
        picked_BPD: torch.Tensor,
        mask: torch.Tensor | None,
        angles: Angles | None,
        picked_angles: Angles | None,
    ) -> torch.Tensor:
        """Only some tokens ask; all are asked. The same numbers as ``forward`` at those tokens."""
        dim = hidden_BTD.shape[-1]
        weight, bias = self.qkv.weight, self.qkv.bias
        query = functional.linear(picked_BPD, weight[:dim], None if bias is None else bias[:dim])
        both = functional.linear(hidden_BTD, weight[dim:], None if bias is None else bias[dim:])
        key, value = both.chunk(2, dim=-1)
        return self._attend(self._heads(query), self._heads(key), self._heads(value), mask, picked_angles, angles)

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        query_angles: Angles | None,
        key_angles: Angles | None,
    ) -> torch.Tensor:
        if query_angles is not None and key_angles is not None:
            query, key = rotate(query, query_angles), rotate(key, key_angles)
        dropout = self.dropout_prob if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def weights(self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None) -> torch.Tensor:
        """The attention itself, [B, H, T, T], to be looked at."""
        query, key, _ = (self._heads(part) for part in self.qkv(hidden_BTD).chunk(3, dim=-1))
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        return scores.softmax(-1)
