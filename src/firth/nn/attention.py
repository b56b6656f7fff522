"""Attention (Vaswani et al. 2017): positions (sinusoids, rotary angles, bucketed relative bias), masks, scaled
dot-product attention with dropout or a learned bias, and the multi-head self-attention layer.

B batch, H heads, T tokens, P picked tokens, N tokens of sequences end to end, D hidden size, K = D / H head size (D
in the functions for positions).
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional

from firth.core.config import require_memory
from firth.nn.cache import KeyValues, Past
from firth.nn.layers import GradientContext, growth, kept

_AT_ONCE = 1 << 18  # scores that stay in the cache
_MANY_PAIRS, _INDEX_BYTES = 1 << 24, 8  # of tokens, from which on memory is looked at; of the number of a bucket
Angles = tuple[torch.Tensor, torch.Tensor]
Groups = list[tuple[int, int, int]]  # of sequences end to end: first token, how many of equal length, that length


def sinusoids(num_positions: int, dim: int, base: float = 10000.0) -> torch.Tensor:
    """[num_positions, dim]: sin in the first half, cos in the second, of one frequency per column (Vaswani et al.
    2017, 3.5, where the two take turns; which column is which makes no difference to a model)."""
    if torch.get_default_device().type == "meta":  # shapes alone; torch would load its compiler for the rest
        return torch.empty(num_positions, dim)
    frequencies = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies
    return torch.cat((angles.sin(), angles.cos()[:, : dim // 2]), dim=1).float()


def repeat_positions(module: nn.Module, trained: int) -> None:
    """Fills learned positions beyond those that were trained with copies of these (as Beltagy et al.
    2020 made RoBERTa longer). Neighbours in a longer text then have the positions of neighbours in training."""
    for name, part in module.named_modules():
        if name.endswith("positions") and isinstance(part, nn.Embedding) and part.num_embeddings > trained:
            with torch.no_grad():
                part.weight.copy_(part.weight[torch.arange(part.num_embeddings, device=part.weight.device) % trained])


def rotary_angles(
    positions_BT: torch.Tensor, head_dim: int, base: float = 10000.0, frequencies: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [B, 1, T, D] for positions (Su et al. 2021)."""
    if frequencies is None:
        steps = torch.arange(0, head_dim, 2, device=positions_BT.device, dtype=torch.float32)
        frequencies = base ** (-steps / head_dim)
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
    """A learned bias per head and bucket, added to the attention scores; shared by all layers."""

    def __init__(
        self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_buckets, num_heads))
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional

    def forward(self, queries_BQ: torch.Tensor, keys_BK: torch.Tensor) -> torch.Tensor:
        """[B, H, Q, K] from the positions of queries and keys."""
        num_pairs = queries_BQ.numel() * keys_BK.shape[-1]
        if num_pairs > _MANY_PAIRS:  # nothing else bounds the length of a text
            needed = num_pairs * (4 * self.weight.shape[1] * self.weight.element_size() + 4 * _INDEX_BYTES)
            require_memory(needed, f"attention between {keys_BK.shape[-1]:,} tokens", "shorten the text")
        buckets = relative_buckets(
            keys_BK[:, None, :] - queries_BQ[:, :, None], self.num_buckets, self.max_distance, self.bidirectional
        )
        return self.weight[buckets].permute(0, 3, 1, 2)


def visible(
    num_tokens: int,
    tokens_BT: torch.Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    device: torch.device | str = "cpu",
) -> torch.Tensor | None:
    """Boolean [B or 1, 1, T or 1, T], true where a query (row) may attend to a key (column); None for everywhere.

    ``tokens`` is true where there is a token, ``window`` limits the distance.
    """
    found = None if tokens_BT is None else tokens_BT[:, None, None, :]
    if causal or window is not None:
        places = torch.arange(num_tokens, device=device)
        away = places[:, None] - places[None, :]
        near = torch.ones_like(away, dtype=torch.bool)
        if causal:
            near &= away >= 0
        if window is not None:
            near &= away.abs() <= window
        found = near[None, None] if found is None else found & near
    return found


