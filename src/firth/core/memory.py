"""Giving memory back to the system after a greedy step."""

import ctypes
import gc


def release_memory() -> None:
    """Frees what the C library keeps for later; where it has no such call, nothing happens."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
