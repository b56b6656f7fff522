"""Texts of any length through a model of fixed length: windows, batched by length, and put together again.

B batch, T tokens, D hidden size.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
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


_BATCH_TOKENS = 4096


def packs(rows: Sequence[NDArray[np.int64]]) -> Iterator[tuple[list[int], torch.Tensor, list[int]]]:
    """(numbers, ids [N], lengths) of sequences in the order of their lengths, so that equal ones are neighbours."""
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    numbers: list[int] = []
    room = _BATCH_TOKENS
    for number in [*order, None]:
        if numbers and (number is None or len(rows[number]) > room):
            ids = np.concatenate([rows[one] for one in numbers])
            yield numbers, torch.from_numpy(ids), [len(rows[one]) for one in numbers]
            numbers, room = [], _BATCH_TOKENS
        if number is not None:
            numbers.append(number)
            room -= len(rows[number])


def pool_packed(hidden_ND: torch.Tensor, lens: Sequence[int], pool: str) -> torch.Tensor:
    """[S, D]: the mean, the largest or the first of each sequence's vectors; zeros for an empty one."""
    lens_S = torch.tensor(lens)
    if pool == "cls":
        first_S = torch.cumsum(lens_S, 0) - lens_S
        found = hidden_ND.new_zeros(len(lens), hidden_ND.shape[1])
        found[lens_S > 0] = hidden_ND[first_S[lens_S > 0]]
        return found
    owner_N = torch.repeat_interleave(torch.arange(len(lens)), lens_S)
    found = hidden_ND.new_zeros(len(lens), hidden_ND.shape[1])
    if pool == "max":
        return found.scatter_reduce(0, owner_N[:, None].expand_as(hidden_ND), hidden_ND, "amax", include_self=False)
    return found.index_add(0, owner_N, hidden_ND) / lens_S.clamp(min=1)[:, None]


def pool_tokens(hidden_BTD: torch.Tensor, mask_BT: torch.Tensor, pool: str) -> torch.Tensor:
    """[B, D]: the mean, the largest, the first (cls) or the last of each row's vectors."""
    if pool == "cls":
        return hidden_BTD[:, 0]
    if pool == "last":
        return hidden_BTD[torch.arange(len(mask_BT)), mask_BT.sum(1) - 1]
    if pool == "max":
        return hidden_BTD.masked_fill(~mask_BT[:, :, None], float("-inf")).amax(1)
    weights = mask_BT[:, :, None].to(hidden_BTD.dtype)
    return (hidden_BTD * weights).sum(1) / weights.sum(1)
