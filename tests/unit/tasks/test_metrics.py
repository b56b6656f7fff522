"""Scores of classes and numbers against scikit-learn and scipy, and intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as peer

from firth.tasks import scores as metrics
from firth.tasks.scores import confusion_interval, interval, interval_of_rows, mean_interval

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(deadline=None)
@given(LABELS)
def test_classes(pairs: list[tuple[int, int]]) -> None:
    true, guessed = np.asarray(pairs).T
    found = metrics.classify_scores(true, guessed, 5)
    assert found["accuracy"] == pytest.approx(peer.accuracy_score(true, guessed))
    assert found["matthews"] == pytest.approx(peer.matthews_corrcoef(true, guessed), abs=1e-12)
    for name in ("macro", "weighted"):
        wanted = peer.f1_score(true, guessed, average=name, zero_division=0)
        assert found[f"{name}_f1"] == pytest.approx(wanted)
    table = metrics.confusion(true, guessed, 5)
    assert np.array_equal(table, peer.confusion_matrix(true, guessed, labels=range(5)))
    scores = metrics.class_scores(table)
    wanted = peer.precision_recall_fscore_support(true, guessed, labels=range(5), zero_division=0)
    for mine, theirs in zip((scores.precision, scores.recall, scores.f1, scores.support), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs)


def test_two_classes_by_hand() -> None:
    # 3 right of 5; class 1: precision 2/3, recall 2/3.
    found = metrics.classify_scores([0, 0, 1, 1, 1], [0, 1, 1, 1, 0], 2)
    assert found["accuracy"] == pytest.approx(0.6)
    assert found["f1"] == pytest.approx(2 / 3)
    assert found["matthews"] == pytest.approx((2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(-5, 5)), min_size=3, max_size=30))
def test_numbers(pairs: list[tuple[int, float]]) -> None:
    first, second = np.asarray(pairs).T
    np.testing.assert_allclose(metrics.ranks(second), stats.rankdata(second))
    if np.ptp(first) > 0 and np.ptp(second) > 1e-3:
        found = metrics.number_scores(first, second)
        assert found["pearson"] == pytest.approx(stats.pearsonr(first, second)[0], abs=1e-9)
        assert found["spearman"] == pytest.approx(stats.spearmanr(first, second)[0], abs=1e-9)


def test_constant_guesses_score_nothing() -> None:
    assert metrics.number_scores([1, 2, 3], [2, 2, 2])["pearson"] == 0
    assert metrics.classify_scores([0, 1], [1, 1], 2)["matthews"] == 0
    assert metrics.classify_scores([], [], 2)["accuracy"] == 0


class TestBootstrap:
    right = np.asarray([1.0] * 80 + [0.0] * 20)

    def test_mean_is_near_the_normal_interval(self) -> None:
        low, high = mean_interval(self.right, num_draws=4000)
        half = 1.96 * np.sqrt(0.8 * 0.2 / 100)
        assert low == pytest.approx(0.8 - half, abs=0.012)
        assert high == pytest.approx(0.8 + half, abs=0.012)

    def test_seeded(self) -> None:
        assert mean_interval(self.right, seed=1) == mean_interval(self.right, seed=1)
        values = np.random.default_rng(0).random(50)
        assert mean_interval(values, seed=1) != mean_interval(values, seed=2)

    def test_three_ways_agree(self) -> None:
        random = np.random.default_rng(0)
        true = random.integers(0, 3, 300)
        guessed = np.where(random.random(300) < 0.7, true, random.integers(0, 3, 300))
        by_cells = confusion_interval(true, guessed, 3, lambda tables: metrics.class_scores(tables).macro_f1)
        by_rows = interval_of_rows(
            lambda rows: metrics.classify_scores(true[rows], guessed[rows], 3)["macro_f1"], len(true)
        )
        cells = np.eye(9)[true * 3 + guessed]
        by_sums = interval(cells, lambda sums: metrics.class_scores(sums.reshape(-1, 3, 3)).macro_f1)
        np.testing.assert_allclose(by_cells, by_rows, atol=0.015)
        np.testing.assert_allclose(by_cells, by_sums, atol=0.015)

    def test_many_examples_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = mean_interval(self.right, seed=3)
        monkeypatch.setattr("firth.tasks.scores._CELLS", 700)
        np.testing.assert_allclose(mean_interval(self.right, seed=3), whole)

    def test_nothing(self) -> None:
        assert mean_interval([]) == (0, 0)
