"""Attention in short windows with a learned bias (Liu et al. 2021, 3.2), on the CPU.

Rows of a few scores are the slow case of PyTorch's kernels: in bfloat16 a softmax over 16 takes three times as long as in single
precision, and its gradient twenty times. So queries, keys and values are copied once, head by head, into single precision; between
that copy and the one back there is nothing but products and the softmax.

R rows (windows of all images, those of an image next to each other), W windows with a bias of their own, H heads, T tokens of a
window, D hidden size, K = D / H head size.
"""

from typing import Protocol

import torch

from firth.nn.attention import Angles, SelfAttention
from firth.nn.layers import GradientContext


class _WindowsContext(GradientContext, Protocol):
    num_heads: int
    num_biases: int
    scale: float


class AttentionInWindows(torch.autograd.Function):
    """softmax(QKᵀ/√K + bias)V of [R, T, 3 D], as [R, T, D]."""

    @staticmethod
    def forward(ctx: _WindowsContext, qkv_RTE: torch.Tensor, bias_WHTT: torch.Tensor, num_heads: int) -> torch.Tensor:
        rows, length, width = qkv_RTE.shape
        ctx.num_heads, ctx.num_biases, ctx.scale = num_heads, len(bias_WHTT), (width // 3 // num_heads) ** -0.5
        with torch.autocast("cpu", enabled=False):
            heads_3HRTK = qkv_RTE.view(rows, length, 3, num_heads, -1).permute(2, 3, 0, 1, 4)
            parts = torch.empty(heads_3HRTK.shape, dtype=bias_WHTT.dtype).copy_(heads_3HRTK).flatten(1, 2)
            scores = torch.bmm(parts[0], parts[1].transpose(1, 2)).view(num_heads, -1, *bias_WHTT.shape[::2], length)
            torch.add(bias_WHTT.transpose(0, 1)[:, None], scores, alpha=ctx.scale, out=scores)
            weights = scores.softmax(-1).flatten(0, 2)
            ctx.save_for_backward(parts, weights)
            mixed_HRTK = torch.bmm(weights, parts[2]).view(num_heads, rows, length, -1)
            found = qkv_RTE.new_empty(rows, length, width // 3)
            found.unflatten(-1, (num_heads, -1)).permute(2, 0, 1, 3).copy_(mixed_HRTK)
        return found

    @staticmethod
    def backward(ctx: _WindowsContext, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        parts, weights = ctx.saved_tensors
        (rows, length, dim), num_heads = gradients[0].shape, ctx.num_heads
        with torch.autocast("cpu", enabled=False):
            heads_HRTK = gradients[0].unflatten(-1, (num_heads, -1)).permute(2, 0, 1, 3)
            back = torch.empty(heads_HRTK.shape, dtype=parts.dtype).copy_(heads_HRTK).flatten(0, 1)
            found = torch.empty_like(parts)
            torch.bmm(weights.transpose(1, 2), back, out=found[2])
            by_weights = torch.bmm(back, parts[2].transpose(1, 2))
            by_scores = torch.ops.aten._softmax_backward_data(by_weights, weights, -1, parts.dtype)
            scaled = {"beta": 0, "alpha": ctx.scale}
            torch.baddbmm(found[0], by_scores, parts[1], **scaled, out=found[0])
            torch.baddbmm(found[1], by_scores.transpose(1, 2), parts[0], **scaled, out=found[1])
            by_bias = by_scores.view(num_heads, -1, ctx.num_biases, length, length).sum(1).transpose(0, 1)
            by_qkv = gradients[0].new_empty(rows, length, 3 * dim)
            by_qkv.view(rows, length, 3, num_heads, -1).permute(2, 3, 0, 1, 4).copy_(
                found.view(3, num_heads, rows, length, -1)
            )
        return by_qkv, by_bias, None


class WindowAttention(SelfAttention):
    """Self-attention whose mask is a bias for each of the windows of an image, [1 or W, H, T, T], repeated for all images."""

    def forward(
        self, hidden_RTD: torch.Tensor, mask: torch.Tensor | None, angles: Angles | None, causal: bool = False
    ) -> torch.Tensor:
        assert mask is not None
        dropped = self.training and self.dropout_prob > 0
        if mask.requires_grad and mask.device.type == "cpu" and not dropped:
            mixed: torch.Tensor = AttentionInWindows.apply(self.qkv(hidden_RTD), mask, self.num_heads)
            return self.out(mixed)
        return super().forward(hidden_RTD, repeat_bias(mask, len(hidden_RTD)), angles, causal)


def repeat_bias(bias_WHTT: torch.Tensor, num_rows: int) -> torch.Tensor:
    """The bias of every row; one for all stays one."""
    if len(bias_WHTT) == 1:
        return bias_WHTT
    return bias_WHTT.expand(num_rows // len(bias_WHTT), -1, -1, -1, -1).flatten(0, 1)
