"""Memory: how much the machine has, what cannot fit is refused before it is taken, and what was freed is given back."""

import ctypes
import gc
import os
import sys
from pathlib import Path

from firth.core.config import show_bytes
from firth.core.errors import FirthError

_OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory", "alloc_cpu")


def release_memory() -> None:
    """Returns freed heap memory to the system (glibc's malloc_trim); does nothing elsewhere."""
    gc.collect()
    if sys.platform != "linux":  # Windows cannot even open itself as a library
        return
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy or PyTorch could not get the memory it asked for."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in _OUT_OF_MEMORY)


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
