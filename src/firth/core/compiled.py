"""Functions as machine code (Numba; import this file late)."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compile_function(function: Function, **options: Any) -> Function:
    """On first call, kept on disk where some folder can be written to."""
    try:
        made: Any = njit(cache=True, **options)(function)
    except RuntimeError:  # no place for a cache
        made = njit(**options)(function)
    return cast(Function, made)
