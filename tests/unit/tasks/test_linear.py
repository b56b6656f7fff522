"""Linear models with their strength chosen by cross-validation, beside scikit-learn's."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from firth.tasks.linear import (
    balanced_weights,
    fit_logistic,
    fit_ridge,
    judged_weights,
    refit_logistic,
    refit_ridge,
    softmax,
    stratified_folds,
)


def made(num: int = 90, dim: int = 12, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    targets = np.arange(num) % classes
    return random.normal(size=(num, dim)) * 3 + 2 + np.eye(dim)[targets] * 4, targets


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("balanced", [False, True])
def test_logistic_is_scikit_learns_on_standardised_features(classes: int, balanced: bool) -> None:
    features, targets = made(classes=classes)
    features, targets = features[:70], targets[:70]
    found = fit_logistic(features, targets, classes, stratified_folds(targets.tolist(), 5, 0), balanced)
    rows = StandardScaler().fit_transform(features) / np.sqrt(features.shape[1])
    weight = "balanced" if balanced else None
    peer = LogisticRegression(C=found.strength, class_weight=weight, tol=1e-10, max_iter=5000).fit(rows, targets)
    np.testing.assert_allclose(softmax(features @ found.weights.T + found.bias), peer.predict_proba(rows), atol=1e-4)
    again = refit_logistic(features, targets, classes, found.strength, balanced)
    np.testing.assert_allclose(again[0], found.weights, atol=5e-2)


def test_wide_features_lose_nothing() -> None:
    """As many columns as examples are enough: the same probabilities as on all of them."""
    random = np.random.default_rng(1)
    targets = np.arange(40) % 2
    dense = np.where(random.random((40, 300)) < 0.1, random.random((40, 300)), 0.0)
    dense[:, 0] = targets
    found = fit_logistic(csr_matrix(dense), targets, 2, stratified_folds(targets.tolist(), 5, 0))
    scale = (dense**2).sum(1).mean() ** -0.5
    peer = LogisticRegression(C=found.strength, tol=1e-10, max_iter=5000).fit(dense * scale, targets)
    new = np.where(random.random((20, 300)) < 0.1, random.random((20, 300)), 0.0)
    np.testing.assert_allclose(softmax(new @ found.weights.T + found.bias), peer.predict_proba(new * scale), atol=1e-4)


def test_outside_is_said_by_models_that_had_not_seen_it() -> None:
    """Random labels cannot be guessed outside of the folds, whatever the strength."""
    random = np.random.default_rng(2)
    features, targets = random.normal(size=(200, 100)), random.integers(2, size=200)
    found = fit_logistic(features, targets, 2, stratified_folds(targets.tolist(), 5, 0))
    assert abs((found.outside.argmax(1) == targets).mean() - 0.5) < 0.12
    np.testing.assert_allclose(found.outside.sum(1), 1)


def test_a_class_with_one_example() -> None:
    features, targets = made(31, 12, 3)
    targets = np.where(np.arange(31) == 4, 2, targets % 2)
    found = fit_logistic(features, targets, 3, stratified_folds(targets.tolist(), 5, 0))
    assert np.isfinite(found.weights).all()
    assert found.outside[4, 2] < 1e-6
    single = fit_logistic(features[:1], targets[:1], 2, np.zeros(1, np.int64))
    assert single.outside[0].argmax() == targets[0]


def test_ridge_is_scikit_learns() -> None:
    features, _ = made()
    targets = features @ np.arange(12) + np.random.default_rng(3).normal(size=90)
    found = fit_ridge(features, targets, stratified_folds([0] * 90, 5, 0))
    rows = StandardScaler().fit_transform(features) / np.sqrt(12)
    peer = Ridge(alpha=1 / found.strength).fit(rows, targets)
    np.testing.assert_allclose((features @ found.weights.T + found.bias)[:, 0], peer.predict(rows), rtol=1e-6)
    np.testing.assert_allclose(refit_ridge(features, targets, found.strength)[0], found.weights)
    assert np.corrcoef(found.outside[:, 0], targets)[0, 1] > 0.95


def test_folds_are_stratified() -> None:
    kinds = ["a"] * 50 + ["b"] * 10 + ["c"] * 3
    folds = stratified_folds(kinds, 5, 0)
    assert np.bincount(folds).max() - np.bincount(folds).min() <= 1
    for kind, (least, most) in {"a": (10, 10), "b": (2, 2), "c": (0, 1)}.items():
        counts = np.bincount(folds[[one == kind for one in kinds]], minlength=5)
        assert least <= counts.min() <= counts.max() <= most
    assert (folds != stratified_folds(kinds, 5, 1)).any()


def test_balanced_weights() -> None:
    np.testing.assert_allclose(balanced_weights(np.asarray([0, 0, 0, 1]), 3), [4 / 6, 2, 2])


def test_rare_classes_do_not_decide() -> None:
    """Nobody can know the class of its only example from the other folds; its log-probability of -30 would decide alone."""
    np.testing.assert_array_equal(judged_weights(np.asarray([0, 0, 0, 1, 2, 2]), 3, False), [1, 1, 1, 0, 0, 0])
    np.testing.assert_allclose(judged_weights(np.repeat([0, 1], (4, 12)), 2, True)[[0, 4]], [2**0.5, (2 / 3) ** 0.5])
    np.testing.assert_array_equal(judged_weights(np.asarray([0, 1]), 2, False), [1, 1])
    random = np.random.default_rng(0)
    targets_N = np.repeat([0, 1], 20)
    features_ND = random.normal(size=(40, 6)) + 2.0 * targets_N[:, None]
    folds_N = np.arange(40) % 5
    plain = fit_logistic(features_ND, targets_N, 2, folds_N)
    more_ND, more_N = np.concatenate((features_ND, -features_ND[:1])), np.append(targets_N, 2)
    found = fit_logistic(more_ND, more_N, 3, np.append(folds_N, 0))
    assert found.goodness == pytest.approx(plain.goodness, abs=0.05)
