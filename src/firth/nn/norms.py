"""Normalisation layers by name."""

import torch
from torch import nn


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
