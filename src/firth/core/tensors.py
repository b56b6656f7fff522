"""Named tensors on disk: safetensors, never pickle. Torch is imported only when a function is called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.errors import FirthError
from firth.core.files import disk_errors, sync_folder

if TYPE_CHECKING:
    import torch


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes the file atomically; equal tensors give equal bytes."""
    from safetensors.torch import save_file

    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        try:
            ready = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
            save_file(ready, temporary, {"format": "pt"})
            with open(temporary, "rb") as handle:
                os.fsync(handle.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Reads ``.safetensors``, or a PyTorch ``.bin`` that holds plain tensors only."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    except (SafetensorError, RuntimeError, ValueError, EOFError) as error:
        reason = str(error).partition("\n")[0]
        raise FirthError(f"{path}: not a complete weights file ({reason}); copy it again") from None
    except Exception as error:
        raise FirthError(
            f"{path}: contains more than plain tensors, so it is not loaded ({type(error).__name__}); convert it to safetensors"
        ) from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise FirthError(f"{path}: not a plain dict of named tensors; convert it to safetensors")
    return dict(found)
