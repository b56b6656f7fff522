"""Compilation with Numba. Import this file late: loading the compiler takes a second."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compile_function(function: Function, fast: bool = False) -> Function:
    """Compiles on first call; the machine code is cached on disk where a folder is writable.

    ``fast`` releases the GIL, reorders floating-point operations and does not check for division by zero.
    """
    compiler = partial(njit, nogil=fast, fastmath=fast, error_model="numpy" if fast else "python")
    try:
        made = compiler(cache=True)(function)
    except RuntimeError:  # no writable folder for the cache
        made = compiler()(function)
    return cast(Function, made)
