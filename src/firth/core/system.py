"""Process memory and standard input."""

import ctypes
import gc
import sys
from collections.abc import Iterator

from firth.core.errors import FirthError


def release_memory() -> None:
    """Returns freed heap memory to the system (glibc's malloc_trim); does nothing elsewhere."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return


def stdin_lines() -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line without its newline) as lines arrive."""
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise FirthError(f"standard input:{number}: not utf-8; convert it to UTF-8 first") from None
        yield number, line.rstrip("\r\n")
