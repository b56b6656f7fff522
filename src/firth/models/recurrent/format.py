"""Directories of recurrent language models: Firth's own names, since nobody else reads such models.

``config.json`` (model_type ``firth-recurrent``, the model, its output layer) and ``model.safetensors``.
"""

from pathlib import Path
from typing import Literal

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.tensors import load_tensors, save_tensors
from firth.models.recurrent.config import RecurrentConfig
from firth.models.shared.published import Weights


class RecurrentFolder(Config):
    """The content of ``config.json``."""

    model_type: Literal["firth-recurrent"] = "firth-recurrent"
    model: RecurrentConfig
    output: Literal["softmax", "adaptive"] = "softmax"  # sampled and NCE layers are softmax layers once trained


def save_recurrent(folder: Path, config: RecurrentFolder, model: Weights, head: Weights) -> None:
    tensors = {f"model.{name}": tensor for name, tensor in model.items()}
    save_tensors(folder / "model.safetensors", tensors | {f"output.{name}": tensor for name, tensor in head.items()})
    write_json(folder / "config.json", config.model_dump())


def load_recurrent(folder: Path) -> tuple[RecurrentFolder, Weights, Weights]:
    """Config, the weights of the model, those of the output layer."""
    config = RecurrentFolder.build(read_json(folder / "config.json"), folder / "config.json")
    parts: dict[str, Weights] = {"model": {}, "output": {}}
    for name, tensor in load_tensors(folder / "model.safetensors").items():
        part, _, rest = name.partition(".")
        if part not in parts:
            raise FirthError(f"{folder / 'model.safetensors'}: holds '{name}', which no such model has; copy it again")
        parts[part][rest] = tensor
    return config, parts["model"], parts["output"]
