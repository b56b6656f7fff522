"""Regularised linear models on fixed features: logistic regression (classes) and ridge regression (scores), with their
strength chosen by cross-validation.

The features of all examples are scaled so that a row has length 1 on average; so the same strengths fit TF-IDF and the
vectors of any model. Wide features are first turned into as many columns as there are examples, which changes nothing:
the weights of a linear model with an L2 penalty are a sum of rows. Also here: the learning curve of such a model, which says
whether more labels would help.

N examples, D features, K classes.
"""

import time
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from firth.core.run import CurvePoint, LearningCurve
from firth.core.types import Prediction, hashed, softmax
from firth.tasks.data import nested_order, strata
from firth.tasks.scores import classify_scores, fit_factor
from firth.tasks.several import ClassifySeveral
from firth.tasks.training import Item, Task

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
NUM_FOLDS = 5
_MANY = 2500  # examples: beyond, sparse features are not turned into a column an example
_FLAT = 0.1
_NEVER = -30.0  # the score of a class that was not there to learn from
_STREAM = 0xF01D
_SHIFT_STEP, _SHIFT_COST = 0.125, 0.1  # of a factor; macro F1 that a factor of 1 must gain
JUDGED = 3  # examples of a class


@dataclass(frozen=True)
class Head:
    """Weights [K, D] and bias [K] of the last layer, found without the network."""

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]


@dataclass(frozen=True)
class Linear:
    """A fitted model in the space of the features that were given. ``outside`` is what models that had not seen an
    example gave for it: probabilities [N, K], or scores [N, 1]."""

    weights: Floats  # [K, D]
    bias: Floats  # [K]
    strength: float
    outside: Floats
    goodness: float  # of what is in ``outside``; the larger, the better
    shift: Floats | None = None  # [K]: what was added to the scores for the sake of rare classes, contained in the bias


