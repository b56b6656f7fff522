"""Probabilities that mean what they say: one factor for the scores of a model (temperature scaling, Guo et al. 2017), and
the error of calibration.

N examples, K classes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
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


def fit_weights(logs_MNK: Floats, targets_N: Ints, weights_N: Floats | None = None) -> Floats:
    """[M]: the weights of M models whose log-probabilities are added under which the examples are likeliest (stacking,
    Wolpert 1992). They are positive; a weak pull to equal shares holds them."""
    from scipy.optimize import minimize

    rows, num = np.arange(len(targets_N)), len(logs_MNK)
    weights = np.ones(len(targets_N)) if weights_N is None else weights_N

    def loss(powers_M: Floats) -> float:
        added_NK = normalised(np.tensordot(np.exp(powers_M), logs_MNK, 1))
        pull = float(((powers_M + np.log(num)) ** 2).sum())
        return _HOLD * pull - float((added_NK[rows, targets_N] * weights).sum())

    found = minimize(loss, np.full(num, -np.log(num)), method="L-BFGS-B", bounds=[_POWERS] * num)
    return np.asarray(np.exp(found.x))


def added(predictions: Sequence[Sequence[Prediction]], weights: Sequence[float]) -> list[Prediction]:
    """What several models say of the same examples, their weighted log-probabilities added."""
    found: list[Prediction] = []
    for some in zip(*predictions, strict=True):
        first: Prediction = some[0]
        labels = list(first["probabilities"])
        logs_K = np.zeros(len(labels))
        for weight, one in zip(weights, some, strict=True):
            logs_K += weight * log_probs([one], labels)[0]
        chances_K = np.exp(normalised(logs_K[None])[0])
        order = np.argsort(-chances_K, kind="stable").tolist()
        by_label = {labels[place]: float(chances_K[place]) for place in order}
        found.append({**first, "label": labels[order[0]], "probabilities": by_label})
    return found


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


LEAST_CHANCES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def check_confidence(least: float | None) -> None:
    if least is not None and not 0 < least < 1:
        raise FirthError(f"min_confidence: {least:g} is not between 0 and 1; give a probability such as 0.8")


def withheld(found: Prediction, least: float | None) -> Prediction:
    """Without the label where the model is less sure of it than ``least``; the probabilities stay."""
    if least is None:
        return found
    label = found.get("label")
    if not isinstance(label, str):
        raise FirthError("--min-confidence is for classes, one of which a text has: leave it out for this task")
    return found if found["probabilities"][label] >= least else {**found, "label": None}


def chances_of(predictions: Sequence[Prediction], truth: Sequence[str]) -> tuple[Floats, NDArray[np.bool_]]:
    """The probability of each predicted label, and whether it is right."""
    chances = np.asarray([max(found["probabilities"].values()) for found in predictions])
    return chances, np.asarray(
        [found["label"] == label for found, label in zip(predictions, truth, strict=True)], np.bool_
    )


def coverage(chances_N: Floats, right_N: NDArray[np.bool_], least: float) -> tuple[float, float]:
    """The share of examples with at least that probability, and the share of these that is right (selective
    classification, El-Yaniv and Wiener 2010); 0 where there are none."""
    kept_N = chances_N >= least
    return float(kept_N.mean()) if len(kept_N) else 0.0, float(right_N[kept_N].mean()) if kept_N.any() else 0.0


def coverage_curve(chances_N: Floats, right_N: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Coverage and accuracy by the least probability."""
    rows = [(least, *coverage(chances_N, right_N, least)) for least in LEAST_CHANCES]
    return [{"min_confidence": least, "coverage": share, "accuracy": right} for least, share, right in rows if share]


def reliability(chances_N: Floats, right_N: NDArray[np.bool_], bins: int = 10) -> list[tuple[float, float, int]]:
    """For each bin of equal width that holds examples: their mean probability, the share that is right, their number."""
    places_N = np.minimum((chances_N * bins).astype(np.int64), bins - 1)
    return [
        (float(chances_N[places_N == one].mean()), float(right_N[places_N == one].mean()), int((places_N == one).sum()))
        for one in np.unique(places_N).tolist()
    ]


def error_of(predictions: Sequence[Prediction], truth: Sequence[str]) -> float:
    """The calibration error of predictions with probabilities."""
    return calibration_error(*chances_of(predictions, truth))
