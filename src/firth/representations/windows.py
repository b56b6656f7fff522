"""Texts of any length through a model of fixed length: windows batched by length, and put together again.

B batch, T tokens, D hidden size.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

_BATCH_TOKENS = 4096


def of_like_length(windows: Sequence[NDArray[np.int64]]) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
    """(numbers, ids, blocks) of windows of like length, so that hardly any padding is computed."""
    order = sorted(range(len(windows)), key=lambda number: len(windows[number]))
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop - start + 1) * len(windows[order[stop]]) <= _BATCH_TOKENS:
            stop += 1
        numbers = order[start:stop]
        ids = np.zeros((2, len(numbers), len(windows[numbers[-1]])), np.int64)
        for row, number in enumerate(numbers):
            ids[0, row, : len(windows[number])] = windows[number]
            ids[1, row, : len(windows[number])] = 1
        yield numbers, torch.from_numpy(ids[0]), torch.from_numpy(ids[1])
        start = stop


def pool_tokens(hidden_BTD: torch.Tensor, mask_BT: torch.Tensor, pool: str) -> torch.Tensor:
    """One vector a row from those of its tokens: their mean, their maximum, or the last one."""
    if pool == "last":
        return hidden_BTD[torch.arange(len(mask_BT)), mask_BT.sum(1) - 1]
    if pool == "max":
        return hidden_BTD.masked_fill(~mask_BT[:, :, None], float("-inf")).amax(1)
    weights = mask_BT[:, :, None].to(hidden_BTD.dtype)
    return (hidden_BTD * weights).sum(1) / weights.sum(1)


def pool_windows(
    pooled: NDArray[np.float32], owner: NDArray[np.int64], lens: NDArray[np.int64], num_texts: int, pool: str
) -> NDArray[np.float32]:
    """One vector a text from those of its windows: by length for the mean, the largest, or the last one."""
    if len(pooled) == num_texts:
        return pooled
    out = np.empty((num_texts, pooled.shape[1]), np.float32)
    for text in range(num_texts):
        mine = owner == text
        if pool == "last":
            out[text] = pooled[mine][-1]
        elif pool == "max":
            out[text] = pooled[mine].max(0)
        else:
            out[text] = np.average(pooled[mine], axis=0, weights=lens[mine])
    return out
