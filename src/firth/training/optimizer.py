"""The optimizer: AdamW, Muon or averaged SGD with weight-decay groups, learning-rate schedules, and
checkpoints of a network with its optimizer (``model.safetensors``, ``optimizer.safetensors``).

Averaged SGD has a non-monotone trigger (Merity et al. 2018, "NT-ASGD", algorithm 1): plain SGD until the
evaluations stop improving; from then on the mean of all iterates is kept as well (Polyak and Juditsky 1992), is
what is evaluated, and becomes the finished model. As in the authors' program, averaging begins when an evaluation
is worse than the best of all but the last ``patience``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, overload, runtime_checkable

import torch
from torch import nn
from torch.optim.optimizer import ParamsT

from firth.core.errors import FirthError
from firth.core.files import load_tensors, stream_order, stream_tensors
from firth.core.registry import TrainingConfig
from firth.training.checkpoints import read_state, write_checkpoint
from firth.training.ranks import shard_like, whole

_MEAN, _COUNT = "mean", "count"
_MODEL, _OPTIMIZER = "model.safetensors", "optimizer.safetensors"


def stopped_improving(losses: Sequence[float], latest: float, patience: int) -> bool:
    """Whether the latest test is worse than the best of those before, the last ``patience`` not counted."""
    return len(losses) > patience and latest > min(losses[:-patience])


class AveragedSGD(torch.optim.Optimizer):
    """SGD with L2 decay; after ``begin_average`` each parameter has a running mean of what it was after every step."""

    def __init__(self, params: ParamsT, lr: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": 0.0})

    @property
    def averages(self) -> bool:
        return any(_MEAN in state for state in self.state.values())

    @torch.no_grad()
    def begin_average(self) -> None:
        """From the present weights on, which are the first that count."""
        for parameter in self._parameters():
            self.state[parameter] = {_MEAN: parameter.detach().clone(), _COUNT: torch.ones((), device=parameter.device)}

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                change = parameter.grad
                if group["weight_decay"]:
                    change = change.add(parameter, alpha=group["weight_decay"])
                parameter.sub_(change, alpha=group["lr"])
        for parameter, state in self.state.items():
            state[_COUNT] += 1
            state[_MEAN].add_((parameter - state[_MEAN]) / state[_COUNT])

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The means in the place of the weights, for a test; without means nothing happens."""
        self.exchange()
        try:
            yield
        finally:
            self.exchange()

    @torch.no_grad()
    def exchange(self) -> None:
        for parameter, state in self.state.items():
            kept = parameter.detach().clone()
            parameter.copy_(state[_MEAN])
            state[_MEAN] = kept

    def _parameters(self) -> Iterator[torch.nn.Parameter]:
        for group in self.param_groups:
            yield from group["params"]


def load_average(folder: Path, steps: Sequence[int], module: nn.Module) -> None:
    """Puts the mean of the checkpoints of these steps into the module; what is no real number is the last one's."""
    sums: dict[str, torch.Tensor] = {}
    for step in steps:
        path = folder / f"step-{step}"
        read_state(path)
        for name, tensor in load_tensors(path / "model.safetensors").items():
            if not tensor.is_floating_point():
                sums[name] = tensor
            else:
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    means = {name: total / len(steps) if total.is_floating_point() else total for name, total in sums.items()}
    module.load_state_dict(means)


def save_checkpoint(
    folder: Path,
    step: int,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, object],
    tensors: Mapping[str, torch.Tensor] | None = None,
) -> Path:
    """``tensors`` in the place of the module's own state. What is in shards is gathered one tensor after another, for which
    all other ranks call ``give_shards``; the files are those of one process."""

    def write(goal: Path) -> None:
        stream_tensors(goal / _MODEL, module.state_dict() if tensors is None else tensors, whole)
        stream_tensors(goal / _OPTIMIZER, _optimizer_tensors(module, optimizer), whole)

    return write_checkpoint(folder, step, state, write)


def give_shards(module: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]) -> None:
    """What the other ranks do while the first one writes a checkpoint: the same tensors in the same order."""
    for some in (tensors, _optimizer_tensors(module, optimizer)):
        for name in stream_order(some):
            whole(some[name])


def whole_tensors(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: whole(tensors[name]).detach() for name in sorted(tensors)}


