"""The two kernels of GloVe: counting pairs of words into a hash table, and AdaGrad over the cells of the
co-occurrence matrix. The tests have plain versions with the same signatures.

Shapes: ``tokens`` [T] word ids, ``starts`` [units+1], ``weights`` [window+1] by distance, ``table`` [slots, 2] of
keys and values; ``rows``, ``columns``, ``logs`` and ``weights`` of ``train_cells`` [cells], ``inputs`` and
``outputs`` [V, 2 * P] (see ``glove.glove_matrix``).
"""

import numpy as np
from numpy.typing import NDArray

from firth.vectors.lanes import (
    Floats,
    Offsets,
    add,
    compiled,
    div,
    fetch,
    load,
    mixed,
    mul,
    muladd,
    prefetch,
    splat,
    sqrt,
    store,
    sub,
    total,
)

Ids = NDArray[np.int32]
_AHEAD = 4  # cells ahead whose rows are prefetched


@compiled
def _slots(
    known: Offsets, place: int, window: int, symmetric: bool, table: Offsets, pairs: Offsets, slots: Offsets
) -> int:
    """Writes the keys and first slots of the pairs of a word with the words before it, prefetches the slots and
    returns the number of pairs."""
    count = 0
    mask = len(table) - 1
    flat = table.reshape(-1)
    for other in range(max(0, place - window), place):
        left, right = known[other], known[place]
        if symmetric and left > right:
            left, right = right, left
        pairs[count] = (left << 32) | right
        slots[count] = np.int64(mixed(np.uint64(pairs[count]) * np.uint64(0x9E3779B97F4A7C15)) & np.uint64(mask))
        prefetch(flat, slots[count] * 2)
        count += 1
    return count


@compiled
def count_pairs(
    tokens: Ids,
    starts: Offsets,
    token: int,
    size: int,
    weights: Offsets,
    symmetric: bool,
    table: Offsets,
    used: int,
    limit: int,
) -> tuple[int, int]:
    """Counts from the token ``token`` on until the table holds ``limit`` keys or the text ends; returns
    where it stopped and the number of keys. Unknown words (``size`` and above) are left out before counting.
    A key of -1 is an empty slot; the table must have free slots for a window beyond ``limit``."""
    window = len(weights) - 1
    unit = np.searchsorted(starts, token, side="right") - 1
    longest = 1
    for one in range(unit, len(starts) - 1):
        longest = max(longest, starts[one + 1] - starts[one])
    known, origin = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    pairs, slots = np.empty((2, window), np.int64), np.empty((2, window), np.int64)
    mask = len(table) - 1
    while unit < len(starts) - 1:
        num, first = 0, 0
        for place in range(starts[unit], starts[unit + 1]):
            known[num], origin[num] = tokens[place], place
            num += int(tokens[place] < size)
            first += int((tokens[place] < size) & (place < token))
        ahead = _slots(known, first, window, symmetric, table, pairs[first & 1], slots[first & 1])
        for place in range(first, num):
            if used >= limit:
                return origin[place], used
            side = place & 1
            count = ahead
            if place + 1 < num:
                ahead = _slots(known, place + 1, window, symmetric, table, pairs[1 - side], slots[1 - side])
            for one in range(count):
                slot, key = slots[side, one], pairs[side, one]
                while table[slot, 0] != key and table[slot, 0] != -1:
                    slot = (slot + 1) & mask
                if table[slot, 0] == -1:
                    table[slot, 0], table[slot, 1] = key, 0
                    used += 1
                table[slot, 1] += weights[count - one]
        unit += 1
        token = starts[unit]
    return token, used


@compiled
def train_cells(
    rows: Ids, columns: Ids, logs: Floats, weights: Floats, inputs: Floats, outputs: Floats, dim: int, rate: float
) -> float:
    """AdaGrad over cells in order; returns the sum of weight * error^2 / 2.

    A row holds [vector, bias, 1] in ``inputs`` and [vector, 1, bias] in ``outputs``, padded to half its
    width, then as many sums of squared gradients. As in glove.c these start at 1 and add the square of the *scaled*
    gradient, rate * g; AdaGrad as published adds g squared.
    """
    width = inputs.shape[1]
    half = width // 2
    left, right = inputs.reshape(-1), outputs.reshape(-1)
    loss = 0.0
    num = len(rows)
    for cell in range(num):
        if cell + _AHEAD < num:
            fetch(left, rows[cell + _AHEAD] * width, width)
            fetch(right, columns[cell + _AHEAD] * width, width)
        a, b = rows[cell] * width, columns[cell] * width
        score = splat(0.0)
        for t in range(0, half, 8):
            score = muladd(load(left, a + t), load(right, b + t), score)
        error = total(score) - logs[cell]
        weighted = weights[cell] * error
        loss += 0.5 * weighted * error
        slope = splat(weighted * np.float32(rate))
        for t in range(0, half, 8):
            x, y = load(left, a + t), load(right, b + t)
            p, q = mul(slope, y), mul(slope, x)
            s, r = load(left, a + half + t), load(right, b + half + t)
            store(left, a + t, sub(x, div(p, sqrt(s))))
            store(right, b + t, sub(y, div(q, sqrt(r))))
            store(left, a + half + t, add(s, mul(p, p)))
            store(right, b + half + t, add(r, mul(q, q)))
        left[a + dim + 1] = np.float32(1)
        right[b + dim] = np.float32(1)
    return loss
