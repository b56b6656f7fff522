"""Checkpoints: whole or absent, checked when read. Every training uses these, whatever it keeps in them.

``checkpoints/step-N/`` holds the files of the training and ``state.json``: the step, what the training notes there
(seconds, metrics ...), the checksums of the files, and a seal over all of it. Never pickle. Nothing here needs torch;
``module_checkpoints`` keeps a network and its optimizer.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.files import atomic_folder, check_files, checksum, read_json, write_json

_NAME = re.compile(r"step-(\d+)$")
_STATE = "state.json"


def _seal(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def write_checkpoint(folder: Path, step: int, state: Mapping[str, Any], write: Callable[[Path], None]) -> Path:
    """Writes ``folder/step-N`` in one rename; ``write`` puts the files of the training into the folder it is given."""
    goal = folder / f"step-{step}"
    if goal.is_dir():
        shutil.rmtree(goal)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_folder(goal) as temporary:
        write(temporary)
        checksums = {path.name: checksum(path) for path in sorted(temporary.iterdir())}
        sealed = {**state, "step": step, "checksums": checksums}
        write_json(temporary / _STATE, {**sealed, "seal": _seal(sealed)})
    return goal


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(step, folder), the latest last."""
    if not folder.is_dir():
        return []
    found = [(int(match.group(1)), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return sorted(found)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """``state.json`` after every file was compared with its checksum."""
    remedy = "remove this checkpoint to go on from the one before it, or from the beginning"
    state = read_json(checkpoint / _STATE)
    if not isinstance(state, dict) or state.pop("seal", None) != _seal(state):
        raise FirthError(f"{checkpoint / _STATE}: damaged (it is not as it was written); {remedy}")
    check_files(checkpoint, state["checksums"], remedy)
    return state


def prune(folder: Path, keep: int, best_step: int | None = None, needed: Collection[int] = ()) -> None:
    """Removes all but the last ``keep``, the best, and those that are still needed."""
    for step, path in list_checkpoints(folder)[:-keep]:
        if step != best_step and step not in needed:
            shutil.rmtree(path)
