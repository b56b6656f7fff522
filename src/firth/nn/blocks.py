"""Transformer blocks of encoders and decoders (Vaswani et al. 2017), norm after (as published) or before each
sub-layer; cross-attention, the feed-forward layer, and the initialisations of weights.

B batch, T tokens (of the target, in a decoder), S source tokens, P picked tokens, N tokens of sequences end to end
or rows of decoding (equally many per sentence), D hidden size, H heads, K head size.
"""

import functools
from collections.abc import Callable
from typing import ClassVar, Protocol

import torch
from torch import nn
from torch.nn import functional

from firth.nn.attention import Angles, Groups, RelativeBias, SelfAttention, attend, attention_weights
from firth.nn.cache import KeyValues, Past
from firth.nn.layers import build_norm, dropout

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": functional.gelu,
    "gelu_tanh": functools.partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}


class BlockConfig(Protocol):
    """The settings that a block reads."""

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
    """The further settings of a block with cross-attention."""

    @property
    def head_dim(self) -> int | None: ...
    @property
    def activation_dropout_prob(self) -> float: ...


class FeedForward(nn.Module):
    """Two matrix products with an activation between; gated: one half multiplies the other (Shazeer 2020)."""

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

    def matrices(self) -> dict[str, int]:
        """For Muon: weights, and how many maps are kept in each."""
        return {"inner.weight": 2 if self.gated else 1, "outer.weight": 1}

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

    entries: ClassVar[tuple[str, ...]] = ("packed", "picked")  # how else than by ``forward`` a training reads it

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

    def packed(
        self, hidden_ND: torch.Tensor, groups: Groups, angles: Angles | None, window: int | None = None
    ) -> torch.Tensor:
        """Sequences end to end, without padding."""
        if self.norm_first:
            mixed = self.attention.packed(self.attention_norm(hidden_ND), groups, angles, window)
            hidden_ND = hidden_ND + self._drop(mixed)
        else:
            mixed = self.attention.packed(hidden_ND, groups, angles, window)
            hidden_ND = self.attention_norm(hidden_ND + self._drop(mixed))
        return self._feed(hidden_ND)

    def cached(
        self,
        hidden_NTD: torch.Tensor,
        cache: KeyValues,
        layer: int,
        mask: torch.Tensor | None,
        angles: Angles | None = None,
    ) -> torch.Tensor:
        """The tokens that the cache was opened for (norm first only)."""
        assert self.norm_first
        mixed = self.attention.cached(self.attention_norm(hidden_NTD), cache, layer, mask, 0, angles)
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

    def matrices(self) -> dict[str, int]:
        """For Muon: weights, and how many maps are kept in each."""
        return {"query.weight": 1, "kv.weight": 2, "out.weight": 1}

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
        """The attention itself, [B, H, T, S], for inspection."""
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
        """Self-attention [B, H, T, T] and attention to the source [B, H, T, S], for inspection."""
        read = self._before(self.attention_norm, hidden_BTD)
        own = self.attention.weights(read, mask, None)
        hidden_BTD = self._after(self.attention_norm, hidden_BTD, self.attention(read, mask, None, causal=True))
        return own, self.cross.weights(self._before(self.cross_norm, hidden_BTD), memory, source_mask)


def initialize(module: nn.Module, std: float, generator: torch.Generator) -> None:
    """Normal weights for matrices and tables, zeros for biases; norms stay at one."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std, generator=generator)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def initialize_xavier(module: nn.Module, table_std: float, generator: torch.Generator) -> None:
    """Matrices by their widths (Glorot & Bengio 2010), tables normal, zeros for biases; norms stay at one.
    What Transformers with the norm after each sub-layer train well from."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=table_std, generator=generator)


def initialize_by_width(module: nn.Module, hidden_dim: int, generator: torch.Generator) -> None:
    """T5's start (Raffel et al. 2020): every matrix normal with a variance of one over the width that it reads; tables of
    variance one. There queries are smaller by the root of a head's width, here scores are divided by it.

    Two things are given that a short training is slow to find: heads look near, each in its own measure (after Press et al.
    2022, where that is fixed and by distance, not by bucket), and attention to the source begins with keys that are its
    queries, so that a token of the target, a sentinel above all, finds itself there."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=part.in_features**-0.5, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=1.0, generator=generator)
        elif isinstance(part, RelativeBias):
            nn.init.normal_(part.weight, std=hidden_dim**-0.5, generator=generator)
            prefer_near(part)
    for part in module.modules():
        if isinstance(part, CrossAttention):
            part.kv.weight.data[: len(part.query.weight)] = part.query.weight.data


@torch.no_grad()
def prefer_near(bias: RelativeBias) -> None:
    """Every bucket further away costs the first head 1, the others less and less, the last about a sixteenth."""
    num_heads = bias.weight.shape[1]
    sides_SNH = bias.weight.view(1 + bias.bidirectional, -1, num_heads)
    sides_SNH -= torch.arange(sides_SNH.shape[1])[:, None] * 2.0 ** (-4 * torch.arange(num_heads) / num_heads)


def initialize_uniform(module: nn.Module, bound: float, generator: torch.Generator) -> None:
    """All weights and biases uniform in (-bound, bound), as in recurrent translators (Sutskever et al. 2014)."""
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
