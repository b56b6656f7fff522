"""Attention from one sequence to another, and the decoder's block (Vaswani et al. 2017, 3.2.3).

B batch, T target tokens, S source tokens, N rows of decoding (equally many a sentence), D hidden
size, H heads, K head size.
"""

import torch
from torch import nn

from firth.nn.attention.attend import attend, attention_weights
from firth.nn.attention.cache import KeyValues, Past
from firth.nn.attention.self_attention import SelfAttention
from firth.nn.blocks import DecoderBlockConfig, FeedForward
from firth.nn.layers import build_norm, dropout


class CrossAttention(nn.Module):
    """Queries from the target, keys and values from the source."""

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
        self.query = nn.Linear(hidden_dim, inner_dim, bias=bias)
        self.kv = nn.Linear(hidden_dim, 2 * inner_dim, bias=bias)
        self.out = nn.Linear(inner_dim, hidden_dim, bias=bias)

    def _heads(self, hidden_BTD: torch.Tensor) -> torch.Tensor:
        return hidden_BTD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def remember(self, source_BSD: torch.Tensor) -> Past:
        """Keys and values [B, H, S, K] of the source: computed once for all target tokens."""
        key, value = self.kv(source_BSD).chunk(2, dim=-1)
        return self._heads(key), self._heads(value)

    def forward(self, hidden_BTD: torch.Tensor, memory: Past, mask: torch.Tensor | None) -> torch.Tensor:
        """``mask`` as in self-attention, broadcast to [B, H, T, S]."""
        query = self._heads(self.query(hidden_BTD))
        mixed = attend(query, *memory, mask, self.dropout_prob if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def weights(self, hidden_BTD: torch.Tensor, memory: Past, mask: torch.Tensor | None) -> torch.Tensor:
        """The attention itself, [B, H, T, S], to be looked at."""
        return attention_weights(self._heads(self.query(hidden_BTD)), memory[0], mask)


class DecoderBlock(nn.Module):
    """Self-attention, attention to the source, feed-forward, each with dropout, residual and norm."""

    def __init__(self, config: DecoderBlockConfig) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.dropout_prob = config.dropout_prob
        shape = (config.hidden_dim, config.num_heads, config.attention_dropout_prob, config.bias)
        self.attention = SelfAttention(*shape, config.head_dim)
        self.attention_norm = build_norm(config.norm, config.hidden_dim, config.norm_eps, config.bias)
        self.cross = CrossAttention(*shape, config.head_dim)
        self.cross_norm = build_norm(config.norm, config.hidden_dim, config.norm_eps, config.bias)
        self.ffn = FeedForward(
            config.hidden_dim,
            config.ffn_dim,
            config.activation,
            config.gated,
            config.bias,
            config.activation_dropout_prob,
        )
        self.ffn_norm = build_norm(config.norm, config.hidden_dim, config.norm_eps, config.bias)

    def _drop(self, hidden: torch.Tensor) -> torch.Tensor:
        return dropout(hidden, self.dropout_prob, self.training)

    def _before(self, norm: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        """What a sub-layer reads."""
        return norm(hidden) if self.norm_first else hidden

    def _after(self, norm: nn.Module, hidden: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        """The residual around a sub-layer."""
        hidden = hidden + self._drop(found)
        return hidden if self.norm_first else norm(hidden)

    def forward(
        self, hidden_BTD: torch.Tensor, memory: Past, mask: torch.Tensor | None, source_mask: torch.Tensor | None
    ) -> torch.Tensor:
        """All target tokens at once; ``mask`` None means that each sees itself and those before it."""
        read = self._before(self.attention_norm, hidden_BTD)
        hidden_BTD = self._after(self.attention_norm, hidden_BTD, self.attention(read, mask, None, causal=True))
        return self._rest(hidden_BTD, memory, source_mask)

    def step(
        self,
        hidden_N1D: torch.Tensor,
        cache: KeyValues,
        layer: int,
        memory: Past,
        mask: torch.Tensor | None,
        source_mask: torch.Tensor | None,
        first: int,
    ) -> torch.Tensor:
        """One more token a row, which sees those from ``first`` on. The rows of a sentence ask its memory together,
        so that it is kept once."""
        read = self._before(self.attention_norm, hidden_N1D)
        found = self.attention.cached(read, cache, layer, mask, first)
        hidden_N1D = self._after(self.attention_norm, hidden_N1D, found)
        grouped = hidden_N1D.view(len(memory[0]), -1, hidden_N1D.shape[-1])
        return self._rest(grouped, memory, source_mask).view_as(hidden_N1D)

    def _rest(self, hidden_BTD: torch.Tensor, memory: Past, source_mask: torch.Tensor | None) -> torch.Tensor:
        read = self._before(self.cross_norm, hidden_BTD)
        hidden_BTD = self._after(self.cross_norm, hidden_BTD, self.cross(read, memory, source_mask))
        read = self._before(self.ffn_norm, hidden_BTD)
        return self._after(self.ffn_norm, hidden_BTD, self.ffn(read))

    def weights(
        self, hidden_BTD: torch.Tensor, memory: Past, mask: torch.Tensor | None, source_mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Self-attention [B, H, T, T] and attention to the source [B, H, T, S], to be looked at."""
        read = self._before(self.attention_norm, hidden_BTD)
        own = self.attention.weights(read, mask, None)
        hidden_BTD = self._after(self.attention_norm, hidden_BTD, self.attention(read, mask, None, causal=True))
        return own, self.cross.weights(self._before(self.cross_norm, hidden_BTD), memory, source_mask)
