"""Limits for what others made and for what a setting asks: JSON that is not too deep or large, memory that the machine has,
and one sentence for the errors of libraries.

Everything that is loaded passes here before anything of its size is made: ``files.read_json`` and ``files.load_tensors``
for files, ``require_memory`` for sizes.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import JsonValue

from firth.core.config import show_bytes
from firth.core.errors import FirthError

MAX_JSON_BYTES = 1 << 28
MAX_JSON_DEPTH = 64
_OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory", "alloc_cpu")


def parse_json(
    raw: bytes | str, where: str | Path, remedy: str = "the file is damaged or has another format"
) -> JsonValue:
    """A JSON value that is neither too large nor nested too deeply; what is wrong is said in a sentence."""
    if len(raw) > MAX_JSON_BYTES:
        raise FirthError(f"{where}: more than {show_bytes(MAX_JSON_BYTES)} of JSON; {remedy}")
    try:
        found: JsonValue = json.loads(raw)
    except RecursionError:
        raise FirthError(f"{where}: not valid JSON (nested too deeply); {remedy}") from None
    except ValueError as error:
        raise FirthError(f"{where}: not valid JSON ({shorten(error)}); {remedy}") from None
    if _is_deep(found):
        raise FirthError(f"{where}: not valid JSON (nested too deeply); {remedy}")
    return found


def _is_deep(value: JsonValue) -> bool:
    """Layer by layer: nothing recurses, however deep the value is."""
    layer: list[JsonValue] = [value]
    for _ in range(MAX_JSON_DEPTH):
        inner: list[JsonValue] = []
        for one in layer:
            if isinstance(one, dict):
                inner += [part for part in one.values() if isinstance(part, dict | list)]
            elif isinstance(one, list):
                inner += [part for part in one if isinstance(part, dict | list)]
        if not inner:
            return False
        layer = inner
    return True


def shorten(error: object, most: int = 160) -> str:
    """The first line of a library's message, not longer than a sentence may be."""
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else type(error).__name__
    return first if len(first) <= most else f"{first[: most - 3]}..."


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy or PyTorch could not get the memory it asked for."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in _OUT_OF_MEMORY)


@contextmanager
def foreign_errors(where: str | Path, what: str) -> Iterator[None]:
    """Around the reading of a file by a library: whatever it raises becomes one sentence. A panic of a Rust library is
    no ``Exception``, so it is known by its name."""
    try:
        yield
    except (FirthError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except FileNotFoundError:
        raise FirthError(f"{where}: no such file") from None
    except PermissionError:
        raise FirthError(f"{where}: no permission to read it; change its mode or copy it") from None
    except BaseException as error:
        reason = shorten(error) or type(error).__name__
        raise FirthError(f"{where}: not {what} ({reason}); copy it again") from error


def memory_bytes() -> int:
    """The memory of this machine, or of the container if that has less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 1 << 62
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limit = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Refuses what cannot fit into the memory of the machine, before any of it is taken. ``needed`` is the least."""
    most = memory_bytes()
    if needed > most:
        raise FirthError(
            f"{what} would take at least {show_bytes(needed)} of memory, but this machine has {show_bytes(most)}: {remedy}"
        )
