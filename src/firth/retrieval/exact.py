"""The most similar rows of a matrix, exactly: products with blocks of rows, the best few kept from block to block.

Q questions, N rows, D dimensions.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from firth.core.batching import Floats, Ints

BLOCK = 16_384  # rows


def unit_rows(rows_ND: Floats) -> Floats:
    """Rows of length 1; zeros stay."""
    norms = np.linalg.norm(rows_ND, axis=1, keepdims=True)
    return np.asarray(rows_ND / np.where(norms == 0, 1, norms), np.float32)


def best_places(scores_QN: Floats, top: int) -> Ints:
    """Places of the best few of each row, best first; of equals the earlier."""
    size = scores_QN.shape[1]
    top = min(top, size)
    if not top:
        return np.zeros((len(scores_QN), 0), np.int64)
    some = (
        np.argpartition(-scores_QN, top - 1, axis=1)[:, :top]
        if top < size
        else np.tile(np.arange(size), (len(scores_QN), 1))
    )
    order = np.lexsort((some, -np.take_along_axis(scores_QN, some, 1)), axis=1)
    found: Ints = np.take_along_axis(some, order, 1)
    return found


def best_rows(
    questions_QD: Floats, blocks: Iterable[tuple[Ints, NDArray[np.floating]]], top: int
) -> tuple[Ints, Floats]:
    """(numbers, scores), both [Q, top], among blocks of (numbers of the rows, rows); -1 where there are not so many."""
    num = len(questions_QD)
    numbers, scores = np.full((num, 0), -1, np.int64), np.full((num, 0), -np.inf, np.float32)
    for here_N, rows_ND in blocks:
        found_QN = np.asarray(questions_QD @ np.asarray(rows_ND, np.float32).T, np.float32)
        places = best_places(found_QN, top)
        numbers = np.concatenate((numbers, here_N[places]), 1)
        scores = np.concatenate((scores, np.take_along_axis(found_QN, places, 1)), 1)
        kept = best_places(scores, top)
        numbers, scores = np.take_along_axis(numbers, kept, 1), np.take_along_axis(scores, kept, 1)
    lacking = top - numbers.shape[1]
    if lacking > 0:
        numbers = np.pad(numbers, ((0, 0), (0, lacking)), constant_values=-1)
        scores = np.pad(scores, ((0, 0), (0, lacking)), constant_values=-np.inf)
    return numbers, scores


def blocks_of(rows_ND: NDArray[np.floating], size: int = BLOCK) -> Iterable[tuple[Ints, NDArray[np.floating]]]:
    """The rows of a matrix in blocks, with their numbers."""
    for start in range(0, len(rows_ND), size):
        block = rows_ND[start : start + size]
        yield np.arange(start, start + len(block)), block
