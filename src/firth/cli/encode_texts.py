"""Texts in, an array of vectors out, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.errors import FirthError
from firth.core.files import atomic_file
from firth.core.stdin import stdin_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from firth.representations.base import Representation

_TOGETHER = 512


def full_stdin_lines() -> list[str]:
    """The lines of standard input that hold something."""
    return [line for _, line in stdin_lines() if line.strip()]


def read_texts(source: str, column: str) -> list[str]:
    """One text a line from a file or standard input, also empty ones; tables and jsonl by their column."""
    if source == "-":
        texts = [line for _, line in stdin_lines()]
    else:
        from firth import api

        texts = list(api.read_texts(source, column))
    if not any(text.strip() for text in texts):
        raise FirthError(f"{source}: no text in it; give one text a line")
    return texts


def all_layers(model: Representation, texts: list[str], pool: str) -> NDArray[np.float32]:
    """Every layer of every text, [N, L+1, D]."""
    import numpy as np

    num_layers = len(model.layers("a").hidden)
    return np.stack([model.encode(texts, layer, pool) for layer in range(num_layers)], axis=1)


def write_vectors(model: Representation, texts: list[str], out: Path, layer: int | None, pool: str) -> tuple[int, ...]:
    """A float32 ``.npy`` file that appears when it is whole; returns its shape. No layer means all of them."""
    import numpy as np

    if out.suffix != ".npy":
        raise FirthError(f"{out}: vectors are written as NumPy arrays; choose a name that ends in .npy")
    if not out.parent.is_dir():
        raise FirthError(f"{out}: the folder {out.parent} does not exist; make it first")
    shape = (len(texts), model.dim) if layer is not None else (len(texts), len(model.layers("a").hidden), model.dim)
    with atomic_file(out) as handle:
        np.lib.format.write_array_header_1_0(handle, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for start in range(0, len(texts), _TOGETHER):
            some = texts[start : start + _TOGETHER]
            found = model.encode(some, layer, pool) if layer is not None else all_layers(model, some, pool)
            handle.write(found.astype("<f4").tobytes())
    return shape
