"""The Transformer block, norm after (as published) or before each sub-layer.

B batch, T tokens, P picked tokens, N tokens of sequences end to end, D hidden size.
"""

import functools
from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional

from firth.nn.attention.cache import KeyValues, Past
from firth.nn.attention.self_attention import Angles, Groups, SelfAttention
from firth.nn.layers import build_norm, dropout

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": functional.gelu,
    "gelu_tanh": functools.partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}


class BlockConfig(Protocol):
    """What a block asks of the settings of its model."""

    @property
    def hidden_dim(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def ffn_dim(self) -> int: ...
    @property
    def dropout_prob(self) -> float: ...
    @property
    def attention_dropout_prob(self) -> float: ...
    @property
    def activation(self) -> str: ...
    @property
    def gated(self) -> bool: ...
    @property
    def norm(self) -> str: ...
    @property
    def norm_first(self) -> bool: ...
    @property
    def norm_eps(self) -> float: ...
    @property
    def bias(self) -> bool: ...


class DecoderBlockConfig(BlockConfig, Protocol):
    """What a block with cross-attention asks besides."""

    @property
    def head_dim(self) -> int | None: ...
    @property
    def activation_dropout_prob(self) -> float: ...


class FeedForward(nn.Module):
    """Two matrix products with an activation between; gated: one half switches the other (Shazeer 2020)."""

    def __init__(
        self, hidden_dim: int, ffn_dim: int, activation: str, gated: bool, bias: bool, dropout_prob: float = 0.0
    ) -> None:
        """``dropout_prob`` is that of the inner activations."""
        super().__init__()
        self.gated = gated
        self.dropout_prob = dropout_prob
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(hidden_dim, 2 * ffn_dim if gated else ffn_dim, bias=bias)
        self.outer = nn.Linear(ffn_dim, hidden_dim, bias=bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        inner = self.inner(hidden)
        if self.gated:
            gate, value = inner.chunk(2, dim=-1)
            inner = self.activation(gate) * value
        else:
            inner = self.activation(inner)
        return self.outer(dropout(inner, self.dropout_prob, self.training))


class Block(nn.Module):
    """Attention, then feed-forward, each with dropout, residual and norm."""

    def __init__(
        self,
        config: BlockConfig,
        activation_dropout_prob: float = 0.0,
        head_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.norm_first = config.norm_first
        self.dropout_prob = config.dropout_prob
        self.attention = SelfAttention(
            config.hidden_dim, config.num_heads, config.attention_dropout_prob, config.bias, head_dim
        )
        self.attention_norm = build_norm(config.norm, config.hidden_dim, config.norm_eps, config.bias)
        self.ffn = FeedForward(
            config.hidden_dim, config.ffn_dim, config.activation, config.gated, config.bias, activation_dropout_prob
        )
        self.ffn_norm = build_norm(config.norm, config.hidden_dim, config.norm_eps, config.bias)

    def _drop(self, hidden: torch.Tensor) -> torch.Tensor:
        return dropout(hidden, self.dropout_prob, self.training)

    def forward(
        self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None, causal: bool = False
    ) -> torch.Tensor:
        if self.norm_first:
            hidden_BTD = hidden_BTD + self._drop(self.attention(self.attention_norm(hidden_BTD), mask, angles, causal))
        else:
            hidden_BTD = self.attention_norm(hidden_BTD + self._drop(self.attention(hidden_BTD, mask, angles, causal)))
        return self._feed(hidden_BTD)

    def packed(self, hidden_ND: torch.Tensor, groups: Groups, angles: Angles | None) -> torch.Tensor:
        """Sequences end to end, without padding."""
        if self.norm_first:
            hidden_ND = hidden_ND + self._drop(self.attention.packed(self.attention_norm(hidden_ND), groups, angles))
        else:
            hidden_ND = self.attention_norm(hidden_ND + self._drop(self.attention.packed(hidden_ND, groups, angles)))
        return self._feed(hidden_ND)

    def cached(self, hidden_NTD: torch.Tensor, cache: KeyValues, layer: int, mask: torch.Tensor | None) -> torch.Tensor:
        """The tokens that the cache was opened for (norm first only)."""
        assert self.norm_first
        mixed = self.attention.cached(self.attention_norm(hidden_NTD), cache, layer, mask)
        return self._feed(hidden_NTD + mixed)

    def step(
        self, hidden_NTD: torch.Tensor, past: Past | None, mask: torch.Tensor | None, angles: Angles | None
    ) -> tuple[torch.Tensor, Past]:
        """Tokens that follow others of which keys and values are known; the mask says what each may see."""
        if self.norm_first:
            mixed, past = self.attention.step(self.attention_norm(hidden_NTD), past, mask, angles)
            return self._feed(hidden_NTD + mixed), past
        mixed, past = self.attention.step(hidden_NTD, past, mask, angles)
        return self._feed(self.attention_norm(hidden_NTD + mixed)), past

    def picked(
        self,
        hidden_BTD: torch.Tensor,
        picks_BP: torch.Tensor,
        mask: torch.Tensor | None,
        angles: Angles | None,
        picked_angles: Angles | None,
    ) -> torch.Tensor:
        """The block's output at the picked tokens only, for a fraction of the work (the last block
        of a model whose loss reads few positions)."""
        index = picks_BP[:, :, None].expand(-1, -1, hidden_BTD.shape[-1])
        picked_BPD = hidden_BTD.gather(1, index)
        if self.norm_first:
            normed = self.attention_norm(hidden_BTD)
            picked_BPD = picked_BPD + self._drop(
                self.attention.picked(normed, normed.gather(1, index), mask, angles, picked_angles)
            )
        else:
            mixed = self.attention.picked(hidden_BTD, picked_BPD, mask, angles, picked_angles)
            picked_BPD = self.attention_norm(picked_BPD + self._drop(mixed))
        return self._feed(picked_BPD)

    def _feed(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.norm_first:
            return hidden + self._drop(self.ffn(self.ffn_norm(hidden)))
        return self.ffn_norm(hidden + self._drop(self.ffn(hidden)))
