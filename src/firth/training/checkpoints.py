"""Checkpoints: whole or absent, checked when read. Every training uses these, whatever it keeps in them.

``checkpoints/step-N/`` holds the files of the training and ``state.json``: the step, what the training notes there
(seconds, metrics ...), the checksums of the files, and a seal over all of it. Never pickle. Nothing here needs
torch; ``optimizer.save_checkpoint`` adds a network and its optimizer. Also here: the metrics file of a run
(``History``), also as TensorBoard event files, batches computed ahead in a thread, the signals that stop a training
(``stop_signals``), and what becomes of a run that is stopped (``learning``).
"""

import hashlib
import json
import re
import shutil
import signal
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from firth.core.errors import STOP_SIGNALS, FirthError, Interrupted, going_on
from firth.core.files import aside, atomic_folder, check_files, checksum, disk_errors, read_json, write_json, write_text
from firth.core.run import Run, is_run
from firth.core.types import Batch

# Event files are written without TensorBoard: records of TFRecord with the ``Event`` message of scalars. A record is its
# length (8 bytes), a masked CRC-32C of the length, the message and a masked CRC-32C of the message.
_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
_MASK = 0xA282EAD8
FOLDER = "tensorboard"
_root: ContextVar[Path | None] = ContextVar("events", default=None)


@cache
def _entry(number: int) -> int:
    """The remainder of one byte."""
    for _ in range(8):
        number = number >> 1 ^ (_POLYNOMIAL if number & 1 else 0)
    return number


def crc32c(data: bytes) -> int:
    found = 0xFFFFFFFF
    for byte in data:
        found = found >> 8 ^ _entry((found ^ byte) & 0xFF)
    return found ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    found = crc32c(data)
    return struct.pack("<I", ((found >> 15 | found << 17) + _MASK) & 0xFFFFFFFF)


def record(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + _masked(length) + message + _masked(message)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def event(wall_time: float, step: int, values: Mapping[str, float]) -> bytes:
    """An ``Event``: wall_time = 1, step = 2, summary = 5 with values of tag = 1 and simple_value = 2."""
    parts = [
        _bytes(1, _bytes(1, name.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", value))
        for name, value in values.items()
    ]
    head = _varint(1 << 3 | 1) + struct.pack("<d", wall_time) + _varint(2 << 3) + _varint(step)
    return head + _bytes(5, b"".join(parts))


class EventFile:
    """Appends the numbers of lines of ``metrics.jsonl``; the file is made with the first of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path: Path | None = None

    def add(self, line: Mapping[str, object]) -> None:
        kind = "train" if line.get("event") == "train" else "heldout"
        values = {
            f"{kind}/{name.removeprefix('heldout_')}": float(value)
            for name, value in line.items()
            if name not in ("step", "steps") and isinstance(value, int | float) and not isinstance(value, bool)
        }
        step = line.get("step")
        if not values or not isinstance(step, int):
            return
        with open(self._file(), "ab") as handle:
            handle.write(record(event(time.time(), step, values)))

    def _file(self) -> Path:
        if self.path is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            begun = time.time()
            self.path = self.folder / f"events.out.tfevents.{int(begun * 1000)}.firth"
            version = _varint(1 << 3 | 1) + struct.pack("<d", begun) + _bytes(3, b"brain.Event:2")
            self.path.write_bytes(record(version))
        return self.path


@contextmanager
def event_files(run: Path | None) -> Iterator[None]:
    """What is trained inside also writes event files below ``run``, one folder per training; with None nothing."""
    token = _root.set(run)
    try:
        yield
    finally:
        _root.reset(token)


def find_events(history: Path) -> EventFile | None:
    """The event file that belongs to a history, where such files are wanted."""
    root = _root.get()
    if root is None or not history.resolve().is_relative_to(root.resolve()):
        return None
    return EventFile(root / FOLDER / history.resolve().parent.relative_to(root.resolve()))


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
def stop_signals() -> Iterator[list[int]]:
    """Collects SIGINT, SIGTERM and SIGHUP (unless nohup has it ignored), so that the step is finished first; a second one stops
    at once. An interruption gets the exit code of the first. Outside of the main thread nothing is collected."""
    caught: list[int] = []

    def note(number: int, frame: object) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    try:
        before = {
            number: signal.signal(number, note) for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN
        }
    except ValueError:  # not in the main thread: the caller's affair
        before = {}
    try:
        yield caught
    except Interrupted as error:
        error.exit_code = 128 + (caught[0] if caught else signal.SIGINT)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    for line in path.read_text(encoding="utf-8").split("\n") if path.is_file() else []:  # not at U+2028, U+0085
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
