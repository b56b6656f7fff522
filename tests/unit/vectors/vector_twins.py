"""The kernels in plain NumPy, to be read and to be tested against: same signatures, same order of
random numbers, same updates, a thousand times slower."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_WATCHED = 64
_SIX = 6

Matrix = NDArray[np.float32]
Targets = tuple[list[int], list[float], list[float]]  # rows, goals, rates


class SplitMix:
    """SplitMix64 (Steele et al. 2014), counted from a key."""

    def __init__(self, key: int) -> None:
        self.state = int(key) & _MASK

    def bits(self) -> int:
        self.state = z = (self.state + _GOLDEN) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, limit: int) -> int:
        return ((self.bits() >> 32) * limit) >> 32


def sigmoid(score: Matrix) -> Matrix:
    return np.asarray(1 / (1 + np.exp(-score)), np.float32)


def subsample(tokens: NDArray[np.int32], keep: NDArray[np.uint64], random: SplitMix) -> list[int]:
    unknown = len(keep) - 1
    words = [min(int(word), unknown) for word in tokens]
    return [word for word in words if random.bits() >> 32 < int(keep[word])]


def draw_noise(noise: NDArray[np.uint32], bits: int) -> int:
    column = ((bits >> 32) * len(noise)) >> 32
    return column if bits & 0xFFFFFFFF < int(noise[column, 0]) else int(noise[column, 1])


def choose_targets(word: int, rate: float, noise: Any, negatives: int, paths: Any, random: SplitMix) -> Targets:
    """The word itself and noise, or its path in the tree (see kernels.choose_targets)."""
    if negatives:
        drawn = [draw_noise(noise, random.bits()) for _ in range(negatives)]
        return [word, *drawn], [1.0] + [0.0] * negatives, [rate] + [0.0 if other == word else rate for other in drawn]
    starts, nodes, goals = paths
    part = slice(starts[word], starts[word + 1])
    return nodes[part].tolist(), goals[part].tolist(), [rate] * (starts[word + 1] - starts[word])


def sixes(targets: Targets) -> list[tuple[NDArray[Any], Matrix, Matrix]]:
    rows, goals, rates = np.asarray(targets[0]), np.asarray(targets[1], "f4"), np.asarray(targets[2], "f4")
    return [(rows[n : n + _SIX], goals[n : n + _SIX], rates[n : n + _SIX]) for n in range(0, len(rows), _SIX)]


def update_pairs(
    inputs: Matrix, rows: list[int], outputs: Matrix, targets: Any, goals: Matrix, rates: Matrix
) -> Matrix:
    """d/dx log sigma(x) = 1 - sigma(x): every row moves along the targets it was off by, and back."""
    old = outputs[targets].copy()
    slopes = (goals - sigmoid(inputs[rows] @ old.T)) * rates
    change = np.zeros_like(old)
    for row, slope in zip(rows, slopes, strict=True):
        change += np.outer(slope, inputs[row])
        inputs[row] += slope @ old
    np.add.at(outputs, targets, change)
    return np.asarray(slopes[0])


def update_hidden(hidden: Matrix, error: Matrix, outputs: Matrix, targets: Any, goals: Matrix, rates: Matrix) -> Matrix:
    slopes = (goals - sigmoid(outputs[targets] @ hidden)) * rates
    for target, slope in zip(targets, slopes, strict=True):
        error += slope * outputs[target]
        outputs[target] += slope * hidden
    return np.asarray(slopes)


def surprise(slopes: Matrix, rates: Matrix) -> float:
    counted = rates > 0
    return float(-np.log(np.maximum(1 - np.abs(slopes[counted] / rates[counted]), 1e-7)).sum())


def train_words(
    tokens: NDArray[np.int32],
    starts: NDArray[np.int64],
    keep: NDArray[np.uint64],
    noise: NDArray[np.uint32],
    path_starts: NDArray[np.int64],
    path_nodes: NDArray[np.int32],
    path_goals: Matrix,
    input_matrix: Matrix,
    output_matrix: Matrix,
    touched_inputs: NDArray[np.uint8],
    touched_outputs: NDArray[np.uint8],
    window: int,
    negatives: int,
    cbow: bool,
    rate: float,
    rate_slope: float,
    rate_floor: float,
    key: int,
) -> tuple[float, int]:
    """word2vec; the twin of kernels.train_words."""
    random, paths = SplitMix(key), (path_starts, path_nodes, path_goals)
    loss, watched, centres = 0.0, 0, 0
    for begin, end in pairwise(starts):
        kept = subsample(tokens[begin:end], keep, random)
        now = max(rate - rate_slope * (begin - starts[0]), rate_floor)
        for centre, word in enumerate(kept):
            span = 1 + random.below(window)
            targets = choose_targets(word, now, noise, negatives, paths, random)
            rows = kept[max(0, centre - span) : centre] + kept[centre + 1 : centre + span + 1]
            if not rows:
                continue
            if len(touched_inputs):
                touched_inputs[rows] = 1
                touched_outputs[targets[0]] = 1
            centres += 1
            watch = centres % _WATCHED == 0
            hidden, error = input_matrix[rows].mean(0), np.zeros(input_matrix.shape[1], np.float32)
            for some, goals, rates in sixes(targets):
                if cbow:
                    slopes = update_hidden(hidden, error, output_matrix, some, goals, rates)
                else:
                    slopes = update_pairs(input_matrix, rows, output_matrix, some, goals, rates)
                loss += surprise(slopes, rates) if watch else 0.0
            if cbow:
                np.add.at(input_matrix, rows, error)
            watched += watch
    return loss, watched


def train_subwords(
    tokens: NDArray[np.int32],
    starts: NDArray[np.int64],
    keep: NDArray[np.uint64],
    noise: NDArray[np.uint32],
    path_starts: NDArray[np.int64],
    path_nodes: NDArray[np.int32],
    path_goals: Matrix,
    gram_starts: NDArray[np.int64],
    gram_rows: NDArray[np.int32],
    input_matrix: Matrix,
    output_matrix: Matrix,
    touched_inputs: NDArray[np.uint8],
    touched_outputs: NDArray[np.uint8],
    window: int,
    negatives: int,
    cbow: bool,
    rate: float,
    rate_slope: float,
    rate_floor: float,
    key: int,
) -> tuple[float, int]:
    """fastText; the twin of kernels.train_subwords."""
    random, paths = SplitMix(key), (path_starts, path_nodes, path_goals)
    loss, watched, centres = 0.0, 0, 0

    def bag(words: list[int]) -> list[int]:
        return [row for word in words for row in gram_rows[gram_starts[word] : gram_starts[word + 1]].tolist()]

    for begin, end in pairwise(starts):
        kept = subsample(tokens[begin:end], keep, random)
        now = max(rate - rate_slope * (begin - starts[0]), rate_floor)
        for centre, word in enumerate(kept):
            span = 1 + random.below(window)
            neighbours = kept[max(0, centre - span) : centre] + kept[centre + 1 : centre + span + 1]
            if not neighbours:
                continue
            rows = bag(neighbours if cbow else [word])
            goals_of = [word] if cbow else neighbours
            chosen = [choose_targets(other, now, noise, negatives, paths, random) for other in goals_of]
            if len(touched_inputs):
                touched_inputs[bag([word, *neighbours])] = 1
                for targets in chosen:
                    touched_outputs[targets[0]] = 1
            centres += 1
            watch = centres % _WATCHED == 0
            hidden, error = input_matrix[rows].mean(0), np.zeros(input_matrix.shape[1], np.float32)
            blocks = [block for targets in chosen for block in sixes(targets)]
            for number, (some, goals, rates) in enumerate(blocks):
                slopes = update_hidden(hidden, error, output_matrix, some, goals, rates)
                loss += surprise(slopes, rates) if watch and number == 0 else 0.0
            np.add.at(input_matrix, rows, error)
            watched += watch
    return loss, watched


def merge_rows(base: Matrix, copies: Matrix, touched: NDArray[np.uint8], first: int, last: int) -> None:
    """The sum of the changes that several copies made to a row, held where they agree; the twin of
    merging.merge_rows."""
    for row in range(first, last):
        changes = np.asarray([copies[copy, row] - base[row] for copy in range(len(copies)) if touched[copy, row]])
        if not len(changes):
            continue
        total = changes.sum(0)
        base[row] += min(1.0, 2.0 * (changes**2).sum() / max(float(total @ total), 1e-30)) * total
        copies[:, row] = base[row]
        touched[:, row] = 0


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
