"""Batches of texts, counted in tokens."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import hashed

_POOL = 4  # batches that share out their rows by length


def shuffled_batches(
    lens: Sequence[int] | NDArray[np.int64], max_tokens: int, max_rows: int, seed: int, epoch: int, by_length: bool
) -> list[NDArray[np.int64]]:
    """Row numbers of each batch of an epoch: all rows once, in shuffled order.

    A batch has at most ``max_rows`` rows and, padded, at most ``max_tokens`` tokens (unless one row
    alone is longer). A pure function of its arguments: any batch of any epoch can be made again.
    ``by_length`` is for models that compute padding: of the rows of a few batches those of like length come
    together. Not of all rows: length tells what kind of text it is, and batches of one kind each teach
    badly (a tagger from 600 sentences came to an F1 of .52 in place of .61).
    """
    lens_N = np.asarray(lens, np.int64)
    order = np.argsort(hashed(seed, epoch, 2, np.arange(len(lens_N))), kind="stable")
    if by_length:
        pool = np.arange(len(order)) // (_POOL * max_rows)
        order = order[np.lexsort((lens_N[order], pool))]
    batches = _cut(order, lens_N, max_tokens, max_rows)
    if by_length:
        order = np.argsort(hashed(seed, epoch, 3, np.arange(len(batches))), kind="stable")
        return [batches[number] for number in order]
    return batches


def batches_in_order(
    lens: Sequence[int] | NDArray[np.int64], max_tokens: int, max_rows: int
) -> list[NDArray[np.int64]]:
    """Neighbours in batches within the same limits, in the given order: results can be told as they come."""
    lens_N = np.asarray(lens, np.int64)
    return _cut(np.arange(len(lens_N)), lens_N, max_tokens, max_rows)


def batches_longest_first(
    lens: Sequence[int] | NDArray[np.int64], max_tokens: int, max_rows: int
) -> list[NDArray[np.int64]]:
    """Sorted by length, the longest first (lack of memory shows at once); for prediction on what is all there."""
    lens_N = np.asarray(lens, np.int64)
    return _cut(np.argsort(-lens_N, kind="stable"), lens_N, max_tokens, max_rows)


def padding_share(batches: Iterable[NDArray[np.int64]], lens: Sequence[int] | NDArray[np.int64]) -> float:
    """Which part of what is computed is padding."""
    lens_N = np.asarray(lens, np.int64)
    padded = filled = 0
    for rows in batches:
        padded += len(rows) * int(lens_N[rows].max())
        filled += int(lens_N[rows].sum())
    return 1 - filled / padded if padded else 0.0


def _cut(
    order: NDArray[np.int64], lens_N: NDArray[np.int64], max_tokens: int, max_rows: int
) -> list[NDArray[np.int64]]:
    """The order cut into batches: each takes rows for as long as it stays within the limits."""
    assert max_tokens > 0
    assert max_rows > 0
    batches, start, longest = [], 0, 0
    for place, length in enumerate(lens_N[order].tolist()):
        longest = max(longest, length)
        num_rows = place - start + 1
        if num_rows > 1 and (num_rows > max_rows or num_rows * longest > max_tokens):
            batches.append(order[start:place])
            start, longest = place, length
    if start < len(order):
        batches.append(order[start:])
    return batches
