"""The probe against scikit-learn's, the control task and the baselines by hand."""

from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from firth.evaluation.senses import TaggedWords, baselines, control_tags, fit, predict, score_tags


def words_of_kinds(num: int, seed: int, dim: int = 12) -> TaggedWords:
    """Layer 0 knows the word only (a vector a form), layer 1 has the tag in it, plainly. Words a0..a9 may have any tag."""
    random = np.random.default_rng(seed)
    table = np.random.default_rng(7).normal(size=(10, dim))
    forms, tags = random.integers(10, size=num), random.integers(3, size=num)
    vectors = np.zeros((2, num, dim), np.float32)
    vectors[0] = table[forms]
    vectors[1] = random.normal(size=(num, dim)) * 0.3
    vectors[1, np.arange(num), tags] += 3.0
    return TaggedWords([f"a{form}" for form in forms], [f"t{tag}" for tag in tags], vectors)


def test_a_control_tag_is_of_the_word_and_drawn_by_frequency() -> None:
    counts = Counter({"N": 600, "V": 300, "X": 100})
    words = [f"w{number}" for number in range(4000)]
    found = control_tags(words, counts, seed=3)
    assert found == control_tags(words, counts, seed=3)
    assert control_tags(["w5", "w1", "w5"], counts, 3) == [found[5], found[1], found[5]]  # whatever stands around it
    assert found != control_tags(words, counts, seed=4)
    shares = Counter(found)
    assert {tag: shares[tag] / 4000 for tag in "NVX"} == pytest.approx({"N": 0.6, "V": 0.3, "X": 0.1}, abs=0.03)


def test_selectivity_tells_memory_from_knowledge() -> None:
    """The layer of word forms solves the control task whole and the real one not at all; the other the reverse."""
    scores = score_tags(words_of_kinds(1500, 0), words_of_kinds(600, 1))
    assert scores.control[0] == 1.0  # ten forms are memorised
    assert scores.accuracy[0] < 0.45  # a third by chance
    assert scores.accuracy[1] > 0.99
    assert scores.control[1] < 0.7
    assert scores.selectivity == pytest.approx([a - c for a, c in zip(scores.accuracy, scores.control, strict=True)])
    assert scores.selectivity[0] < -0.5 < 0.3 < scores.selectivity[1]
    assert scores.unseen is None
    assert (scores.num_train, scores.num_test, scores.num_tags) == (1500, 600, 3)


def test_the_probe_is_as_good_as_logistic_regression() -> None:
    random = np.random.default_rng(2)
    truth = random.normal(size=(20, 4))
    vectors = random.normal(size=(2000, 20)).astype(np.float32) * 5 + 3
    labels = (vectors @ truth + random.normal(size=(2000, 4)) * 5).argmax(1)
    ours = fit(vectors[None, :1500], labels[:1500, None], 4)
    found = predict(ours, vectors[None, 1500:])[0, :, 0]
    theirs = LogisticRegression(max_iter=2000).fit(vectors[:1500], labels[:1500])
    assert np.mean(found == labels[1500:]) >= theirs.score(vectors[1500:], labels[1500:]) - 0.015


def test_layers_and_tasks_do_not_touch_each_other() -> None:
    """All at once is the same as one after the other."""
    train = words_of_kinds(300, 0)
    labels = np.stack([np.arange(300) % 3, np.arange(300) % 2], 1)
    both = fit(train.vectors, labels, 3)
    alone = fit(train.vectors[1:], labels[:, :1], 3)
    np.testing.assert_allclose(both.weight[1].unflatten(-1, (2, 3))[:, 0], alone.weight[0], atol=1e-5)


def test_baselines_by_hand() -> None:
    """Majority V (of N N V V V): right for 1 of 4. By word: run is V (2 of 3), cat N, new words V: 3 of 4."""
    none = np.zeros((1, 5, 1), np.float32)
    train = TaggedWords(["run", "run", "run", "cat", "go"], ["V", "V", "N", "N", "V"], none)
    test = TaggedWords(["run", "cat", "dog", "cat"], ["V", "N", "N", "N"], none[:, :4])
    assert baselines(train, test) == (0.25, 0.75)


def test_words_and_tags_that_training_did_not_have() -> None:
    train = words_of_kinds(400, 0)
    more = words_of_kinds(4, 1)
    test = TaggedWords(["new", *more.words[1:]], ["never", *more.tags[1:]], more.vectors)
    scores = score_tags(train, test)
    assert scores.num_unseen == 1
    assert scores.unseen == [0.0, 0.0]  # no guess is right for a tag that was never seen
