"""Small images that tests make: bars whose direction is the label."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def bars(number: int, size: int = 16) -> NDArray[np.uint8]:
    """Even numbers have rows, odd ones columns, each at its own place and in its own colour."""
    draws = np.random.default_rng(number)
    image = draws.integers(0, 60, (size, size, 3)).astype(np.uint8)
    place = int(draws.integers(2, size - 4))
    where = (slice(place, place + 2), slice(None)) if number % 2 == 0 else (slice(None), slice(place, place + 2))
    image[where] = 120 + draws.integers(0, 120, 3)
    return image


def make_folder(folder: Path, count: int = 40, size: int = 16) -> Path:
    """A folder per class."""
    for number in range(count):
        inside = folder / ("rows", "columns")[number % 2]
        inside.mkdir(parents=True, exist_ok=True)
        Image.fromarray(bars(number, size)).save(inside / f"{number:03d}.png")
    return folder
