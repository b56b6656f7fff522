"""Probabilities that mean what they say: one factor for the scores of a model (temperature scaling, Guo et al. 2017), and
the error of calibration.

N examples, K classes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from firth.core.types import Prediction

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_HOLD = 1.0  # how strongly the factor is held at 1: nats per square of its logarithm
_POWERS = (-3.0, 3.0)  # of e: from 1 / 20 to 20
_LEAST_PROB = 1e-12
_BINS = 15


def log_probs(predictions: Sequence[Prediction], labels: Sequence[str]) -> Floats:
    """[N, K] of what a classifier says."""
    rows = [[float(found["probabilities"][label]) for label in labels] for found in predictions]
    return np.asarray(np.log(np.maximum(np.asarray(rows).reshape(-1, len(labels)), _LEAST_PROB)))


def normalised(scores_NK: Floats) -> Floats:
    """Log-probabilities."""
    top = scores_NK.max(1, keepdims=True)
    return np.asarray(scores_NK - top - np.log(np.exp(scores_NK - top).sum(1, keepdims=True)))


def fit_factor(logs_NK: Floats, targets_N: Ints, weights_N: Floats | None = None) -> tuple[float, float]:
    """The factor of a model's log-probabilities under which the examples are likeliest, and their mean log-probability
    with it. The likelihood is concave in the factor; a weak pull to 1 holds it where few examples say little."""
    from scipy.optimize import minimize_scalar

    rows = np.arange(len(targets_N))
    weights = np.ones(len(targets_N)) if weights_N is None else weights_N

    def likelihood(power: float) -> float:
        return float((normalised(np.exp(power) * logs_NK)[rows, targets_N] * weights).sum())

    found = minimize_scalar(lambda power: _HOLD * power**2 - likelihood(power), bounds=_POWERS, method="bounded")
    return float(np.exp(found.x)), likelihood(float(found.x)) / float(weights.sum())


def rescaled(predictions: Sequence[Prediction], factor: float) -> list[Prediction]:
    """The same predictions with the scores of the model times a factor: labels stay, probabilities change."""
    found: list[Prediction] = []
    for one in predictions:
        labels = list(one["probabilities"])
        logs_NK = normalised(factor * log_probs([one], labels))
        chances = dict(zip(labels, np.exp(logs_NK[0]).tolist(), strict=True))
        found.append({**one, "probabilities": chances})
    return found


def calibration_error(chances_N: Floats, right_N: NDArray[np.bool_], bins: int = _BINS) -> float:
    """Expected calibration error (Naeini et al. 2015): over bins of equal width, how far the mean probability of the
    predicted label is from the share that is right, weighted by the examples in each."""
    if not len(chances_N):
        return 0.0
    places = np.minimum((chances_N * bins).astype(np.int64), bins - 1)
    sums = np.bincount(places, chances_N - right_N, bins)
    return float(np.abs(sums).sum() / len(chances_N))


def error_of(predictions: Sequence[Prediction], truth: Sequence[str]) -> float:
    """The calibration error of predictions with probabilities."""
    chances = np.asarray([max(found["probabilities"].values()) for found in predictions])
    right = np.asarray([found["label"] == label for found, label in zip(predictions, truth, strict=True)])
    return calibration_error(chances, right)
