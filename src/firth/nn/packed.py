"""Matrices laid out once for products with few rows, as when a text is written token by token.

A general product lays the matrix out anew every time, which for a few rows costs more than the product itself.
oneDNN, which torch carries on most CPUs, keeps the layout; elsewhere this is an ordinary linear layer.

N rows, D in, V out.
"""

import torch
from torch import nn
from torch.nn import functional


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
