"""Scores of classes and numbers by the field's definitions; calibrated probabilities (temperature scaling, Guo et al. 2017) and
the expected calibration error.

Classes are numbers 0..K-1. N examples, K classes, R draws.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.core.run import LabelScore
from firth.core.types import Prediction, generator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClassScores:
    """Precision, recall, F1 and the number of true examples, each [..., K]."""

    precision: Floats
    recall: Floats
    f1: Floats
    support: Floats
    seen: NDArray[np.bool_]  # classes that are true or guessed somewhere

    @property
    def macro_f1(self) -> Floats:
        """The mean over classes that occur (as true or as a guess)."""
        return ratio((self.f1 * self.seen).sum(-1), self.seen.sum(-1))

    @property
    def weighted_f1(self) -> Floats:
        """The mean weighted by how often each class is true."""
        return ratio((self.f1 * self.support).sum(-1), self.support.sum(-1))


def ratio(above: ArrayLike, below: ArrayLike) -> Floats:
    """Division in which nothing by nothing is 0."""
    above, below = np.asarray(above, np.float64), np.asarray(below, np.float64)
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below != 0)


def harmonic(precision: ArrayLike, recall: ArrayLike) -> Floats:
    """F1 of precision and recall."""
    precision, recall = np.asarray(precision, np.float64), np.asarray(recall, np.float64)
    return ratio(2 * precision * recall, precision + recall)


def confusion(true: ArrayLike, guessed: ArrayLike, num_classes: int) -> NDArray[np.int64]:
    """Counts [K, K]: rows are true classes, columns guesses."""
    true_N, guessed_N = np.asarray(true, np.int64), np.asarray(guessed, np.int64)
    assert true_N.shape == guessed_N.shape
    cells = np.bincount(true_N * num_classes + guessed_N, minlength=num_classes**2)
    return cells.reshape(num_classes, num_classes)


def accuracy(table: ArrayLike) -> Floats:
    """The share on the diagonal of a confusion matrix [..., K, K]."""
    table_KK = np.asarray(table, np.float64)
    return ratio(np.trace(table_KK, axis1=-2, axis2=-1), table_KK.sum((-2, -1)))


def class_scores(table: ArrayLike) -> ClassScores:
    """Class by class from a confusion matrix [..., K, K]."""
    table_KK = np.asarray(table, np.float64)
    right = np.diagonal(table_KK, axis1=-2, axis2=-1)
    true, guessed = table_KK.sum(-1), table_KK.sum(-2)
    precision, recall = ratio(right, guessed), ratio(right, true)
    return ClassScores(precision, recall, harmonic(precision, recall), true, (true + guessed) > 0)


def matthews(table: ArrayLike) -> Floats:
    """Matthews' correlation for any number of classes (Gorodkin 2004); 0 where one side is constant."""
    table_KK = np.asarray(table, np.float64)
    total, right = table_KK.sum((-2, -1)), np.trace(table_KK, axis1=-2, axis2=-1)
    true, guessed = table_KK.sum(-1), table_KK.sum(-2)
    together = right * total - (true * guessed).sum(-1)
    spread = (total**2 - (true**2).sum(-1)) * (total**2 - (guessed**2).sum(-1))
    return ratio(together, np.sqrt(np.maximum(spread, 0)))


def pearson(first: ArrayLike, second: ArrayLike) -> Floats:
    """Correlation along the last axis; 0 where one side is constant."""
    first_N, second_N = np.asarray(first, np.float64), np.asarray(second, np.float64)
    first_N = first_N - first_N.mean(-1, keepdims=True)
    second_N = second_N - second_N.mean(-1, keepdims=True)
    together = (first_N * second_N).sum(-1)
    return ratio(together, np.sqrt((first_N**2).sum(-1)) * np.sqrt((second_N**2).sum(-1)))


def spearman(first: ArrayLike, second: ArrayLike) -> Floats:
    """Pearson's correlation of the ranks."""
    return pearson(ranks(first), ranks(second))


