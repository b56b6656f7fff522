"""Weights in several files, as transformers writes those of large models: an index names the file of each tensor."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.errors import FirthError
from firth.core.files import load_tensors, read_json

if TYPE_CHECKING:
    import torch

INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def load_shards(index: Path) -> "dict[str, torch.Tensor]":
    """All tensors that the index names, from the files that it lists; a missing, repeated or further tensor is an error."""
    found: dict[str, torch.Tensor] = {}
    where = _files_of(index)
    for name in sorted(set(where.values())):
        wanted = {tensor for tensor, file in where.items() if file == name}
        tensors = load_tensors(index.parent / name)
        if wanted != tensors.keys():
            odd = min(wanted ^ tensors.keys())
            reason = "is missing in it" if odd in wanted else f"is in it, but {index.name} does not say so"
            raise FirthError(f"{index.parent / name}: '{odd[:80]}' {reason}; copy the whole folder again")
        found |= tensors
    return found


def _files_of(index: Path) -> dict[str, str]:
    """The file of each tensor: beside the index, with a plain name and of the same kind."""
    listed = read_json(index, dict).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise FirthError(f"{index}: does not say which file has which weights; copy it again")
    ending = f".{index.name.split('.')[1]}"
    for name in set(map(str, listed.values())):
        if name not in listed.values() or Path(name).name != name or not name.endswith(ending) or "\0" in name:
            raise FirthError(f"{index}: '{name[:80]}' is not the name of a {ending} file beside it; copy it again")
        if not (index.parent / name).is_file():
            raise FirthError(f"{index.parent / name}: missing, though {index.name} names it; copy the whole folder")
    return listed
