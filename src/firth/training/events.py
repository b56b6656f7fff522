"""TensorBoard event files, written without TensorBoard: records of TFRecord with the ``Event`` message of scalars.

A record is its length (8 bytes), a masked CRC-32C of the length, the message and a masked CRC-32C of the message.
"""

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
_MASK = 0xA282EAD8
FOLDER = "tensorboard"
_root: ContextVar[Path | None] = ContextVar("events", default=None)


def _entry(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (_POLYNOMIAL if number & 1 else 0)
    return number


_TABLE = tuple(_entry(number) for number in range(256))


def crc32c(data: bytes) -> int:
    found = 0xFFFFFFFF
    for byte in data:
        found = found >> 8 ^ _TABLE[(found ^ byte) & 0xFF]
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
