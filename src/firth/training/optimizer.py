"""The optimizer: AdamW, Muon (``muon.py``) or averaged SGD with weight-decay groups, learning-rate schedules, and
checkpoints of a network with its optimizer (``model.safetensors``, ``optimizer.safetensors``).

Averaged SGD has a non-monotone trigger (Merity et al. 2018, "NT-ASGD", algorithm 1): plain SGD until the
evaluations stop improving; from then on the mean of all iterates is kept as well (Polyak and Juditsky 1992), is
what is evaluated, and becomes the finished model. As in the authors' program, averaging begins when an evaluation
is worse than the best of all but the last ``patience``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.optim.optimizer import ParamsT

from firth.core.errors import FirthError
from firth.core.files import load_tensors, stream_order, stream_tensors
from firth.core.registry import TrainingConfig
from firth.training.checkpoints import read_state, write_checkpoint
from firth.training.muon import Muon, find_matrices
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
