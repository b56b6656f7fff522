"""Checkpoints of a network and its optimizer: ``model.safetensors`` and ``optimizer.safetensors``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firth.core.errors import FirthError
from firth.core.tensors import load_tensors, save_tensors
from firth.training.checkpoints import write_checkpoint

_MODEL, _OPTIMIZER = "model.safetensors", "optimizer.safetensors"


def save_checkpoint(
    folder: Path, step: int, module: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]
) -> Path:
    def write(goal: Path) -> None:
        save_tensors(goal / _MODEL, module.state_dict())
        save_tensors(goal / _OPTIMIZER, _optimizer_tensors(module, optimizer))

    return write_checkpoint(folder, step, state, write)


def _optimizer_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimizer's state by the names of the parameters."""
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    found = {}
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            found[f"{names[parameter]}:{key}"] = value
    return found


def load_model(checkpoint: Path, module: nn.Module) -> None:
    try:
        module.load_state_dict(load_tensors(checkpoint / _MODEL))
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
            tensor if key == "step" and target.device.type == "cpu" else tensor.to(target.device)
        )
