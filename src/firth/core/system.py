"""The process and its system: memory given back, standard input."""

import ctypes
import gc
import sys
from collections.abc import Iterator

from firth.core.errors import FirthError


def release_memory() -> None:
    """Frees what the C library keeps for later; where it has no such call, nothing happens."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return


def stdin_lines() -> Iterator[tuple[int, str]]:
    """Lines as they come, without their ends, counted from 1."""
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise FirthError(f"standard input:{number}: not utf-8; convert it first") from None
        yield number, line.rstrip("\r\n")
