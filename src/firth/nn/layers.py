"""Building blocks that several networks share: norms, dropout, packed matrices, pooling of token vectors (``cls``
the first, ``last``, ``mean``, or ``max`` of each column), the scalar mix of layers (Peters et al. 2018, eq. 1: ``γ
Σ_j s_j h_j``, s a softmax), and ``TokenNetwork``, the base class of networks from ids to layers.

L layers, B batch, T tokens, P picked tokens, N tokens of sequences end to end, S sequences, D hidden size.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from firth.core.types import Inputs, Layers

_LEVELS = 1 << 16
_EPS = 1e-12
_DRAWING = {"normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_", "orthogonal_"}


class _NoStart(TorchFunctionMode):
    """Nothing is drawn for tensors that have no numbers: torch would load its compiler for that, which takes seconds."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in _DRAWING:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def without_numbers() -> Iterator[None]:
    """Networks that are built here have shapes alone (on PyTorch's device "meta")."""
    with torch.device("meta"), _NoStart():
        yield


class GradientContext(Protocol):
    """The ``ctx`` of an autograd function as the type checker sees it; subclasses name what else they keep in it."""

    saved_tensors: tuple[torch.Tensor, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...


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


def _left_out(prob: float) -> int:
    """How many of 65,536 levels drop a value."""
    return min(round(prob * _LEVELS), _LEVELS - 1)


def growth(prob: float) -> float:
    """The scale 1 / (1 - p) of the values that dropout keeps."""
    return _LEVELS / (_LEVELS - _left_out(prob))


def kept(shape: torch.Size, prob: float) -> torch.Tensor:
    """True with probability 1 - ``prob`` (to 1/65,536), drawn from torch's own generator, on the processor."""
    count = shape.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return (draws.view(torch.int16)[:count] >= _left_out(prob) - _LEVELS // 2).view(shape)


def dropout(values: torch.Tensor, prob: float, training: bool = True) -> torch.Tensor:
    """Values are zeroed with probability ``prob``, and the others scaled so that the mean stays."""
    if not training or not prob:
        return values
    if values.device.type != "cpu":
        return functional.dropout(values, prob)
    return values * kept(values.shape, prob).to(values.dtype).mul_(growth(prob))


class PackedMatrix:
    """x Wᵀ + b for fixed W and b; later changes of the weights have no effect here."""

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
    """Not a public API of torch: used where it exists."""
    there = all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    return there and plain and torch.backends.mkldnn.is_available()


def pool_tokens(hidden_BTD: torch.Tensor, mask_BT: torch.Tensor, pool: str) -> torch.Tensor:
    """A vector per row, [B, D], from its tokens (where the mask is true); mean and max of an empty row are 0. Of sequences that
    stand end to end ``nn.sentences.pool_sequences`` makes the same."""
    if pool == "cls":
        return hidden_BTD[:, 0]
    if pool == "last":
        places_T = torch.arange(mask_BT.shape[1], device=mask_BT.device)
        return hidden_BTD[torch.arange(len(mask_BT), device=mask_BT.device), (places_T * mask_BT).amax(1)]
    if pool == "max":
        found = hidden_BTD.masked_fill(~mask_BT[:, :, None], float("-inf")).amax(1)
        return found.masked_fill(~mask_BT.any(1)[:, None], 0.0)
    assert pool == "mean", pool
    weights = mask_BT[:, :, None].to(hidden_BTD.dtype)
    return (hidden_BTD * weights).sum(1) / weights.sum(1).clamp(min=1)


def pool_owned(rows_BD: torch.Tensor, owner_B: torch.Tensor, num_owners: int, pool: str) -> torch.Tensor:
    """The mean or max of the rows of each owner, [owners, D]; zeros for one without any."""
    assert pool in ("mean", "max"), pool
    found = rows_BD.new_zeros(num_owners, rows_BD.shape[1])
    index = owner_B[:, None].expand_as(rows_BD)
    return found.scatter_reduce(0, index, rows_BD, "mean" if pool == "mean" else "amax", include_self=False)


class ScalarMix(nn.Module):
    """One weight per layer and one scale for all. With ``layer_norm`` each layer is first brought to mean 0 and
    variance 1 over all values of the batch's tokens without padding, as the paper's own code does. ``l2`` is the λ on
    the scalars: 1 keeps the mix near the mean of the layers, 0.001 leaves it free."""

    def __init__(self, num_layers: int, layer_norm: bool = False, l2: float = 0.0) -> None:
        super().__init__()
        self.layer_norm = layer_norm
        self.l2 = l2
        self.scalars = nn.Parameter(torch.zeros(num_layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, hidden_LBTD: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
        """[B, T, D]; the mask is read by the norm alone."""
        if len(hidden_LBTD) != len(self.scalars):
            raise ValueError(f"{len(hidden_LBTD)} layers for a mix of {len(self.scalars)}")
        if self.layer_norm:
            hidden_LBTD = _normed(hidden_LBTD, mask_BT)
        return self.gamma * torch.einsum("l,lbtd->btd", self.scalars.softmax(0), hidden_LBTD)

    def penalty(self) -> torch.Tensor:
        """λ Σ w², to be added to the task's loss."""
        return self.l2 * self.scalars.square().sum()

    def weights(self) -> list[float]:
        """The share of each layer."""
        found: list[float] = self.scalars.detach().softmax(0).tolist()
        return found


def _normed(hidden_LBTD: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    real = mask_BT[:, :, None].to(hidden_LBTD.dtype)
    count = real.sum() * hidden_LBTD.shape[-1]
    mean = (hidden_LBTD * real).sum((1, 2, 3), keepdim=True) / count
    variance = ((hidden_LBTD - mean) * real).square().sum((1, 2, 3), keepdim=True) / count
    return (hidden_LBTD - mean) / torch.sqrt(variance + _EPS)


class TokenNetwork(nn.Module):
    """A ``Network`` (core/types.py): a subclass defines ``forward``, and the passes that it can do with less work."""

    if TYPE_CHECKING:  # nn.Module's own is untyped

        def __call__(self, inputs: Inputs) -> Layers: ...

    def last(self, inputs: Inputs) -> torch.Tensor:
        """The last layer only, [B, T, D]."""
        return self(inputs).last

    def picked(self, inputs: Inputs, picks_BP: torch.Tensor) -> torch.Tensor:
        """The last layer at some tokens of each row only, [B, P, D]."""
        hidden_BTD = self.last(inputs)
        return hidden_BTD.gather(1, picks_BP[:, :, None].expand(-1, -1, hidden_BTD.shape[-1]))

    @property
    def can_pack(self) -> bool:
        """Whether ``packed`` is possible."""
        return False

    def packed(self, inputs: Inputs, lens: Sequence[int]) -> Iterator[torch.Tensor]:
        """The layers, one after another, [N, D], of sequences that stand end to end."""
        raise NotImplementedError(f"{type(self).__name__} reads rows: ask can_pack before packed")
