"""Checkpoints: whole or absent, checked when read, the last few and the best kept.

``checkpoints/step-N/`` holds ``model.safetensors``, ``optimizer.safetensors`` and ``state.json``
(step, metrics, checksums, and a seal over these). Never pickle.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firth.core.errors import FirthError
from firth.core.files import atomic_folder, check_files, checksum, read_json, write_json
from firth.core.tensors import load_tensors, save_tensors

_NAME = re.compile(r"step-(\d+)$")
_FILES = ("model.safetensors", "optimizer.safetensors")


def _optimizer_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """The optimizer's state by the names of the parameters."""
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    found = {}
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            found[f"{names[parameter]}:{key}"] = value
    return found


def _seal(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def save_checkpoint(
    folder: Path, step: int, module: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> Path:
    """Writes ``folder/step-N`` in one rename."""
    goal = folder / f"step-{step}"
    if goal.is_dir():
        shutil.rmtree(goal)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_folder(goal) as temporary:
        save_tensors(temporary / _FILES[0], module.state_dict())
        save_tensors(temporary / _FILES[1], _optimizer_tensors(module, optimizer))
        checksums = {name: checksum(temporary / name) for name in _FILES}
        state = {**state, "step": step, "checksums": checksums}
        write_json(temporary / "state.json", {**state, "seal": _seal(state)})
    return goal


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(step, folder), the latest last."""
    if not folder.is_dir():
        return []
    found = [(int(match.group(1)), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return sorted(found)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """``state.json`` after every file was compared with its checksum."""
    remedy = "remove this checkpoint to go on from the one before it"
    state = read_json(checkpoint / "state.json")
    if not isinstance(state, dict) or state.pop("seal", None) != _seal(state):
        raise FirthError(f"{checkpoint / 'state.json'}: damaged (it is not as it was written); {remedy}")
    check_files(checkpoint, state["checksums"], remedy)
    return state


def load_model(checkpoint: Path, module: nn.Module) -> None:
    try:
        module.load_state_dict(load_tensors(checkpoint / _FILES[0]))
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        raise FirthError(
            f"{checkpoint / _FILES[0]}: does not fit this model ({message}); was the config changed?"
        ) from None


def load_optimizer(checkpoint: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    parameters = dict(module.named_parameters())
    for name, tensor in load_tensors(checkpoint / _FILES[1]).items():
        parameter, _, key = name.rpartition(":")
        target = parameters[parameter]
        optimizer.state[target][key] = (
            tensor if key == "step" and target.device.type == "cpu" else tensor.to(target.device)
        )


def prune(folder: Path, keep: int, best_step: int | None, needed: Collection[int] = ()) -> None:
    """Removes all but the last ``keep``, the best, and those that are still needed."""
    for step, path in list_checkpoints(folder)[:-keep]:
        if step != best_step and step not in needed:
            shutil.rmtree(path)
