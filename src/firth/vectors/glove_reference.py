"""GloVe's kernels in plain Python and NumPy, to be read and to be tested against."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]


def count_pairs(
    tokens: NDArray[np.int32],
    starts: NDArray[np.int64],
    token: int,
    size: int,
    weights: NDArray[np.int64],
    symmetric: bool,
    table: NDArray[np.int64],
    used: int,
    limit: int,
) -> tuple[int, int]:
    """The twin of glove_kernels.count_pairs; a dictionary does the looking up."""
    window = len(weights) - 1
    place_of = {int(key): place for place, key in enumerate(table[:, 0]) if key >= 0}
    free = iter(np.flatnonzero(table[:, 0] < 0).tolist())
    for begin, end in pairwise(starts):
        known = [(place, int(tokens[place])) for place in range(begin, end) if tokens[place] < size]
        for number, (place, word) in enumerate(known):
            if place < token:
                continue
            if used >= limit:
                return place, used
            for distance, (_, other) in enumerate(reversed(known[max(0, number - window) : number]), 1):
                left, right = (word, other) if symmetric and other > word else (other, word)
                key = left << 32 | right
                if key not in place_of:
                    place_of[key] = next(free)
                    table[place_of[key]] = key, 0
                    used += 1
                table[place_of[key], 1] += weights[distance]
    return int(starts[-1]), used


def train_cells(
    rows: Any, columns: Any, logs: Matrix, weights: Matrix, inputs: Matrix, outputs: Matrix, dim: int, rate: float
) -> float:
    """The twin of glove_kernels.train_cells."""
    half = inputs.shape[1] // 2
    loss = 0.0
    for i, j, log, weight in zip(rows, columns, logs, weights, strict=True):
        w, c = inputs[i, :half].copy(), outputs[j, :half].copy()
        error = w @ c - log
        loss += 0.5 * weight * error**2
        slope = np.float32(weight * error * rate)
        inputs[i, :half] -= slope * c / np.sqrt(inputs[i, half:])
        outputs[j, :half] -= slope * w / np.sqrt(outputs[j, half:])
        inputs[i, half:] += (slope * c) ** 2
        outputs[j, half:] += (slope * w) ** 2
        inputs[i, dim + 1] = outputs[j, dim] = 1
    return float(loss)
