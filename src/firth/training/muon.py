"""Muon: the matrices of a network's blocks step along the orthogonal matrix that is nearest to their momentum (Jordan et al.
2024, "Muon: An optimizer for hidden layers in neural networks"); everything else (tables, norms, biases, heads) learns by AdamW.

The orthogonal matrix, U V^T of the singular value decomposition, is approached by five Newton-Schulz steps, in float32 or, where
the training computes in it, in bfloat16 (as published). A step is
scaled by 0.2 sqrt(max(rows, columns)), so that its root mean square is that of AdamW's and one learning rate serves both (Liu et
al. 2025, "Muon is scalable for LLM training"). Projections that are kept as one matrix (queries, keys and values; a gate and
its values) are orthogonalised apart. Matrices of one shape are multiplied together. Of a network in shards each rank gathers
the directions, which must be whole, and changes its own rows.

M matrices of one shape, R rows, C columns.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, overload, runtime_checkable

import torch
from torch import nn

from firth.training.ranks import shard_like, whole

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # steep at zero, so that small singular values grow fast
_STEPS = 5
_EPS = 1e-7
_MATCHED = 0.2  # the root mean square of AdamW's steps, about
MOMENTUM = "momentum"


@runtime_checkable
class HasMatrices(Protocol):
    """A part of a network that says which of its weights are matrices that turn one hidden vector into another."""

    def matrices(self) -> Mapping[str, int]:
        """Names of these weights, and how many maps are kept in each, one above the other."""
        ...


def find_matrices(module: nn.Module) -> dict[str, int]:
    """All such weights of a network by their full names."""
    return {
        f"{prefix}.{name}" if prefix else name: maps
        for prefix, part in module.named_modules()
        if isinstance(part, HasMatrices)
        for name, maps in part.matrices().items()
    }


def orthogonalize(
    matrices_MRC: torch.Tensor, steps: int = _STEPS, precision: torch.dtype = torch.float32
) -> torch.Tensor:
    """Nearly U V^T of each matrix: singular values come out between about 0.7 and 1.2, which serves as well as 1."""
    found = matrices_MRC.float()
    wide = found.shape[-2] <= found.shape[-1]
    found = found if wide else found.mT
    found = (found / (torch.linalg.matrix_norm(found, keepdim=True) + _EPS)).to(precision)
    first, second, third = _COEFFICIENTS
    for _ in range(steps):
        square = found @ found.mT
        found = first * found + (second * square + third * square @ square) @ found
    return (found if wide else found.mT).float()


class Direction(NamedTuple):
    """Where a matrix is to go, before it is orthogonalised; its maps apart."""

    parameter: nn.Parameter
    rate: float
    maps_MRC: torch.Tensor


class Muon(torch.optim.AdamW):
    """Groups with ``maps`` above 0 are matrices of so many maps; all others are AdamW's."""

    def __init__(
        self,
        groups: list[dict[str, object]],
        lr: float,
        betas: tuple[float, float],
        eps: float,
        momentum: float,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(groups, lr, betas, eps, fused=True)
        self.momentum, self.precision = momentum, precision
        self._step_supports_amp_scaling = False  # a step with an infinite gradient is passed over as a whole

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        groups = self.param_groups
        try:
            self.param_groups = [group for group in groups if not group["maps"]]
            loss = super().step(closure)
        finally:
            self.param_groups = groups
        alike: dict[torch.Size, list[Direction]] = {}
        for one in self._directions():
            alike.setdefault(one.maps_MRC.shape[1:], []).append(one)
        for shape, some in alike.items():
            found = orthogonalize(torch.cat([one.maps_MRC for one in some]), precision=self.precision)
            scale = _MATCHED * max(shape) ** 0.5
            for one, steps in zip(some, found.split([len(one.maps_MRC) for one in some]), strict=True):
                one.parameter.sub_(
                    shard_like(steps.reshape(one.parameter.shape), one.parameter), alpha=one.rate * scale
                )
        return loss

    def _directions(self) -> Iterator[Direction]:
        """Nesterov's momentum of every matrix. Weights decay here, as AdamW's do."""
        for group in self.param_groups:
            for parameter in group["params"] if group["maps"] else ():
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if MOMENTUM not in state:
                    state[MOMENTUM] = torch.zeros_like(parameter)
                momentum = state[MOMENTUM]
                momentum.lerp_(parameter.grad, 1 - self.momentum)
                direction = parameter.grad.lerp(momentum, self.momentum)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                yield Direction(parameter, group["lr"], whole(direction).view(group["maps"], -1, parameter.shape[1]))
