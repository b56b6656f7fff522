"""Swin (Liu et al. 2021): attention within windows, every second time in windows that are shifted by half of one, and 2 x 2
patches merged into one between stages.

A block is that of every Transformer here; what differs is who attends to whom. Tokens stand in the order of the windows of the
block that reads them and are put into the next order in one step, which replaces the rolling and cutting of the original.

B batch, C channels, H height and W width in pixels, R rows and S columns of patches, T = R S, N windows of M x M patches, D hidden
size.
"""

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import nn

from firth.models.swin.config import SwinConfig
from firth.nn.attention import Angles, SelfAttention
from firth.nn.blocks import Block
from firth.nn.layers import GradientContext, dropout
from firth.nn.patches import (
    ImageNetwork,
    Masked,
    PatchEmbedding,
    hide,
    relative_places,
    reorder,
    shift_regions,
    window_order,
)


@dataclass(frozen=True)
class StageBlock:
    """The settings of a block of a stage (``BlockConfig``)."""

    hidden_dim: int
    num_heads: int
    ffn_dim: int
    dropout_prob: float
    attention_dropout_prob: float
    activation: str
    norm_eps: float
    gated: bool = False
    norm: str = "layer"
    norm_first: bool = True
    bias: bool = True


@cache
@torch.inference_mode(False)  # kept for training, too
def apart(rows: int, columns: int, window: int, shift: int) -> torch.Tensor:
    """[N, 1, M M, M M]: true between patches of a window that were no neighbours before the shift."""
    regions = shift_regions(rows, columns, window, shift)
    return (regions[:, :, None] != regions[:, None, :])[:, None]


