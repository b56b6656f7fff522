"""Checkpoints: whole or absent, checked when read. Every training uses these, whatever it keeps in them.

``checkpoints/step-N/`` holds the files of the training and ``state.json``: the step, what the training notes there
(seconds, metrics ...), the checksums of the files, and a seal over all of it. Never pickle. Nothing here needs
torch; ``optimizer.save_checkpoint`` adds a network and its optimizer. Also here: the metrics file of a run
(``History``), batches computed ahead in a thread, and what becomes of a run that is stopped (``learning``).
"""

import hashlib
import json
import re
import shutil
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError, Interrupted, going_on
from firth.core.files import aside, atomic_folder, check_files, checksum, disk_errors, read_json, write_json, write_text
from firth.core.run import Run, is_run
from firth.core.types import Batch
from firth.training.events import find_events

_NAME = re.compile(r"step-(\d+)$")
_STATE = "state.json"


def _seal(state: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def write_checkpoint(folder: Path, step: int, state: Mapping[str, object], write: Callable[[Path], None]) -> Path:
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
    _forget_replaced(folder.parent)
    return goal


@contextmanager
def learning(folder: Path, advice: str, learned: Callable[[], bool], prepared: tuple[str, ...] = ()) -> Iterator[None]:
    """While a run is made. What ends it before anything was learned (a refusal, a full disk, too little memory, Ctrl-C)
    leaves nothing but what was ``prepared``, and a run that was to be replaced is there again. After that, what
    ends it says how to go on."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Interrupted) or learned():
            _forget_replaced(folder)
            with going_on(advice):
                raise
        Run.discard(folder, prepared)
        raise
    _forget_replaced(folder)


def same_command(overwrite: bool) -> str:
    """How to go on with what the same command goes on with, unless that is to begin anew."""
    return f"go on with: the same command{', without --overwrite' if overwrite else ''}"


def _forget_replaced(folder: Path) -> None:
    if is_run(aside(folder)):
        shutil.rmtree(aside(folder), ignore_errors=True)


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


def read_history(path: Path) -> list[dict[str, Any]]:
    """All whole lines; one cut off by a kill is skipped."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            break
        if isinstance(found, dict):
            lines.append(found)
    return lines


class History:
    """Appends lines; starts after the given step."""

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        kept = [line for line in read_history(path) if line.get("step", 0) <= step]
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
        self.events = find_events(path)

    def add(self, line: Mapping[str, object]) -> None:
        with disk_errors(self.path), open(self.path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(line) + "\n")
            if self.events is not None:
                self.events.add(line)


@contextmanager
def prefetched(batch: Callable[[int], Batch], numbers: Iterator[int], ahead: int = 3) -> Iterator[Iterator[Batch]]:
    """An iterator over ``batch(n)`` for the numbers, a few always under way."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="batches")

    def stream() -> Iterator[Batch]:
        waiting: deque[Future[Batch]] = deque()
        for number in numbers:
            waiting.append(pool.submit(batch, number))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        yield stream()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
