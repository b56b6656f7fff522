"""Distance, entropy and shares of attention against plain loops and by hand."""

import math

import numpy as np
import pytest

from firth.evaluation.probe_report import entropy, measure_heads


def test_by_hand() -> None:
    """One head, three tokens, the last special. Row 0 looks at itself, row 1 half back and half ahead, row 2 at row 0."""
    weights = np.asarray([[[[1.0, 0, 0], [0.5, 0, 0.5], [1.0, 0, 0]]]], np.float32)
    found = measure_heads([(weights, np.asarray([False, False, True]))])
    assert found is not None
    assert found.distance[0, 0] == pytest.approx((0 + 1 + 2) / 3)
    assert found.entropy[0, 0] == pytest.approx(math.log(2) / 3)
    assert found.itself[0, 0] == pytest.approx(1 / 3)
    assert found.before[0, 0] == pytest.approx(0.5 / 3)
    assert found.after[0, 0] == pytest.approx(0.5 / 3)
    assert found.special[0, 0] == pytest.approx(0.5 / 3)
    assert found.num_tokens == 3


def test_even_attention_is_its_own_baseline() -> None:
    size = 5
    both = np.full((1, 2, size, size), 1 / size, np.float32)
    found = measure_heads([(both, np.zeros(size, np.bool_))])
    assert found is not None
    np.testing.assert_allclose(found.distance, found.even_distance, rtol=1e-6)
    np.testing.assert_allclose(found.entropy, math.log(size), rtol=1e-6)
    assert found.even_entropy == pytest.approx(math.log(size))
    leftward = np.tril(np.ones((size, size))) / np.arange(1, size + 1)[:, None]
    found = measure_heads([(leftward[None, None].astype(np.float32), np.zeros(size, np.bool_))])
    assert found is not None
    assert found.even_entropy == pytest.approx(np.mean(np.log(np.arange(1, size + 1))))
    assert found.even_distance == pytest.approx(found.distance[0, 0])  # only what it may see


def test_loops() -> None:
    """Texts of different lengths, weighted by their tokens."""
    random = np.random.default_rng(0)
    texts = []
    for size in (4, 7):
        weights = random.random((2, 3, size, size)).astype(np.float32)
        texts.append((weights / weights.sum(-1, keepdims=True), random.random(size) < 0.3))
    found = measure_heads(texts)
    assert found is not None
    for layer in range(2):
        for head in range(3):
            sums = dict.fromkeys(("distance", "entropy", "itself", "before", "after", "special"), 0.0)
            for weights, special in texts:
                size = len(special)
                for i in range(size):
                    for j in range(size):
                        weight = float(weights[layer, head, i, j])
                        sums["distance"] += weight * abs(i - j)
                        sums["entropy"] -= weight * math.log(weight)
                        sums["itself"] += weight * (i == j)
                        sums["before"] += weight * (j == i - 1)
                        sums["after"] += weight * (j == i + 1)
                        sums["special"] += weight * bool(special[j])
            for name, total in sums.items():
                assert getattr(found, name)[layer, head] == pytest.approx(total / 11, rel=1e-5), name


def test_entropy_of_nothing_and_of_no_text() -> None:
    assert entropy(np.asarray([[0.0, 1.0], [0.5, 0.5]])).tolist() == pytest.approx([0.0, math.log(2)])
    assert measure_heads([]) is None