def stratified_folds(
    kinds: Sequence[Hashable], num_folds: int, seed: int, copies_of: Sequence[int] | None = None
) -> Ints:
    """The fold of each example [N]: those of each kind in random order are dealt out in turn. An example that says the same
    as an earlier one, whose number is in ``copies_of``, goes into the fold of that: nothing is judged by what it has learned."""
    numbers: dict[Hashable, int] = {}
    kind_N = np.asarray([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)
    order = np.lexsort((hashed(seed, _STREAM, np.arange(len(kind_N))), kind_N))
    folds_N = np.empty(len(kind_N), np.int64)
    folds_N[order] = np.arange(len(kind_N)) % num_folds
    if copies_of is None:
        return folds_N
    used, together_N = np.unique(folds_N[np.asarray(copies_of, np.int64)], return_inverse=True)
    return together_N if len(used) > 1 else folds_N  # where all say the same there is no other way


def balanced_weights(targets_N: Ints, num_classes: int) -> Floats:
    """Of each class, so that rare ones count as much as common ones: n / (K n_k), over the classes that occur."""
    counts_K = np.bincount(targets_N, minlength=num_classes)
    return np.asarray(len(targets_N) / (np.count_nonzero(counts_K) * np.maximum(counts_K, 1)))


def judged_weights(targets_N: Ints, num_classes: int, balanced: bool, in_folds: bool = True) -> Floats:
    """How much each example counts when a model is judged, on dev examples by its class alone.

    In folds the examples of a class with fewer than three do not count: what can be learned of it from one or none says
    nothing of the model, and -30 for a class that was never seen would hide all else. Where classes are balanced, the root
    of their weights counts: with whole weights a few rare examples would decide."""
    weights_K = balanced_weights(targets_N, num_classes) if balanced else np.ones(num_classes)
    if not in_folds:
        return np.asarray(weights_K[targets_N])
    weights_K = np.sqrt(weights_K)
    weights_K = np.where(np.bincount(targets_N, minlength=num_classes) >= JUDGED, weights_K, 0.0)
    weights_N = weights_K[targets_N]
    return np.asarray(weights_N if weights_N.any() else np.ones(len(targets_N)))


# -- classes


def fit_logistic(
    features: "Floats | csr_matrix",
    targets_N: Ints,
    num_classes: int,
    folds_N: Ints,
    balanced: bool = False,
    strengths: Sequence[float] = STRENGTHS,
    emphasis: Floats | None = None,
    turned: bool = True,
    shifted: bool = False,
) -> Linear:
    """The strength under which what is true outside of the folds is likeliest, once that is calibrated: of few examples the
    share that is right says less. Dense features are standardised; ``emphasis`` [D] weighs them after that. Sparse ones are
    ``turned`` into fewer columns where that is possible. ``shifted``: where classes are balanced, scores of rare ones are
    raised as well: weights change little where the classes of the training examples are far apart, as n-grams make them."""
    space = _Space.of(features, emphasis, turned)
    by_strength = {strength: np.zeros((len(targets_N), num_classes)) for strength in strengths}
    for inside_N, outside_N in _splits(folds_N):
        fitting = _Logistic(space.rows[inside_N], targets_N[inside_N], num_classes, balanced, 1e-3)
        for strength in strengths:
            weights, bias = fitting.fit(strength)
            by_strength[strength][outside_N] = softmax(space.rows[outside_N] @ weights.T + bias)
    weights_N = judged_weights(targets_N, num_classes, balanced)
    goodness = {
        strength: fit_factor(np.log(np.maximum(found, 1e-12)), targets_N, weights_N)[1]
        for strength, found in by_strength.items()
    }
    best = max(strengths, key=goodness.__getitem__)
    fitting = _Logistic(space.rows, targets_N, num_classes, balanced, 1e-8)
    weights, bias = space.back(*fitting.fit(best))
    if not (shifted and balanced):
        return Linear(weights, bias, best, by_strength[best], goodness[best])
    logs_NK = np.log(np.maximum(by_strength[best], 1e-12))
    shift_K = rare_shift(logs_NK, targets_N)
    return Linear(weights, bias + shift_K, best, softmax(logs_NK + shift_K), goodness[best], shift_K)


def rare_shift(logs_NK: Floats, targets_N: Ints) -> Floats:
    """[K]: what is added to the scores so that macro F1 is best outside of the folds: minus the logarithm of the share of a class
    (Menon et al. 2021), times a factor, in the scale of the calibrated scores. Smoothed over neighbouring factors; a larger
    one must gain more, so that chance does not choose it."""
    num_classes = logs_NK.shape[1]
    if len(targets_N) < _FEWEST:
        return np.zeros(num_classes)
    shares_K = np.log(np.maximum(np.bincount(targets_N, minlength=num_classes), 1) / len(targets_N))
    scale = fit_factor(logs_NK, targets_N)[0]
    factors_F = _SHIFT_STEP * np.arange(-1, round(1 / _SHIFT_STEP) + 1)
    scores_F = np.pad(
        [
            classify_scores(targets_N, (scale * logs_NK - factor * shares_K).argmax(1), num_classes)["macro_f1"]
            for factor in factors_F
        ],
        (0, 1),
        mode="edge",
    )
    smooth_F = (scores_F[:-2] + 2 * scores_F[1:-1] + scores_F[2:]) / 4
    best = int((smooth_F - _SHIFT_COST * factors_F[1:]).argmax())
    return np.asarray(-factors_F[1 + best] / scale * shares_K)


def fit_several(
    features: "Floats | csr_matrix",
    targets_NK: Ints,
    folds_N: Ints,
    strengths: Sequence[float] = STRENGTHS,
    emphasis: Floats | None = None,
) -> Linear:
    """Several labels of one text: a logistic regression for each, all of the strength that makes what is true likeliest."""
    space = _Space.of(features, emphasis)
    by_strength = {strength: np.zeros(targets_NK.shape) for strength in strengths}
    for inside_N, outside_N in _splits(folds_N):
        for place in range(targets_NK.shape[1]):
            fitting = _Logistic(space.rows[inside_N], targets_NK[inside_N, place], 2, False, 1e-3)
            for strength in strengths:
                scores_N = _yes(space.rows[outside_N], *fitting.fit(strength))
                by_strength[strength][outside_N, place] = 1 / (1 + np.exp(-scores_N))

    def goodness(strength: float) -> float:
        found_NK = by_strength[strength]
        return float(np.log(np.maximum(np.where(targets_NK, found_NK, 1 - found_NK), 1e-6)).mean())

    best = max(strengths, key=goodness)
    weights, bias = _fit_each(space, targets_NK, best, 1e-8)
    return Linear(*space.back(weights, bias), best, by_strength[best], goodness(best))


def refit_several(
    features_ND: "Floats | csr_matrix", targets_NK: Ints, strength: float, emphasis: Floats | None = None
) -> tuple[Floats, Floats]:
    space = _Space.of(features_ND, emphasis)
    return space.back(*_fit_each(space, targets_NK, strength, 1e-3))


def _yes(rows: "Floats | csr_matrix", weights_2D: Floats, bias_2: Floats) -> Floats:
    """The score of yes less that of no."""
    return np.asarray(np.clip(rows @ (weights_2D[1] - weights_2D[0]) + bias_2[1] - bias_2[0], _NEVER, -_NEVER))


def _fit_each(space: "_Space", targets_NK: Ints, strength: float, tolerance: float) -> tuple[Floats, Floats]:
    fits = [
        _Logistic(space.rows, targets_NK[:, place], 2, False, tolerance).fit(strength)
        for place in range(targets_NK.shape[1])
    ]
    weights, bias = (np.stack([fit[part][1] - fit[part][0] for fit in fits]) for part in (0, 1))
    return weights, np.clip(bias, _NEVER, -_NEVER)


def refit_logistic(
    features_ND: "Floats | csr_matrix",
    targets_N: Ints,
    num_classes: int,
    strength: float,
    balanced: bool = False,
    emphasis: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Weights and bias at a strength that was chosen before."""
    space = _Space.of(features_ND, emphasis, turned=False)
    return space.back(*_Logistic(space.rows, targets_N, num_classes, balanced, 1e-3).fit(strength))


def _splits(folds_N: Ints) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """What is learned from and what is judged, for each fold."""
    for fold in np.unique(folds_N).tolist():
        outside_N = folds_N == fold
        yield (~outside_N if not outside_N.all() else outside_N), outside_N  # a single fold is judged by itself


class _Logistic:
    """Fits at rising strengths, each from where the last one ended."""

    def __init__(
        self, rows_ND: "Floats | csr_matrix", targets_N: Ints, num_classes: int, balanced: bool, tolerance: float
    ) -> None:
        from sklearn.linear_model import LogisticRegression

        self.rows, self.targets, self.num_classes = rows_ND, targets_N, num_classes
        weight = "balanced" if balanced else None
        self.model = LogisticRegression(class_weight=weight, warm_start=True, max_iter=5000, tol=tolerance)
        self.seen = np.unique(targets_N)

    def fit(self, strength: float) -> tuple[Floats, Floats]:
        """Weights [K, D] and bias [K]; a class that does not occur gets no chance."""
        weights = np.zeros((self.num_classes, self.rows.shape[1]))
        bias = np.full(self.num_classes, _NEVER)
        if len(self.seen) == 1:
            bias[self.seen] = 0.0
            return weights, bias
        if not self.rows.shape[1]:  # of few texts no n-gram may be frequent enough: their classes alone count
            counts = np.bincount(self.targets, minlength=self.num_classes)[self.seen]
            bias[self.seen] = 0.0 if self.model.class_weight == "balanced" else np.log(counts / counts.sum())
            return weights, bias
        with warnings.catch_warnings():  # classes may be many, and rare ones are meant to be there
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            self.model.set_params(C=strength).fit(self.rows, self.targets)
        own, start = self.model.coef_, self.model.intercept_
        if len(self.seen) == 2:  # one row says both
            own, start = np.concatenate((-own / 2, own / 2)), np.concatenate((-start / 2, start / 2))
        weights[self.seen], bias[self.seen] = own, start
        return weights, bias


# -- scores


def fit_ridge(
    features: "Floats | csr_matrix",
    targets_N: Floats,
    folds_N: Ints,
    strengths: Sequence[float] = STRENGTHS,
    emphasis: Floats | None = None,
) -> Linear:
    """The strength with the smallest squared error outside of the folds. Dense features are standardised."""
    space = _Space.of(features, emphasis)
    by_strength = {strength: np.zeros((len(targets_N), 1)) for strength in strengths}
    for inside_N, outside_N in _splits(folds_N):
        for strength in strengths:
            weights, bias = _ridge(space.rows[inside_N], targets_N[inside_N], strength)
            by_strength[strength][outside_N] = space.rows[outside_N] @ weights.T + bias
    goodness = {strength: -float(((found[:, 0] - targets_N) ** 2).mean()) for strength, found in by_strength.items()}
    best = max(strengths, key=goodness.__getitem__)
    return Linear(*space.back(*_ridge(space.rows, targets_N, best)), best, by_strength[best], goodness[best])


def refit_ridge(
    features_ND: "Floats | csr_matrix", targets_N: Floats, strength: float, emphasis: Floats | None = None
) -> tuple[Floats, Floats]:
    space = _Space.of(features_ND, emphasis)
    return space.back(*_ridge(space.rows, targets_N, strength))


def _ridge(rows_ND: "Floats | csr_matrix", targets_N: Floats, strength: float) -> tuple[Floats, Floats]:
    """min |y - Xw - b|² + |w|² / strength, the bias free."""
    from sklearn.linear_model import Ridge

    if not rows_ND.shape[1]:  # of few texts no n-gram may be frequent enough
        return np.zeros((1, 0)), np.atleast_1d(targets_N.mean())
    model = Ridge(alpha=1 / strength).fit(rows_ND, targets_N)
    return np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)


# -- the space in which they are fitted


@dataclass(frozen=True)
class _Space:
    """Features with rows of mean length 1, and the way back to those that were given."""

    rows: "Floats | csr_matrix"
    factors: "Floats | csr_matrix"  # a number, one a feature [D], or where there are fewer columns [D, rank]
    middle: Floats | None = None  # of each feature [D]

    @classmethod
    def of(cls, features: "Floats | csr_matrix", emphasis: Floats | None = None, turned: bool = True) -> "_Space":
        if isinstance(features, np.ndarray):
            middle, spread = features.mean(0), features.std(0)
            usual = spread if emphasis is None else spread[emphasis == 1]
            least = (
                _FLAT * np.median(usual) if emphasis is None else np.where(emphasis == 1, _FLAT * np.median(usual), 0)
            )
            spread = np.maximum(spread, least)  # what hardly differs is not blown up
            factors = np.divide(features.shape[1] ** -0.5, spread, out=np.zeros_like(spread), where=spread > 1e-9)
            factors = factors if emphasis is None else factors * emphasis
            rows = (features - middle) * factors
            if features.shape[1] <= features.shape[0]:
                return cls(rows, factors, middle)
            powers, vectors = np.linalg.eigh(rows @ rows.T)
            kept = powers > 1e-10 * max(float(powers[-1]), 1e-10)
            roots = np.sqrt(powers[kept])
            back = factors[:, None] * (rows.T @ (vectors[:, kept] / roots))
            return cls(vectors[:, kept] * roots, back, middle)
        mean_square = float(features.multiply(features).sum(1).mean())
        scale = mean_square**-0.5 if mean_square > 0 else 1.0
        scaled = features * scale
        if not turned or features.shape[0] > _MANY or features.shape[1] <= features.shape[0]:
            return cls(scaled, np.asarray(scale))
        powers, vectors = np.linalg.eigh((scaled @ scaled.T).toarray())
        kept = powers > 1e-10 * max(float(powers[-1]), 1e-10)
        roots = np.sqrt(powers[kept])
        return cls(vectors[:, kept] * roots, scale * (scaled.T @ (vectors[:, kept] / roots)))

    def back(self, weights_KR: Floats, bias_K: Floats) -> tuple[Floats, Floats]:
        """For the features as they were given."""
        factors = np.asarray(self.factors)
        weights = weights_KR @ factors.T if factors.ndim == 2 else weights_KR * factors
        return weights, bias_K if self.middle is None else bias_K - weights @ self.middle


Outputs = NDArray[np.floating]
SHARES = (0.125, 0.25, 0.5, 1.0)
_FEWEST = 40  # examples: fewer say nothing of a quarter of them
_POWERS = (0.25, 0.5, 0.75, 1.0, 1.5)
_MOST_S = 20.0


class Fits(Protocol):
    """A linear model that can be fitted again on some of the examples."""

    def head_of(self, inside_N: NDArray[np.bool_]) -> Head: ...

    def outputs_of(self, head: Head, numbers: Ints) -> Mapping[int, Outputs]: ...


def predictions_of(task: Task, examples: Sequence[Any], outputs: Mapping[int, Outputs]) -> dict[int, Prediction]:
    """By the number of an example."""
    nothing = Item((), None, 0)
    return {one: task.prediction(examples[one], nothing, output.astype(np.float32)) for one, output in outputs.items()}


def learning_curve(
    fits: Fits,
    task: Task,
    examples: Sequence[Any],
    folds_N: Ints,
    budget_s: float,
    name: str,
    seed: int = 0,
) -> LearningCurve | None:
    """None where there are too few examples, or where it would take more than a twentieth of the budget."""
    if len(examples) < _FEWEST:
        return None
    order_N = nested_order(strata(examples), seed)
    found: dict[float, dict[int, Prediction]] = {share: {} for share in SHARES}
    begun, sizes = time.perf_counter(), []
    folds = np.unique(folds_N).tolist()
    for number, fold in enumerate(folds):
        inside = order_N[folds_N[order_N] != fold]
        sizes.append(len(inside))
        for share in reversed(SHARES):  # what takes longest says first whether there is time
            inside_N = np.zeros(len(examples), bool)
            inside_N[inside[: max(1, round(share * len(inside)))]] = True
            outputs = fits.outputs_of(fits.head_of(inside_N), np.flatnonzero(folds_N == fold))
            found[share] |= predictions_of(task, examples, outputs)
            if time.perf_counter() - begun > min(_MOST_S, budget_s / 20) and not number:
                return None
        spent = time.perf_counter() - begun
        if spent * (number + 2) / (number + 1) > min(_MOST_S, budget_s / 20):
            break
    usual = sum(sizes) / len(sizes)
    points = [CurvePoint(examples=round(share * usual), score=_score(task, examples, found[share])) for share in SHARES]
    now, twice = predict_scores(points, (len(examples), 2 * len(examples)))
    return LearningCurve(
        name=name, metric=task.metric, points=tuple(points), examples=len(examples), fitted=now, predicted=twice
    )


def _score(task: Task, examples: Sequence[Any], found: Mapping[int, Prediction]) -> float:
    """Several labels with the thresholds that suit the predictions best."""
    judged, predictions = [examples[number] for number in found], list(found.values())
    if isinstance(task, ClassifySeveral):
        predictions = task.recut(judged, predictions)
    return task.score(judged, [], predictions)[task.metric]


def predict_scores(points: Sequence[CurvePoint], sizes: Sequence[int]) -> list[float]:
    """What the fitted curve says for so many examples; scores neither fall with more of them nor pass 1."""
    n_P = np.asarray([point.examples for point in points], np.float64)
    errors_P = 1 - np.asarray([point.score for point in points])
    weights_P = np.sqrt(n_P / n_P.max())  # more examples, less chance
    best: tuple[float, float, float, float] | None = None
    for power in _POWERS:
        columns = np.stack((np.ones_like(n_P), (n_P / n_P.max()) ** -power), 1)
        alpha, beta = _least_squares(columns, errors_P, weights_P)
        loss = float((weights_P**2 * (columns @ [alpha, beta] - errors_P) ** 2).sum())
        if best is None or loss < best[0] - 1e-12:
            best = loss, alpha, beta, power
    assert best is not None
    _, alpha, beta, power = best
    return [float(1 - (alpha + beta * (size / n_P.max()) ** -power)) for size in sizes]


def _least_squares(
    columns_P2: NDArray[np.float64], errors_P: NDArray[np.float64], weights_P: NDArray[np.float64]
) -> tuple[float, float]:
    """α and β, neither below 0."""
    alpha, beta = np.linalg.lstsq(columns_P2 * weights_P[:, None], errors_P * weights_P, rcond=None)[0].tolist()
    squares_P = weights_P**2
    if beta < 0:
        return float((squares_P * errors_P).sum() / squares_P.sum()), 0.0
    if alpha < 0:
        second_P = columns_P2[:, 1]
        return 0.0, float((squares_P * errors_P * second_P).sum() / (squares_P * second_P**2).sum())
    return alpha, beta
