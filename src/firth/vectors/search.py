"""Exact search among rows: blocked products, the best few kept from block to block."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Found = tuple[str, float]
_BLOCK = 16_384
_QUERIES = 512


class Rows(Protocol):
    """A matrix that is read block by block."""

    @property
    def norms(self) -> Matrix: ...

    def __len__(self) -> int: ...

    def rows(self, first: int, last: int) -> Matrix: ...


def unit_rows(vectors: Matrix) -> Matrix:
    """Rows of length 1 (zeros stay)."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms), np.float32)


def best_cosines(
    rows: Rows, units: Matrix, top: int, left_out: list[list[int]] | None, limit: int | None
) -> list[list[tuple[int, float]]]:
    """For each unit query [Q, D] the rows with the highest cosine, highest first."""
    return _best(rows, units, lambda block, some: some @ block.T, top, left_out, limit)


def best_products(
    rows: Rows, units: Matrix, top: int, left_out: list[list[int]] | None, limit: int | None
) -> list[list[tuple[int, float]]]:
    """3CosMul over questions [Q, 3, D] (a, b, c): cos(x, b) cos(x, c) / (cos(x, a) + 0.001)."""

    def scores(block: Matrix, some: Matrix) -> Matrix:
        a, b, c = ((some[:, one] @ block.T + 1) / 2 for one in range(3))
        return np.asarray(b * c / (a + 0.001), np.float32)

    return _best(rows, units, scores, top, left_out, limit)


def _best(
    rows: Rows,
    queries: Matrix,
    scores: Callable[[Matrix, Matrix], Matrix],
    top: int,
    left_out: list[list[int]] | None,
    limit: int | None,
) -> list[list[tuple[int, float]]]:
    size = len(rows) if limit is None else min(limit, len(rows))
    found: list[list[tuple[int, float]]] = []
    for start in range(0, len(queries), _QUERIES):
        some = queries[start : start + _QUERIES]
        out = None if left_out is None else left_out[start : start + _QUERIES]
        found += _best_of(rows, some, scores, min(top, size), out, size)
    return found


def _best_of(rows: Rows, queries: Matrix, scores: Any, top: int, left_out: Any, size: int) -> Any:
    best = np.full((len(queries), 0), -np.inf, np.float32)
    numbers = np.zeros((len(queries), 0), np.int64)
    for first in range(0, size, _BLOCK):
        last = min(first + _BLOCK, size)
        block = rows.rows(first, last) / rows.norms[first:last, None]
        here = scores(block, queries)
        for query, numbers_out in enumerate(left_out or []):
            for number in numbers_out:
                if first <= number < last:
                    here[query, number - first] = -np.inf
        if here.shape[1] > top:
            place = np.argpartition(-here, top - 1, axis=1)[:, :top] if top else np.zeros((len(queries), 0), np.int64)
        else:
            place = np.broadcast_to(np.arange(here.shape[1]), here.shape)
        best = np.concatenate((best, np.take_along_axis(here, place, 1)), 1)
        numbers = np.concatenate((numbers, place + first), 1)
        if best.shape[1] > top:
            order = np.lexsort((numbers, -best), axis=1)[:, :top]
            best, numbers = np.take_along_axis(best, order, 1), np.take_along_axis(numbers, order, 1)
    order = np.lexsort((numbers, -best), axis=1)
    best, numbers = np.take_along_axis(best, order, 1), np.take_along_axis(numbers, order, 1)
    return [
        [(int(number), float(score)) for number, score in zip(some, values, strict=True) if np.isfinite(score)]
        for some, values in zip(numbers, best, strict=True)
    ]


def near_spellings(word: str, words: Sequence[str], count: int = 3) -> list[str]:
    """Known words that are written almost the same, the most frequent words looked at first."""
    import difflib

    span = max(1, len(word) // 3)
    letters = set(word.lower())
    near = [
        other for other in words[:200_000] if abs(len(other) - len(word)) <= span and letters & set(other[:3].lower())
    ]
    folded = [other for other in near if other.lower() == word.lower()]
    return (folded + [one for one in difflib.get_close_matches(word, near, count, 0.7) if one not in folded])[:count]
