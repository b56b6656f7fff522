"""The projected LSTM in plain NumPy, a step at a time, in double precision."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstmp(
    inputs: Array,  # [T, I]
    weight: Array,  # [I + P, 4C], gates i, g, f, o
    bias: Array,
    projection: Array,  # [C, P]
    cell_clip: float = 3.0,
    output_clip: float = 3.0,
    start: tuple[Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Outputs [T, P] of one sequence, and the last output and cells."""
    num_cells, num_outputs = projection.shape
    hidden, cell = start if start is not None else (np.zeros(num_outputs), np.zeros(num_cells))
    outputs = []
    for vector in inputs:
        i, g, f, o = np.split(np.concatenate((vector, hidden)) @ weight + bias, 4)
        cell = sigmoid(f + 1.0) * cell + sigmoid(i) * np.tanh(g)
        cell = np.clip(cell, -cell_clip, cell_clip) if cell_clip else cell
        hidden = (sigmoid(o) * np.tanh(cell)) @ projection
        hidden = np.clip(hidden, -output_clip, output_clip) if output_clip else hidden
        outputs.append(hidden)
    return np.stack(outputs), hidden, cell