_HIDDEN = (
    -30000.0
)  # finite in every precision, so that a row that attends to nothing (padding beyond a window) is not NaN


def with_bias(bias: torch.Tensor | None, mask: torch.Tensor | None) -> torch.Tensor | None:
    """A mask and a bias combined into one bias on the scores."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, _HIDDEN)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout_prob: float = 0.0,
    causal: bool = False,
) -> torch.Tensor:
    """[B, H, T, K]. ``mask`` is boolean (true: attend) or a bias; ``causal`` without a mask lets a token attend to
    itself and what is before it."""
    if query.device.type == "cpu" and dropout_prob:
        if causal and mask is None:
            mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        if query.dtype != value.dtype:  # under autocast, rotated queries and keys stay in single precision
            query, key = query.to(value.dtype), key.to(value.dtype)
        mixed: torch.Tensor = DroppedAttention.apply(query, key, value, mask, dropout_prob, query.shape[-1] ** -0.5)
        return mixed
    if mask is not None and mask.requires_grad and not dropout_prob:
        return attend_with_bias(query, key, value, mask)
    if _prefers_products(query, value):
        return _attend_by_products(query, key, value, mask, causal)
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout_prob, is_causal=causal and mask is None
    )


_SHORT = 512  # tokens: beyond, the scores of all heads are too many to be kept


def _prefers_products(query: torch.Tensor, value: torch.Tensor) -> bool:
    """In bfloat16 PyTorch's fused kernel for CPUs takes several times as long as two products and a softmax, most of it on
    the way back. (Under autocast rotated queries and keys are in single precision still, values are not.)"""
    is_half = query.device.type == "cpu" and value.dtype == torch.bfloat16
    return is_half and query.requires_grad and query.shape[2] <= _SHORT


def _attend_by_products(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, causal: bool
) -> torch.Tensor:
    """Scores, softmax and sum one after another; the products in the values' precision."""
    if causal and mask is None:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    flat = [part.to(value.dtype).flatten(0, 1) for part in (query * query.shape[-1] ** -0.5, key, value)]
    scores = torch.bmm(flat[0], flat[1].transpose(1, 2)).view(*query.shape[:3], key.shape[2])
    bias = _as_bias(mask, value.dtype)
    weights = (scores if bias is None else scores + bias).softmax(-1, dtype=value.dtype)
    return torch.bmm(weights.flatten(0, 1), flat[2]).view(*query.shape[:3], value.shape[3])


class _DropoutContext(GradientContext, Protocol):
    shape: torch.Size
    scale: float
    growth: float
    mask_shape: torch.Size