def _optimizer_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimizer's state by the names of the parameters."""
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    found = {}
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            found[f"{names[parameter]}:{key}"] = value
    return found


def load_model(checkpoint: Path, module: nn.Module) -> None:
    state, found = module.state_dict(), load_tensors(checkpoint / _MODEL)
    try:
        module.load_state_dict(
            {name: shard_like(tensor, state[name]) if name in state else tensor for name, tensor in found.items()}
        )
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        raise FirthError(
            f"{checkpoint / _MODEL}: does not fit this model ({message}); was the config changed?"
        ) from None


def load_optimizer(checkpoint: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    parameters = dict(module.named_parameters())
    for name, tensor in load_tensors(checkpoint / _OPTIMIZER).items():
        parameter, _, key = name.rpartition(":")
        target = parameters[parameter]
        optimizer.state[target][key] = (
            tensor if key == "step" and target.device.type == "cpu" else shard_like(tensor, target)
        )


def build_optimizer(
    module: nn.Module, config: TrainingConfig, factors: Mapping[str, float] | None = None
) -> torch.optim.Optimizer:
    """Weight decay on matrices and tables only: not on biases and norms (Devlin et al. 2018, A.2).

    ``factors`` by name of a parameter make it learn slower or faster than the rest.
    """
    maps = find_matrices(module) if config.optimizer == "muon" else {}
    if config.optimizer == "muon" and not maps:
        raise FirthError(
            "optimizer=muon is for Transformers and recurrent layers, whose weights are matrices: use optimizer=adamw here"
        )
    groups: dict[tuple[bool, float, int], list[nn.Parameter]] = {}
    for decays in (True, False):
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and _decays(name, parameter) == decays:
                key = (decays, (factors or {}).get(name, 1.0), maps.get(name, 0))
                groups.setdefault(key, []).append(parameter)
    described: list[dict[str, object]] = [
        {
            "params": some,
            "weight_decay": config.weight_decay if decays else 0.0,
            "rate_factor": factor * (config.muon_rate if num_maps else 1.0),
            "maps": num_maps,
        }
        for (decays, factor, num_maps), some in groups.items()
    ]
    if config.optimizer == "averaged_sgd":
        return AveragedSGD(described, config.learning_rate)
    betas = (config.beta1, config.beta2)
    if config.optimizer == "muon":
        precision = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
        return Muon(described, config.learning_rate, betas, config.adam_eps, config.momentum, precision)
    return torch.optim.AdamW(described, config.learning_rate, betas, config.adam_eps, fused=True)


def _decays(name: str, parameter: nn.Parameter) -> bool:
    """Some biases are tables: one a head, one a direction, one a distance and head."""
    return parameter.ndim >= 2 and not name.endswith(("bias", "relative.weight"))


def learning_rate(config: TrainingConfig, step: int, steps: int) -> float:
    """The rate for step 0 .. steps - 1: a linear rise, then the schedule."""
    warmup = round(config.warmup_ratio * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    if config.schedule == "inverse_sqrt":
        return config.learning_rate * math.sqrt(max(warmup, 1) / (step + 1))
    share = (step - warmup) / max(steps - warmup, 1)
    if config.schedule == "linear":
        return config.learning_rate * (1 - share)
    if config.schedule == "cosine":
        return config.learning_rate * 0.5 * (1 + math.cos(math.pi * share))
    return config.learning_rate


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)


# -- Muon: the matrices of a network's blocks step along the orthogonal matrix that is nearest to their momentum (Jordan et al.
# 2024, "Muon: An optimizer for hidden layers in neural networks"); everything else (tables, norms, biases, heads) learns by AdamW.
#
# The orthogonal matrix, U V^T of the singular value decomposition, is approached by five Newton-Schulz steps, in float32 or, where
# the training computes in it, in bfloat16 (as published). A step is
# scaled by 0.2 sqrt(max(rows, columns)), so that its root mean square is that of AdamW's and one learning rate serves both (Liu et
# al. 2025, "Muon is scalable for LLM training"). Projections that are kept as one matrix (queries, keys and values; a gate and
# its values) are orthogonalised apart. Matrices of one shape are multiplied together. Of a network in shards each rank gathers
# the directions, which must be whole, and changes its own rows.
#
# M matrices of one shape, R rows, C columns.

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
