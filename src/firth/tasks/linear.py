"""Regularised linear models on fixed features: logistic regression (classes) and ridge regression (scores), with their
strength chosen by cross-validation.

The features of all examples are scaled so that a row has length 1 on average; so the same strengths fit TF-IDF and the
vectors of any model. Wide features are first turned into as many columns as there are examples, which changes nothing:
the weights of a linear model with an L2 penalty are a sum of rows.

N examples, D features, K classes.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import hashed

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
NUM_FOLDS = 5
_MANY = 2500  # examples: beyond, sparse features are not turned into a column an example
_STREAM = 0xF01D


@dataclass(frozen=True)
class Linear:
    """A fitted model in the space of the features that were given. ``outside`` is what models that had not seen an
    example gave for it: probabilities [N, K], or scores [N, 1]."""

    weights: Floats  # [K, D]
    bias: Floats  # [K]
    strength: float
    outside: Floats


class Fit(Protocol):
    """Weights and bias for some rows of the features."""

    def __call__(self, rows_ND: Floats, strength: float) -> tuple[Floats, Floats]: ...


def stratified_folds(kinds: Sequence[Hashable], num_folds: int, seed: int) -> Ints:
    """The fold of each example [N]: those of each kind in random order are dealt out in turn."""
    numbers: dict[Hashable, int] = {}
    kind_N = np.asarray([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)
    order = np.lexsort((hashed(seed, _STREAM, np.arange(len(kind_N))), kind_N))
    folds_N = np.empty(len(kind_N), np.int64)
    folds_N[order] = np.arange(len(kind_N)) % num_folds
    return folds_N


def balanced_weights(targets_N: Ints, num_classes: int) -> Floats:
    """Of each class, so that rare ones count as much as common ones: n / (K n_k), over the classes that occur."""
    counts_K = np.bincount(targets_N, minlength=num_classes)
    return np.asarray(len(targets_N) / (np.count_nonzero(counts_K) * np.maximum(counts_K, 1)))


# -- classes


def fit_logistic(
    features: "Floats | csr_matrix",
    targets_N: Ints,
    num_classes: int,
    balanced: bool = False,
    seed: int = 0,
    num_folds: int = NUM_FOLDS,
    strengths: Sequence[float] = STRENGTHS,
) -> Linear:
    """The strength with the most examples right outside of their fold, of equals the one that gives the true class
    the higher probability."""
    space = _Space.of(features)
    folds_N = stratified_folds(targets_N.tolist(), num_folds, seed)
    by_strength = {strength: np.zeros((len(targets_N), num_classes)) for strength in strengths}
    weights_K = balanced_weights(targets_N, num_classes) if balanced else np.ones(num_classes)
    for fold in np.unique(folds_N).tolist():
        inside_N = folds_N != fold
        if not inside_N.any():
            inside_N[:] = True  # a single example
        fitting = _Logistic(space.rows(inside_N), targets_N[inside_N], num_classes, balanced, 1e-3)
        for strength in strengths:
            weights, bias = fitting.fit(strength)
            by_strength[strength][folds_N == fold] = softmax(space.rows(folds_N == fold) @ weights.T + bias)
    best = max(strengths, key=lambda strength: _goodness(by_strength[strength], targets_N, weights_K))
    weights, bias = _Logistic(space.rows(), targets_N, num_classes, balanced, 1e-5).fit(best)
    return Linear(space.back(weights), bias, best, by_strength[best])


def _goodness(found_NK: Floats, targets_N: Ints, weights_K: Floats) -> float:
    """The weighted share that is right, and a little of the log-likelihood."""
    weights_N = weights_K[targets_N]
    right = np.average(found_NK.argmax(1) == targets_N, weights=weights_N)
    chances = np.maximum(found_NK[np.arange(len(targets_N)), targets_N], 1e-6)
    return float(right + 0.1 * np.average(np.log(chances), weights=weights_N))


class _Logistic:
    """Fits at rising strengths, each from where the last one ended."""

    def __init__(self, rows_ND: Floats, targets_N: Ints, num_classes: int, balanced: bool, tolerance: float) -> None:
        from sklearn.linear_model import LogisticRegression

        self.rows, self.targets, self.num_classes = rows_ND, targets_N, num_classes
        weight = "balanced" if balanced else None
        self.model = LogisticRegression(class_weight=weight, warm_start=True, max_iter=1000, tol=tolerance)
        self.seen = np.unique(targets_N)

    def fit(self, strength: float) -> tuple[Floats, Floats]:
        """Weights [K, D] and bias [K]; a class that does not occur gets no chance."""
        weights = np.zeros((self.num_classes, self.rows.shape[1]))
        bias = np.full(self.num_classes, -30.0)
        if len(self.seen) == 1:
            bias[self.seen] = 0.0
            return weights, bias
        self.model.set_params(C=strength).fit(self.rows, self.targets)
        own, start = self.model.coef_, self.model.intercept_
        if len(self.seen) == 2:  # one row says both
            own, start = np.concatenate((-own / 2, own / 2)), np.concatenate((-start / 2, start / 2))
        weights[self.seen], bias[self.seen] = own, start
        return weights, bias


def softmax(scores_NK: Floats) -> Floats:
    powers = np.exp(scores_NK - scores_NK.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


# -- scores


def fit_ridge(
    features: "Floats | csr_matrix",
    targets_N: Floats,
    seed: int = 0,
    num_folds: int = NUM_FOLDS,
    strengths: Sequence[float] = STRENGTHS,
) -> Linear:
    """The strength with the smallest squared error outside of the folds."""
    space = _Space.of(features)
    folds_N = stratified_folds([0] * len(targets_N), num_folds, seed)
    by_strength = {strength: np.full((len(targets_N), 1), targets_N.mean()) for strength in strengths}
    for fold in np.unique(folds_N).tolist():
        inside_N = folds_N != fold
        if not inside_N.any():
            continue
        for strength in strengths:
            weights, bias = _ridge(space.rows(inside_N), targets_N[inside_N], strength)
            by_strength[strength][folds_N == fold] = space.rows(folds_N == fold) @ weights.T + bias
    best = min(strengths, key=lambda strength: float(((by_strength[strength][:, 0] - targets_N) ** 2).mean()))
    weights, bias = _ridge(space.rows(), targets_N, best)
    return Linear(space.back(weights), bias, best, by_strength[best])


def _ridge(rows_ND: Floats, targets_N: Floats, strength: float) -> tuple[Floats, Floats]:
    """min |y - Xw - b|² + |w|² / strength, the bias free."""
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1 / strength).fit(rows_ND, targets_N)
    return np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)


# -- the space in which they are fitted


class _Space:
    """The features as a dense matrix of rows of mean length 1, and the way back."""

    def __init__(self, rows: Floats, to_features: "Floats | csr_matrix | None", scale: float) -> None:
        self._rows, self.to_features, self.scale = rows, to_features, scale

    @classmethod
    def of(cls, features: "Floats | csr_matrix") -> "_Space":
        if isinstance(features, np.ndarray):
            scale = _scale(float((features**2).sum(1).mean()))
            return cls(features * scale, None, scale)
        scale = _scale(float(features.multiply(features).sum(1).mean()))
        scaled = features * scale
        if features.shape[0] > _MANY or features.shape[1] <= features.shape[0]:
            return cls(scaled, None, scale)
        powers, vectors = np.linalg.eigh((scaled @ scaled.T).toarray())
        kept = powers > 1e-10 * max(float(powers[-1]), 1e-10)
        roots = np.sqrt(powers[kept])
        back = scaled.T @ (vectors[:, kept] / roots)  # [D, rank]
        return cls(vectors[:, kept] * roots, back, scale)

    def rows(self, which_N: NDArray[np.bool_] | None = None) -> Floats:
        return self._rows if which_N is None else self._rows[which_N]

    def back(self, weights_KR: Floats) -> Floats:
        """Weights for the features as they were given."""
        found = weights_KR if self.to_features is None else (self.to_features @ weights_KR.T).T
        return np.asarray(found * self.scale)


def _scale(mean_square: float) -> float:
    return mean_square**-0.5 if mean_square > 0 else 1.0