class DroppedAttention(torch.autograd.Function):
    """Attention with dropout on its weights, for which there is no fused CPU kernel. A few heads at a time, so that
    scores stay in the cache; of the weights only the dropout mask is kept, the rest is recomputed in the backward
    pass."""

    @staticmethod
    def forward(
        ctx: _DropoutContext,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        dropout_prob: float,
        scale: float,
    ) -> torch.Tensor:
        ctx.shape = torch.Size((*query.shape[:3], key.shape[2]))
        ctx.scale, ctx.growth = scale, growth(dropout_prob)
        ctx.mask_shape = torch.Size() if mask is None else mask.shape
        flat = [part.flatten(0, 1).contiguous() for part in (query, key, value)]
        kept_NTS = kept(ctx.shape, dropout_prob).flatten(0, 1)
        bias = _as_bias(mask, query.dtype)
        mixed = torch.empty_like(flat[0])
        scratch = _Scratch(ctx.shape, query.dtype, 3)
        for part in scratch.parts:
            scores, weights, mine = scratch.of(part)
            _weights(scores, weights, flat[0][part], flat[1][part], _of(bias, ctx.shape, part), scale)
            weights.mul_(mine.copy_(kept_NTS[part]))
            torch.baddbmm(mixed[part], weights, flat[2][part], beta=0, alpha=ctx.growth, out=mixed[part])
        ctx.save_for_backward(*flat, bias, kept_NTS)
        return mixed.view(query.shape)

    @staticmethod
    def backward(ctx: _DropoutContext, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, bias, kept_NTS = ctx.saved_tensors
        back = gradients[0].flatten(0, 1).contiguous()
        found = [torch.empty_like(part) for part in (query, key, value)]
        by_bias = query.new_zeros(kept_NTS.shape) if ctx.needs_input_grad[3] else None
        scratch = _Scratch(ctx.shape, query.dtype, 4)
        for part in scratch.parts:
            scores, weights, mine, by_weights = scratch.of(part)
            _weights(scores, weights, query[part], key[part], _of(bias, ctx.shape, part), ctx.scale)
            mine.copy_(kept_NTS[part]).mul_(ctx.growth)
            torch.bmm(torch.mul(weights, mine, out=scores).transpose(1, 2), back[part], out=found[2][part])
            torch.bmm(back[part], value[part].transpose(1, 2), out=by_weights).mul_(mine)
            torch.ops.aten._softmax_backward_data(by_weights, weights, -1, query.dtype, grad_input=scores)
            if by_bias is not None:
                by_bias[part] = scores
            scaled = {"beta": 0, "alpha": ctx.scale}
            torch.baddbmm(found[0][part], scores, key[part], **scaled, out=found[0][part])
            torch.baddbmm(found[1][part], scores.transpose(1, 2), query[part], **scaled, out=found[1][part])
        by_mask = None if by_bias is None else by_bias.view(ctx.shape).sum_to_size(ctx.mask_shape)
        return (*(part.unflatten(0, ctx.shape[:2]) for part in found), by_mask, None, None)


class _Scratch:
    """Reused buffers for the scores of a few heads."""

    def __init__(self, shape: torch.Size, dtype: torch.dtype, number: int) -> None:
        heads = shape[0] * shape[1]
        size = max(1, min(heads, _AT_ONCE // max(1, shape[2:].numel())))
        self.parts = [slice(first, min(first + size, heads)) for first in range(0, heads, size)]
        self.places = [torch.empty((size, *shape[2:]), dtype=dtype) for _ in range(number)]

    def of(self, part: slice) -> list[torch.Tensor]:
        return [place[: part.stop - part.start] for place in self.places]


def _as_bias(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """The mask as a bias on the scores."""
    if mask is None or mask.dtype != torch.bool:
        return None if mask is None else mask.to(dtype)
    return with_bias(torch.zeros(mask.shape, dtype=dtype), mask)


def _of(bias: torch.Tensor | None, shape: torch.Size, part: slice) -> torch.Tensor | None:
    """The bias of some heads of all sequences."""
    if bias is None or bias.ndim == 2:
        return bias
    if bias.shape[:-2].numel() == 1:
        return bias.flatten(0, -3)
    heads = torch.arange(part.start, part.stop)
    return bias.expand(*shape[:2], *bias.shape[-2:])[heads // shape[1], heads % shape[1]]


def _weights(
    scores: torch.Tensor,
    weights: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    scale: float,
) -> None:
    torch.baddbmm(scores, query, key.transpose(1, 2), beta=0, alpha=scale, out=scores)
    torch.softmax(scores if bias is None else scores.add_(bias), -1, out=weights)


def attend_with_bias(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Attention with a learned bias, for which there is no fused kernel: the bias is where the product of queries and
    keys begins, so that nothing but the softmax passes over the scores."""
    shape = (*query.shape[:3], key.shape[2])
    factor = query.shape[-1] ** -0.5
    flat = [part.flatten(0, 1) for part in (query, key, value)]
    scores = torch.baddbmm(bias.expand(shape).flatten(0, 1), flat[0], flat[1].transpose(1, 2), alpha=factor)
    return torch.bmm(scores.softmax(-1), flat[2]).view_as(query)


def attention_weights(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """softmax(QKᵀ/√K), for inspection."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1)


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

    def matrices(self) -> dict[str, int]:
        """For Muon: weights, and how many maps are kept in each."""
        return {"qkv.weight": 3, "out.weight": 1}

    def _heads(self, hidden_BTD: torch.Tensor) -> torch.Tensor:
        return hidden_BTD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(
        self, hidden_BTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None, causal: bool = False
    ) -> torch.Tensor:
        """``mask`` is boolean (true: attend) or a bias, broadcast to [B, H, T, T]; ``causal`` without a
        mask lets a token attend to itself and what is before it."""
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
        self,
        hidden_NTD: torch.Tensor,
        cache: KeyValues,
        layer: int,
        mask: torch.Tensor | None,
        first: int = 0,
        angles: Angles | None = None,
    ) -> torch.Tensor:
        """The tokens that the cache was opened for, which gave the mask; they look back as far as token ``first``."""
        assert angles is None
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
        """Queries of some tokens only, keys and values of all. The same values as ``forward`` at those tokens."""
        dim = self.out.in_features
        weight, bias = self.qkv.weight, self.qkv.bias
        query = functional.linear(picked_BPD, weight[:dim], None if bias is None else bias[:dim])
        both = functional.linear(hidden_BTD, weight[dim:], None if bias is None else bias[dim:])
        key, value = both.chunk(2, dim=-1)
        return self._attend(self._heads(query), self._heads(key), self._heads(value), mask, picked_angles, angles)

    def packed(
        self, hidden_ND: torch.Tensor, groups: Groups, angles: Angles | None, window: int | None = None
    ) -> torch.Tensor:
        """Sequences end to end, without padding: each sees itself only, as far as the window. The same values as
        ``forward`` for each."""
        parts = self.qkv(hidden_ND).split([count * length for _, count, length in groups])
        dropout = self.dropout_prob if self.training else 0.0
        mixed = []
        for part, (first, count, length) in zip(parts, groups, strict=True):
            query, key, value = part.view(count, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
            if angles is not None:
                mine = (angles[0][0, :, first : first + length], angles[1][0, :, first : first + length])
                query, key = rotate(query, mine), rotate(key, mine)
            near = None if window is None or length <= window else visible(length, window=window, device=query.device)
            found = attend(query, key, value, near, dropout)
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
        """The attention itself, [B, H, T, T], for inspection."""
        query, key, _ = (self._heads(part) for part in self.qkv(hidden_BTD).chunk(3, dim=-1))
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        return attention_weights(query, key, mask)


_PEAK = 2.0  # how much more the neighbour is worth, in the units of scores, for each of the
_FASTEST = 6  # angles that turn fastest, which tell near places apart
_COMMON = 2.0  # how much all tokens have in common, in deviations of the table


@torch.no_grad()
def look_near(
    table_VD: torch.Tensor,
    attentions: Sequence[SelfAttention],
    offsets: Sequence[int],
    rotary_base: float,
    generator: torch.Generator,
) -> None:
    """Heads begin by looking at a neighbour, ``offsets`` in turn, which a short training is slow to find. For rotary positions, and as many
    heads of keys as of queries.

    All tokens get a common part, and the queries and keys of a head read that part alone: such that their product after rotation
    is largest at the head's distance. A common part changes no score of the output, where every token has it.
    """
    width = table_VD.shape[1]
    common_D = torch.randn(width, generator=generator)
    common_D = (common_D - common_D.mean()) / (common_D - common_D.mean()).norm()
    table_VD += _COMMON * float(table_VD.std()) * width**0.5 * common_D
    for number, (attention, head) in enumerate((one, head) for one in attentions for head in range(one.num_heads)):
        rows_HKD = attention.qkv.weight.view(3, attention.num_heads, -1, width)
        size = rows_HKD.shape[2]
        height = (_PEAK * size**0.5) ** 0.5 / (width / 2) ** 0.5  # of a normed row half of the square is common, about
        first = torch.arange(min(_FASTEST, size // 2))
        turn = -offsets[number % len(offsets)] * rotary_base ** (-2.0 * first / size)
        query_K, key_K = torch.zeros(size), torch.zeros(size)
        query_K[first] = height
        key_K[first], key_K[first + size // 2] = height * turn.cos(), height * turn.sin()
        rows_HKD[0, head] += torch.outer(query_K, common_D)
        rows_HKD[1, head] += torch.outer(key_K, common_D)
