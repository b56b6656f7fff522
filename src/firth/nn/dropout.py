"""Dropout (Srivastava et al. 2014) that costs little on a processor: four numbers are decided by one random draw."""

import torch
from torch.nn import functional

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