def ranks(values: ArrayLike) -> Floats:
    """Ranks 1..N of one row of numbers; equal ones share the mean of theirs."""
    _, group_N, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[group_N]


def classify_scores(true: ArrayLike, guessed: ArrayLike, num_classes: int) -> dict[str, float]:
    """The scores of a classifier."""
    table = confusion(true, guessed, num_classes)
    scores = class_scores(table)
    found = {
        "accuracy": float(accuracy(table)),
        "macro_f1": float(scores.macro_f1),
        "weighted_f1": float(scores.weighted_f1),
        "matthews": float(matthews(table)),
    }
    if num_classes == 2:
        found["f1"] = float(scores.f1[1])
    return found


def label_scores(true: ArrayLike, guessed: ArrayLike, labels: Sequence[str]) -> dict[str, LabelScore]:
    """Class by class, by name."""
    table = confusion(true, guessed, len(labels))
    scores = class_scores(table)
    return {
        label: LabelScore(
            precision=float(scores.precision[place]),
            recall=float(scores.recall[place]),
            f1=float(scores.f1[place]),
            true=int(table[place].sum()),
            guessed=int(table[:, place].sum()),
        )
        for place, label in enumerate(labels)
    }


def never_guessed(by_label: Mapping[str, LabelScore]) -> list[str]:
    """Labels that are true somewhere and guessed nowhere."""
    return [label for label, score in by_label.items() if score.true and not score.guessed]


SMALL_IS_GOOD = ("mean_squared_error",)  # reported, but no model is chosen by them


def number_scores(true: ArrayLike, guessed: ArrayLike) -> dict[str, float]:
    """The scores of a regression, such as text similarity."""
    true_N, guessed_N = np.asarray(true, np.float64), np.asarray(guessed, np.float64)
    return {
        "pearson": float(pearson(true_N, guessed_N)),
        "spearman": float(spearman(true_N, guessed_N)),
        "mean_squared_error": float(((true_N - guessed_N) ** 2).mean()) if len(true_N) else 0.0,
    }


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


def wrong_chances(logs_NK: Floats, targets_N: Ints) -> tuple[Floats, float]:
    """[N]: how likely each label is wrong, and the share of wrong labels. Every label is taken to be right with probability
    1 - e, else any other one, as often as the labels occur; e (before: Beta(2, 31)) and the factor that calibrates are those
    under which the labels are likeliest. So where texts of several classes look alike, or a model knows little, few labels
    are called wrong."""
    from scipy.optimize import minimize

    rows = np.arange(len(targets_N))
    usual_K = np.bincount(targets_N, minlength=logs_NK.shape[1]) / len(targets_N)

    def parts(found: Floats) -> tuple[Floats, Floats]:
        """The probabilities that the label is right, and that another one is, which was mistaken for it."""
        chances_NK, share = np.exp(normalised(np.exp(found[0]) * logs_NK)), _share(found)
        own_N = chances_NK[rows, targets_N]
        mistaken_NK = chances_NK / np.maximum(1 - usual_K, _LEAST_PROB)
        others_N = mistaken_NK.sum(1) - mistaken_NK[rows, targets_N]
        return (1 - share) * own_N, share * usual_K[targets_N] * others_N

    def loss(found: Floats) -> float:
        share = _share(found)
        before = np.log(share) + 30 * np.log(1 - share) - 0.2 * found[0] ** 2
        return float(-before - np.log(np.maximum(sum(parts(found)), _LEAST_PROB)).sum())

    starts = [(0.0, -3.0), (1.0, -3.0), (1.0, -1.0), (2.0, -2.0)]
    bounds = [_POWERS, (-8.0, 4.0)]
    fits = [minimize(loss, np.asarray(start), method="L-BFGS-B", bounds=bounds) for start in starts]
    best = min(fits, key=lambda fit: float(fit.fun)).x
    right_N, wrong_N = parts(best)
    return np.asarray(wrong_N / np.maximum(right_N + wrong_N, _LEAST_PROB)), _share(best)


def _share(found: Floats) -> float:
    """Of wrong labels: below a half."""
    return float(0.5 / (1 + np.exp(-found[1])))


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
