"""Sequences end to end without padding, and a vector for each of them again; the same of padded ones.

N tokens of all sequences, S sequences, D hidden size, B batch, T tokens.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

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
