"""Functions as machine code (Numba; import this file late)."""

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from numba import njit

from firth.core.errors import FirthError

Function = TypeVar("Function", bound=Callable[..., Any])


def compile_function(function: Function, **options: Any) -> Function:
    """On first call, kept on disk where some folder can be written to."""
    try:
        made: Any = njit(cache=True, **options)(function)
    except RuntimeError:  # no place for a cache
        made = njit(**options)(function)
    return cast(Function, made)


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
