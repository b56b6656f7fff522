"""Normalisation layers by name."""

import torch
from torch import nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """Root-mean-square norm without mean or bias (Zhang & Sennrich 2019)."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return nn.functional.rms_norm(hidden, (hidden.shape[-1],), self.weight, self.eps)


def build_norm(kind: str, dim: int, eps: float, bias: bool = True) -> nn.Module:
    return RMSNorm(dim, eps) if kind == "rms" else nn.LayerNorm(dim, eps=eps, bias=bias)


_LEVELS = 1 << 16


def _left_out(prob: float) -> int:
    """How many of 65,536 levels leave a number out."""
    return min(round(prob * _LEVELS), _LEVELS - 1)


def growth(prob: float) -> float:
    """What makes up for the numbers left out."""
    return _LEVELS / (_LEVELS - _left_out(prob))


def kept(shape: torch.Size, prob: float) -> torch.Tensor:
    """True with probability 1 - ``prob`` (to 1/65,536), drawn from torch's own generator, on the processor."""
    count = shape.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return (draws.view(torch.int16)[:count] >= _left_out(prob) - _LEVELS // 2).view(shape)


def dropout(values: torch.Tensor, prob: float, training: bool = True) -> torch.Tensor:
    """Numbers are left out with probability ``prob``, and the others grow so that the mean stays."""
    if not training or not prob:
        return values
    if values.device.type != "cpu":
        return functional.dropout(values, prob)
    return values * kept(values.shape, prob).to(values.dtype).mul_(growth(prob))


class PackedMatrix:
    """x Wᵀ + b for fixed W and b; what is done to the weights afterwards makes no difference here."""

    def __init__(self, weight_VD: torch.Tensor, bias_V: torch.Tensor | None) -> None:
        self.weight = weight_VD.detach()
        self.bias = None if bias_V is None else bias_V.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight) if _packs(self.weight) else None

    def __call__(self, hidden_ND: torch.Tensor) -> torch.Tensor:
        if self.packed is None:
            return functional.linear(hidden_ND, self.weight, self.bias)
        found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(hidden_ND, self.packed, self.bias, "none", [], "")
        return found


def turn_matrices(module: nn.Module) -> None:
    """Linear layers keep their matrices by columns: the same numbers in the order in which few rows are multiplied."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = part.weight.data.t().contiguous().t()


def _packs(weight: torch.Tensor) -> bool:
    """Not a public part of torch: used where it is there."""
    there = all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return there and plain and torch.backends.mkldnn.is_available()
