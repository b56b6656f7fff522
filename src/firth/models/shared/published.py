"""The weights of a published directory, taken out one by one, so that nothing is missing and nothing is left over."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firth.core.errors import FirthError
from firth.core.files import load_tensors, read_json, require_memory

Weights = dict[str, torch.Tensor]
Names = Mapping[str, str | list[str]]
"""Our name of a weight: theirs, or those of the parts that we keep as one matrix."""
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
"""What transformers calls an activation: what we call it. Of several names the first is written."""
_FILES = ("model.safetensors", "pytorch_model.bin")


def activation_name(ours: str, known: Mapping[str, str] = ACTIVATIONS) -> str:
    """The published name of an activation."""
    return next(theirs for theirs, name in known.items() if name == ours)


def scatter(weights: Mapping[str, torch.Tensor], names: Names) -> Weights:
    """Weights by their published names: what ``Published.gather`` undoes. Matrices that are one with us are parted."""
    found: Weights = {}
    for ours, theirs in names.items():
        parts = [theirs] if isinstance(theirs, str) else theirs
        found |= zip(parts, weights[ours].chunk(len(parts)), strict=True)
    return found


def join_parts(parts: Mapping[str, Weights]) -> Weights:
    """The weights of several parts in one table, names prefixed by their part."""
    return {f"{part}.{name}": tensor for part, weights in parts.items() for name, tensor in weights.items()}


def split_parts(tensors: Weights) -> dict[str, Weights]:
    """And back."""
    parts: dict[str, Weights] = {}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = tensor
    return parts


def read_config(folder: Path) -> Any:
    """The ``config.json`` of a model, an object with names."""
    path = folder / "config.json"
    found = read_json(path)
    if not isinstance(found, dict):
        raise FirthError(f"{path}: not the description of a model; copy it again")
    return found


def require_fit(build: Callable[[], nn.Module], weights: Mapping[str, torch.Tensor], where: Path) -> None:
    """Refuses settings that ask for more numbers than the weights have, before memory is taken for them: the network is
    built without numbers first (on PyTorch's device "meta")."""
    with torch.device("meta"):
        network = build()
    wanted = sum(tensor.numel() for tensor in network.state_dict().values())
    there = sum(tensor.numel() for tensor in weights.values())
    if wanted > there:
        raise FirthError(
            f"{where}: weights and config do not fit (the config asks for {wanted:,} numbers, the weights are {there:,}); are the files of one model?"
        )
    tables = sum(buffer.numel() * buffer.element_size() for buffer in network.buffers())
    require_memory(tables, f"{where}: a model of this length", "lower the positions in its config")


class Published:
    """``title`` is what the weights should be, with its article: "a BERT"."""

    def __init__(self, folder: Path, title: str, rename: Callable[[str], str] = str) -> None:
        path = next((folder / name for name in _FILES if (folder / name).is_file()), None)
        if path is None:
            raise FirthError(
                f"{folder}: no weights here (neither {' nor '.join(_FILES)}); copy them into the folder of config.json"
            )
        self.path = path
        self.title = title
        self.tensors = {
            rename(name): tensor.float() if tensor.is_floating_point() else tensor
            for name, tensor in load_tensors(path).items()
        }

    def take(self, name: str) -> torch.Tensor:
        if name not in self.tensors:
            raise FirthError(f"{self.path}: '{name}' is missing; is the file whole and {self.title}?")
        return self.tensors.pop(name)

    def gather(self, names: Names) -> Weights:
        """Weights by our names; where there are several of theirs they become one matrix."""
        found: Weights = {}
        for ours, theirs in names.items():
            parts = [self.take(name) for name in ([theirs] if isinstance(theirs, str) else theirs)]
            if len({part.shape for part in parts}) > 1:
                raise FirthError(f"{self.path}: {', '.join(theirs)} differ in shape; are the files of one model?")
            found[ours] = parts[0] if len(parts) == 1 else torch.cat(parts)
        return found

    def drop_tied(self, name: str, table: torch.Tensor) -> None:
        """An output table that is there as well must be the token table."""
        output = self.tensors.pop(name, None)
        if output is not None and not torch.equal(output, table):
            raise FirthError(
                f"{self.path}: an output table of its own (untied), which Firth does not read; tie it to the tokens"
            )

    def finish(self, known: Callable[[str], bool] = lambda name: False) -> None:
        """Refuses what was not taken, but for what is ``known`` to say nothing new."""
        left = sorted(name for name in self.tensors if not known(name))
        if left:
            raise FirthError(
                f"{self.path}: weights that are not part of {self.title} ({', '.join(left[:3])}); is this another architecture?"
            )
