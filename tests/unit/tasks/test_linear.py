"""Linear models with their strength chosen by cross-validation, beside scikit-learn's."""

import warnings

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
    rare_shift,
    refit_logistic,
    refit_ridge,
    softmax,
    stratified_folds,
)
from firth.tasks.scores import fit_factor


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


def test_copies_share_a_fold() -> None:
    """Else a model is judged by texts that it has learned; folds that lose all of theirs are closed up."""
    kinds = [number % 3 for number in range(30)]
    copies = [number if number < 20 else number - 20 for number in range(30)]
    found = stratified_folds(kinds, 5, 0, copies)
    assert found[20:].tolist() == found[:10].tolist()
    assert found[:20].tolist() == stratified_folds(kinds, 5, 0)[:20].tolist()
    few = stratified_folds([0, 1, 0, 1, 0], 5, 0, [0, 1, 0, 1, 0])
    assert sorted(set(few.tolist())) == [0, 1]
    alike = stratified_folds([0, 1, 0, 1], 2, 0, [0, 0, 0, 0])
    assert len(set(alike.tolist())) == 2  # one text only: there is no other way


def test_ridge_is_scikit_learns() -> None:
    features, _ = made()
    targets = features @ np.arange(12) + np.random.default_rng(3).normal(size=90)
    found = fit_ridge(features, targets, stratified_folds([0] * 90, 5, 0))
    rows = StandardScaler().fit_transform(features) / np.sqrt(12)
    peer = Ridge(alpha=1 / found.strength).fit(rows, targets)
    np.testing.assert_allclose((features @ found.weights.T + found.bias)[:, 0], peer.predict(rows), rtol=1e-6)
    np.testing.assert_allclose(refit_ridge(features, targets, found.strength)[0], found.weights)
    assert np.corrcoef(found.outside[:, 0], targets)[0, 1] > 0.95


def test_without_features_the_targets_alone_count() -> None:
    targets = np.array([0, 0, 0, 1])
    weights, bias = refit_ridge(csr_matrix((4, 0)), targets.astype(float), 1.0)
    assert weights.shape == (1, 0)
    assert bias == pytest.approx([0.25])
    weights, bias = refit_logistic(csr_matrix((4, 0)), targets, 3, 1.0, False)
    assert weights.shape == (3, 0)
    np.testing.assert_allclose(softmax(bias[None])[0], [0.75, 0.25, 0.0], atol=1e-6)
    bias = refit_logistic(csr_matrix((4, 0)), targets, 2, 1.0, True)[1]
    np.testing.assert_allclose(softmax(bias[None])[0], [0.5, 0.5])


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


def test_rare_classes_are_raised_where_macro_f1_gains() -> None:
    """By hand: 60 of the first class and 20 of the second, half of which are 1 too low. Where the shift raises these by more than
    1 and all others by less than the 3 that they lack, macro F1 is best."""
    targets = np.asarray([0] * 60 + [1] * 20)
    scores = np.where(targets == 0, -3.0, np.where(np.arange(80) % 2, -1.0, -3.0))
    logs = np.log(softmax(np.stack((np.zeros(80), scores), 1)))
    shift = rare_shift(logs, targets)
    assert shift[1] / shift[0] == pytest.approx(np.log(20 / 80) / np.log(60 / 80))  # by the logarithm of the shares
    assert 1 < shift[1] - shift[0] < 3
    steps = (shift[1] - shift[0]) / np.log(3) * fit_factor(logs, targets)[0] / 0.125
    assert steps == pytest.approx(round(steps))
    guessed = (logs + shift).argmax(1)
    assert guessed[targets == 0].sum() == 0
    assert guessed[targets == 1].sum() == 10
    assert not rare_shift(np.log(softmax(np.eye(2)[targets] * 9)), targets).any()  # nothing to gain
    assert not rare_shift(logs[50:70], targets[50:70]).any()  # too few to say


def test_a_shift_is_in_the_bias_and_in_what_is_said_outside() -> None:
    draws = np.random.default_rng(0)
    targets = np.asarray([0] * 90 + [1] * 15)
    features = csr_matrix(np.abs(draws.normal(size=(105, 400))) + 0.4 * np.eye(400)[targets] * 9)
    folds = stratified_folds(targets.tolist(), 5, 0)
    plain, found = (fit_logistic(features, targets, 2, folds, True, shifted=one) for one in (False, True))
    assert plain.shift is None
    assert found.shift is not None
    assert np.allclose(found.bias, plain.bias + found.shift)
    assert np.allclose(found.outside, softmax(np.log(np.maximum(plain.outside, 1e-12)) + found.shift))
    assert fit_logistic(features, targets, 2, folds, False, shifted=True).shift is None


def test_many_classes_are_learned_without_a_warning() -> None:
    """More than half as many classes as examples: scikit-learn takes that for a mistake."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = np.random.default_rng(0).normal(size=(30, 4))
        found = fit_logistic(features, np.arange(30) % 20, 20, np.arange(30) % 2, strengths=(1.0,))
    assert found.weights.shape == (20, 4)
