"""Confidence intervals by the bootstrap (Efron 1979): how far would a score be off on other examples?

Most scores are functions of sums over examples, so a draw of N examples is a row of counts and all
draws are one matrix product. N examples, S statistics of each, R draws.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.core.seeds import generator
from firth.tasks.metrics import confusion

Floats = NDArray[np.float64]
_CELLS = 4_000_000  # of the matrix of counts at one time


class Interval(NamedTuple):
    low: float
    high: float


def interval(
    statistics: ArrayLike, score: Callable[[Floats], Floats], seed: int = 0, num_draws: int = 1000, level: float = 0.95
) -> Interval:
    """Percentile interval of a score that is a function of sums.

    ``statistics`` [N, S] are what each example adds; ``score`` maps sums [R, S] to scores [R]. For
    accuracy: columns (is it right, 1) and ``lambda sums: sums[:, 0] / sums[:, 1]``.
    """
    statistics_NS = np.asarray(statistics, np.float64)
    num = len(statistics_NS)
    if num == 0:
        return Interval(0.0, 0.0)
    random, sums = generator(seed, 0xB007), []
    even = np.full(num, 1 / num)
    step = max(1, _CELLS // num)
    for start in range(0, num_draws, step):
        counts_RN = random.multinomial(num, even, size=min(step, num_draws - start))
        sums.append(counts_RN.astype(np.float64) @ statistics_NS)
    return _percentiles(score(np.concatenate(sums)), level)


def interval_of_rows(
    score: Callable[[NDArray[np.int64]], float], num: int, seed: int = 0, num_draws: int = 1000, level: float = 0.95
) -> Interval:
    """The same for a score that is no function of sums (rank correlation): it is given the drawn row numbers."""
    if num == 0:
        return Interval(0.0, 0.0)
    random = generator(seed, 0xB007)
    return _percentiles(np.asarray([score(random.integers(num, size=num)) for _ in range(num_draws)]), level)


def mean_interval(values: ArrayLike, seed: int = 0, num_draws: int = 1000, level: float = 0.95) -> Interval:
    """Of a mean over examples: accuracy, exact match, F1 of answers."""
    values_N = np.asarray(values, np.float64)
    columns = np.stack((values_N, np.ones_like(values_N)), axis=-1)
    return interval(columns, lambda sums: sums[:, 0] / sums[:, 1], seed, num_draws, level)


def confusion_interval(
    true: ArrayLike,
    guessed: ArrayLike,
    num_classes: int,
    score: Callable[[Floats], Floats],
    seed: int = 0,
    num_draws: int = 1000,
    level: float = 0.95,
) -> Interval:
    """Of any score of a confusion matrix (``score`` maps [R, K, K] to [R]): draws are made cell by cell."""
    table = confusion(true, guessed, num_classes)
    num = int(table.sum())
    if num == 0:
        return Interval(0.0, 0.0)
    drawn = generator(seed, 0xB007).multinomial(num, table.reshape(-1) / num, size=num_draws)
    return _percentiles(score(drawn.reshape(-1, num_classes, num_classes).astype(np.float64)), level)


def _percentiles(scores_R: Floats, level: float) -> Interval:
    assert 0 < level < 1
    low, high = np.quantile(scores_R, ((1 - level) / 2, (1 + level) / 2))
    return Interval(float(low), float(high))
