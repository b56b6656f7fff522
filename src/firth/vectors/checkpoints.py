"""Checkpoints of static vectors: ``checkpoints/step-N/`` with ``state.safetensors`` and ``state.json``
(leg, seconds, checksum), whole or absent. Only the newest is kept."""

import re
import shutil
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from firth.core.files import atomic_folder, check_files, checksum, read_json, write_json
from firth.vectors.binary_formats import map_arrays, save_arrays

_NAME = re.compile(r"step-(\d+)$")


def save_checkpoint(run: Path, leg: int, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
    folder = run / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    goal = folder / f"step-{leg}"
    shutil.rmtree(goal, ignore_errors=True)
    with atomic_folder(goal) as temporary:
        save_arrays(temporary / "state.safetensors", arrays)
        sums = {"state.safetensors": checksum(temporary / "state.safetensors")}
        write_json(temporary / "state.json", {**facts, "leg": leg, "checksums": sums})
    for number, old in _checkpoints(run):
        if number != leg:
            shutil.rmtree(old)


def _checkpoints(run: Path) -> list[tuple[int, Path]]:
    folder = run / "checkpoints"
    if not folder.is_dir():
        return []
    return sorted((int(match.group(1)), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def load_checkpoint(run: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    """The newest one, checked, or None."""
    found = _checkpoints(run)
    if not found:
        return None
    folder = found[-1][1]
    state = read_json(folder / "state.json")
    check_files(folder, state["checksums"], "remove this checkpoint to begin anew")
    return state, map_arrays(folder / "state.safetensors")[0]


def remove_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoints", ignore_errors=True)
