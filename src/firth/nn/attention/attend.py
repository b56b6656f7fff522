"""Which tokens may look at which: padding, what is to come, and a window.

B batch, T tokens.
"""

from typing import Any

import torch
from torch.nn import functional

from firth.nn.layers import growth, kept


def visible(
    num_tokens: int,
    tokens_BT: torch.Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    device: torch.device | str = "cpu",
) -> torch.Tensor | None:
    """Boolean [B or 1, 1, T or 1, T], true where query (row) may look at key (column); None for everywhere.

    ``tokens`` is true where there is a token, ``window`` lets a token look at most so many away.
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


def with_bias(bias: torch.Tensor | None, mask: torch.Tensor | None) -> torch.Tensor | None:
    """A mask and numbers to add to the scores as one."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    # finite, so that a row that may look at nothing (padding beyond a window) has an even softmax and not NaN
    return bias.masked_fill(~mask, torch.finfo(bias.dtype).min)


_AT_ONCE = 1 << 18  # scores that stay in the cache


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout_prob: float = 0.0,
    causal: bool = False,
) -> torch.Tensor:
    """[B, H, T, K]. ``mask`` is boolean (true: may look) or a number to add; ``causal`` without a mask lets a token
    look at itself and what is before it."""
    if query.device.type == "cpu" and dropout_prob:
        if causal and mask is None:
            mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        if query.dtype != value.dtype:  # under autocast, rotated queries and keys stay in single precision
            query, key = query.to(value.dtype), key.to(value.dtype)
        mixed: torch.Tensor = DroppedAttention.apply(query, key, value, mask, dropout_prob, query.shape[-1] ** -0.5)
        return mixed
    if mask is not None and mask.requires_grad and not dropout_prob:
        return attend_with_bias(query, key, value, mask)
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout_prob, is_causal=causal and mask is None
    )


class DroppedAttention(torch.autograd.Function):
    """Attention whose weights are left out at random, for which processors have no fused kernel. A few heads at a time, so that
    scores stay in the cache; of the weights only which ones are kept is remembered, the rest is computed again on the
    way back."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        dropout_prob: float,
        scale: float,
    ) -> torch.Tensor:
        ctx.shape = torch.Size((*query.shape[:3], key.shape[2]))
        ctx.scale, ctx.growth, ctx.mask_shape = scale, growth(dropout_prob), None if mask is None else mask.shape
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
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
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
    """Places for the scores of a few heads, used again and again."""

    def __init__(self, shape: torch.Size, dtype: torch.dtype, number: int) -> None:
        heads = shape[0] * shape[1]
        size = max(1, min(heads, _AT_ONCE // max(1, shape[2:].numel())))
        self.parts = [slice(first, min(first + size, heads)) for first in range(0, heads, size)]
        self.places = [torch.empty((size, *shape[2:]), dtype=dtype) for _ in range(number)]

    def of(self, part: slice) -> list[torch.Tensor]:
        return [place[: part.stop - part.start] for place in self.places]


def _as_bias(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Numbers to add to the scores."""
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
    """Attention under a bias that learns, for which there is no fused kernel: the bias is where the product of queries and
    keys begins, so that nothing but the softmax passes over the scores."""
    shape = (*query.shape[:3], key.shape[2])
    factor = query.shape[-1] ** -0.5
    flat = [part.flatten(0, 1) for part in (query, key, value)]
    scores = torch.baddbmm(bias.expand(shape).flatten(0, 1), flat[0], flat[1].transpose(1, 2), alpha=factor)
    return torch.bmm(scores.softmax(-1), flat[2]).view_as(query)


def attention_weights(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """softmax(QKᵀ/√K), to be looked at."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1)
