"""Texts of any length through a model of fixed length: windows, batched by length, and put together again.

B batch, T tokens, N tokens end to end, D hidden size.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from firth.core.batching import Ints, batches_by_length, pad

Floats = NDArray[np.float32]

_BATCH_TOKENS = 4096


def window_places(size: int, most: int) -> list[Ints]:
    """Places of the tokens in each window of at most ``most``, each with the first and the last token; nothing is cut off."""
    if size <= most:
        return [np.arange(size)]
    inner, room = np.arange(1, size - 1), most - 2
    return [np.concatenate(([0], inner[start : start + room], [size - 1])) for start in range(0, len(inner), room)]


def padded_batches(
    rows: Sequence[Ints], pad_id: int = 0, batch_tokens: int = _BATCH_TOKENS
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """(numbers, ids [B, T], 1 where there is a token) of rows of like length."""
    for numbers in batches_by_length([len(row) for row in rows], batch_tokens):
        yield numbers, *pad([rows[number] for number in numbers], pad_id)


def packed_batches(rows: Sequence[Ints], batch_tokens: int = _BATCH_TOKENS) -> Iterator[tuple[Ints, Ints, list[int]]]:
    """(numbers, ids [N], lengths) of rows end to end, in the order of their lengths, so that equal ones are neighbours."""
    lens = [len(row) for row in rows]
    for numbers in batches_by_length(lens, batch_tokens, padded=False):
        yield numbers, np.concatenate([rows[number] for number in numbers]), [lens[number] for number in numbers]


def pool_windows(pooled: Floats, owner: Ints, lens: Ints, num_texts: int, pool: str) -> Floats:
    """One vector a text from those of its windows: by length for the mean, else the first, the last or the largest."""
    if len(pooled) == num_texts:
        return pooled
    out = np.empty((num_texts, pooled.shape[1]), np.float32)
    for text in range(num_texts):
        mine = owner == text
        if pool == "mean":
            out[text] = np.average(pooled[mine], axis=0, weights=lens[mine])
        elif pool == "max":
            out[text] = pooled[mine].max(0)
        else:
            out[text] = pooled[mine][0 if pool == "cls" else -1]
    return out