class WindowBlock(nn.Module):
    """A block in windows, with a learned bias for every difference of places."""

    def __init__(self, config: StageBlock, window: int, shift: int, drop_path_prob: float) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.drop_path_prob = drop_path_prob
        self.block = Block(config)
        self.block.attention = WindowAttention(config.hidden_dim, config.num_heads, config.attention_dropout_prob)
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, config.num_heads))
        self.register_buffer("places", relative_places(window), persistent=False)
        self.places: torch.Tensor

    def shift_of(self, rows: int, columns: int) -> int:
        """One window has nothing to be shifted against."""
        return 0 if min(rows, columns) <= self.window else self.shift

    def mask(self, rows: int, columns: int) -> torch.Tensor:
        """The bias on scores, [1 or N, heads, M M, M M]; what the shift brought together is kept apart."""
        bias = self.bias[self.places].permute(2, 0, 1)[None]
        shift = self.shift_of(rows, columns)
        if not shift:
            return bias
        closed = apart(rows, columns, self.window, shift).to(bias.device)
        return bias.masked_fill(closed, torch.finfo(bias.dtype).min)

    def forward(self, hidden_BTD: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        """Tokens stand in the order of this block's windows."""
        batch = len(hidden_BTD)
        windows = hidden_BTD.reshape(-1, self.window**2, hidden_BTD.shape[-1])
        mask = self.mask(rows, columns)
        if not self.training or not self.drop_path_prob:
            found: torch.Tensor = self.block(windows, mask, None)
            return found.view_as(hidden_BTD)
        block = self.block
        mixed = block.attention(block.attention_norm(windows), mask, None).view_as(hidden_BTD)
        kept = dropout(torch.ones(batch, 1, 1, device=mixed.device), self.drop_path_prob)
        hidden_BTD = hidden_BTD + dropout(mixed, block.dropout_prob) * kept
        return hidden_BTD + dropout(block.ffn(block.ffn_norm(hidden_BTD)), block.dropout_prob)

    def weights(self, hidden_BTD: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        """The attention itself, [B, N, heads, M M, M M], for inspection."""
        windows = hidden_BTD.reshape(-1, self.window**2, hidden_BTD.shape[-1])
        mask = repeat_bias(self.mask(rows, columns), len(windows))
        found = self.block.attention.weights(self.block.attention_norm(windows), mask, None)
        return found.view(len(hidden_BTD), -1, *found.shape[1:])


class PatchMerging(nn.Module):
    """2 x 2 neighbours side by side, normed, to twice the width."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.reduce = nn.Linear(4 * dim, 2 * dim, bias=False)

    def matrices(self) -> dict[str, int]:
        """For Muon: weights, and how many maps are kept in each."""
        return {"reduce.weight": 1}

    def forward(self, hidden_BTD: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        """Row by row: above and below on the left, then on the right, as published."""
        grid = hidden_BTD.view(len(hidden_BTD), rows // 2, 2, columns // 2, 2, -1)
        found: torch.Tensor = self.reduce(self.norm(grid.permute(0, 1, 3, 4, 2, 5).flatten(3).flatten(1, 2)))
        return found


class Stage(nn.Module):
    """Blocks of one width; behind all but the last stage patches are merged."""

    def __init__(self, config: SwinConfig, number: int, drop_path_probs: list[float]) -> None:
        super().__init__()
        width = config.width(number)
        shape = StageBlock(
            width,
            config.num_heads[number],
            int(config.ffn_ratio * width),
            config.dropout_prob,
            config.attention_dropout_prob,
            config.activation,
            config.norm_eps,
        )
        self.blocks = nn.ModuleList(
            WindowBlock(shape, config.window_size, config.window_size // 2 * (place % 2), prob)
            for place, prob in enumerate(drop_path_probs)
        )
        self.merge = PatchMerging(width) if number + 1 < len(config.depths) else None


class SwinNetwork(ImageNetwork):
    """Stages over patches. The grid of patches may be larger than in training, as long as windows fill it."""

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_size, self.stride = config.patch_size, config.patch_size * 2 ** (len(config.depths) - 1)
        self.embed_dim, self.dim = config.embedding_dim, config.width(len(config.depths) - 1)
        self.num_layers = sum(config.depths)
        self.embed = PatchEmbedding(config.patch_size, config.num_channels, config.embedding_dim)
        self.embed_norm = nn.LayerNorm(config.embedding_dim)
        probs = [config.drop_path_prob * layer / max(1, self.num_layers - 1) for layer in range(self.num_layers)]
        firsts = [sum(config.depths[:number]) for number in range(len(config.depths))]
        self.stages = nn.ModuleList(
            Stage(config, number, probs[first : first + depth])
            for number, (first, depth) in enumerate(zip(firsts, config.depths, strict=True))
        )
        self.norm = nn.LayerNorm(self.dim, eps=config.norm_eps)

    def start(self, generator: torch.Generator) -> None:
        if self.config.local_start:
            blocks = (part for part in self.modules() if isinstance(part, WindowBlock))
            for number, block in enumerate(blocks):
                look_near(block, number)

    def _read(self, pixels_BCHW: torch.Tensor, masked: Masked | None, every: bool) -> list[torch.Tensor]:
        """The last layer, or with ``every`` all of them, row by row."""
        rows, columns = (size // self.patch_size for size in pixels_BCHW.shape[2:])
        hidden = dropout(
            hide(self.embed_norm(self.embed(pixels_BCHW)), masked), self.config.dropout_prob, self.training
        )
        found = [hidden]
        for stage in self.stages:
            assert isinstance(stage, Stage)
            now = by_rows = (rows, columns, rows, 0) if rows == columns else (rows, columns, 1, 0)
            for block in stage.blocks:
                assert isinstance(block, WindowBlock)
                wanted = (rows, columns, block.window, block.shift_of(rows, columns))
                hidden, now = _turn(hidden, now, wanted), wanted
                hidden = block(hidden, rows, columns)
                if every:
                    found.append(_turn(hidden, now, by_rows))
            hidden = _turn(hidden, now, by_rows)
            if stage.merge is not None:
                hidden = stage.merge(hidden, rows, columns)
                rows, columns = rows // 2, columns // 2
        last = self.norm(hidden)
        return [*found[:-1], last] if every else [last]

    def layers(self, pixels_BCHW: torch.Tensor, masked: Masked | None = None) -> list[torch.Tensor]:
        return self._read(pixels_BCHW, masked, True)

    def patches(self, pixels_BCHW: torch.Tensor, masked: Masked | None, picks_BP: torch.Tensor | None) -> torch.Tensor:
        (last_BTD,) = self._read(pixels_BCHW, masked, False)
        if picks_BP is None:
            return last_BTD
        return last_BTD.gather(1, picks_BP[:, :, None].expand(-1, -1, last_BTD.shape[-1]))

    def summary(self, pixels_BCHW: torch.Tensor) -> torch.Tensor:
        """The mean of the last layer."""
        return self._read(pixels_BCHW, None, False)[0].mean(1)


Order = tuple[int, int, int, int]
"""Rows and columns of the grid, window and shift."""


@cache
@torch.inference_mode(False)
def orders(order: Order) -> tuple[torch.Tensor, torch.Tensor]:
    """Which patch stands where, and where each patch stands."""
    order_T = window_order(*order)
    return order_T, order_T.argsort()


@cache
@torch.inference_mode(False)
def _step(now: Order, wanted: Order) -> tuple[torch.Tensor, torch.Tensor]:
    """From one order to another, and back."""
    (now_T, back_T), (wanted_T, home_T) = orders(now), orders(wanted)
    return back_T[wanted_T], home_T[now_T]


def turn_order(now: Order, wanted: Order) -> torch.Tensor:
    """[T]: which token of the present order stands where in the wanted one."""
    return _step(now, wanted)[0]


def _turn(hidden_BTD: torch.Tensor, now: Order, wanted: Order) -> torch.Tensor:
    if now == wanted:
        return hidden_BTD
    order_T, inverse_T = _step(now, wanted)
    return reorder(hidden_BTD, order_T.to(hidden_BTD.device), inverse_T.to(hidden_BTD.device))


_NEAR = 1.0  # what a step away from the head's neighbour costs, squared
_NEIGHBOURS = [(0, 0), (-1, 0), (0, 1), (1, 0), (0, -1), (-1, 1), (1, -1), (1, 1), (-1, -1)]


@torch.no_grad()
def look_near(block: WindowBlock, number: int) -> None:
    """Every head begins by looking at one of the nine neighbours (itself is one), so that a block is much like a 3 x 3
    convolution (Cordonnier et al. 2020, theorem 1; d'Ascoli et al. 2021): few images are too few to learn what is near."""
    window, num_heads = block.window, block.bias.shape[1]
    steps = torch.arange(1 - window, window)
    for head in range(num_heads):
        row, column = _NEIGHBOURS[(number * num_heads + head) % len(_NEIGHBOURS)]
        # the table is by query - key, a neighbour is key - query
        cost = (steps[:, None] + row) ** 2 + (steps[None, :] + column) ** 2
        block.bias[:, head] = -_NEAR * cost.flatten()


# -- attention in short windows with a learned bias (Liu et al. 2021, 3.2), on the CPU.
#
# Rows of a few scores are the slow case of PyTorch's kernels: in bfloat16 a softmax over 16 takes three times as long as in single
# precision, and its gradient twenty times. So queries, keys and values are copied once, head by head, into single precision; between
# that copy and the one back there is nothing but products and the softmax.
#
# R rows (windows of all images, those of an image next to each other), W windows with a bias of their own, H heads, T tokens of a
# window, D hidden size, K = D / H head size.


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
