"""A recurrent language model on disk: no published directory holds one, so these are Firth's own names."""

from pathlib import Path
from typing import Literal

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import load_tensors, save_tensors, write_json
from firth.models.recurrent.config import RecurrentConfig
from firth.models.recurrent.network import Recurrent
from firth.models.shared.published import Weights, join_parts, read_config, require_fit, split_parts


class RecurrentFolder(Config):
    """The content of ``config.json``."""

    model_type: Literal["firth-recurrent"] = "firth-recurrent"
    model: RecurrentConfig
    output: Literal["softmax", "adaptive"] = "softmax"  # sampled and NCE layers are softmax layers once trained


def save_recurrent(folder: Path, config: RecurrentFolder, model: Weights, head: Weights) -> None:
    save_tensors(folder / "model.safetensors", join_parts({"model": model, "output": head}))
    write_json(folder / "config.json", config.model_dump())


def load_recurrent(folder: Path) -> tuple[RecurrentFolder, Weights, Weights]:
    """Config, the weights of the model, those of the output layer."""
    config = RecurrentFolder.build(read_config(folder), folder / "config.json")
    parts = split_parts(load_tensors(folder / "model.safetensors"))
    strange = sorted(set(parts) - {"model", "output"})
    if strange:
        raise FirthError(
            f"{folder / 'model.safetensors'}: holds '{strange[0]}', which no such model has; copy it again"
        )
    model, output = parts.get("model", {}), parts.get("output", {})
    require_fit(lambda: Recurrent(config.model), model, folder)
    return config, model, output
