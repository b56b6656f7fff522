"""The two kernels of GloVe: counting pairs into a hash table, and AdaGrad over cells. Their twins in
``glove_reference.py`` have the same signatures."""

from typing import Any

import numpy as np

from firth.vectors.lanes import (
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

_AHEAD = 4  # cells whose rows are asked for before they are needed


@compiled
def _slots(known: Any, place: int, window: int, symmetric: bool, table: Any, pairs: Any, slots: Any) -> int:
    """Keys and home slots of the pairs of a word with the words before it; asks for their lines."""
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
    tokens: Any,
    starts: Any,
    token: int,
    size: int,
    weights: Any,
    symmetric: bool,
    table: Any,
    used: int,
    limit: int,
) -> tuple[int, int]:
    """Counts from the token ``token`` on until the table holds ``limit`` keys or the text ends; returns
    where it stopped and how many keys there are. Unknown words (``size`` and above) are as if they
    were not there. ``table`` [slots, 2] has keys (-1: empty) and values side by side; beyond ``limit`` there must be room for a window."""
    window = len(weights) - 1
    unit = np.searchsorted(starts, token, side="right") - 1
    longest = 1
    for one in range(unit, len(starts) - 1):
        longest = max(longest, starts[one + 1] - starts[one])
    known, origin = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    pairs, slots = np.empty((2, window), np.int64), np.empty((2, window), np.int64)
    mask = len(table) - 1
    while unit < len(starts) - 1:
        num: Any = 0
        first: Any = 0
        for place in range(starts[unit], starts[unit + 1]):
            known[num], origin[num] = tokens[place], place
            num += np.int64(tokens[place] < size)
            first += np.int64((tokens[place] < size) & (place < token))
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
    rows: Any, columns: Any, logs: Any, weights: Any, inputs: Any, outputs: Any, dim: int, rate: float
) -> float:
    """AdaGrad over cells in order; returns the sum of weight * error^2 / 2.

    A row holds [vector, bias, 1] in ``inputs`` and [vector, 1, bias] in ``outputs``, padded to half its
    width, then as many sums of squares. As in glove.c those begin at 1 and take in the *scaled*
    gradient, rate * g, squared; the textbook has g squared.
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
