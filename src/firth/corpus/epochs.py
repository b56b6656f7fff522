"""What is drawn anew in every epoch."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_Drawn = TypeVar("_Drawn")


def each_epoch(draw: Callable[[int], _Drawn]) -> Callable[[int], _Drawn]:
    """Draws once an epoch; two are kept, since batches are read ahead across a border."""
    return lru_cache(2)(draw)
