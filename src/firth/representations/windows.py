"""Texts of any length through a model of fixed length: windows, batched by length, and put together again.

B batch, T tokens, D hidden size.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


def window_places(size: int, most: int) -> list[Ints]:
    """Places of the tokens in each window of at most ``most``, each with the first and the last token; nothing is cut off."""
    if size <= most:
        return [np.arange(size)]
    inner, room = np.arange(1, size - 1), most - 2
    return [np.concatenate(([0], inner[start : start + room], [size - 1])) for start in range(0, len(inner), room)]


def of_like_length(
    windows: Sequence[Ints], pad_id: int = 0, batch_tokens: int = 4096
) -> Iterator[tuple[list[int], Ints, Ints]]:
    """(numbers, ids, 1 where there is a token) of windows of like length, so that hardly any padding is computed."""
    order = sorted(range(len(windows)), key=lambda number: len(windows[number]))
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop - start + 1) * len(windows[order[stop]]) <= batch_tokens:
            stop += 1
        numbers = order[start:stop]
        lens = np.asarray([len(windows[number]) for number in numbers])
        mask_BT = (np.arange(lens[-1]) < lens[:, None]).astype(np.int64)
        ids_BT = np.full(mask_BT.shape, pad_id, np.int64)
        ids_BT[mask_BT > 0] = np.concatenate([windows[number] for number in numbers])
        yield numbers, ids_BT, mask_BT
        start = stop


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
