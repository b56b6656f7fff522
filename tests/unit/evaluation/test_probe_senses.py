"""The nearest sense, its fallbacks and its scores, worked by hand."""

import numpy as np
import pytest

from firth.core.errors import FirthError
from firth.evaluation.senses import (
    NearestSense,
    SensedWord,
    f1,
    leave_one_out,
    of_words,
    sample_senses,
    sample_texts,
    score_senses,
)


def word(item: str, senses: str, *vectors: tuple[float, float]) -> SensedWord:
    return SensedWord(item, tuple(senses.split()), np.asarray(vectors, np.float32))


TRAIN = [
    word("bank", "river", (1, 0), (0, 1)),
    word("bank", "money", (0, 1), (1, 0)),
    word("bank", "money", (0, 3), (1, 0)),
    word("cell", "prison", (1, 1), (1, 1)),
]


def test_the_mean_of_a_sense_that_is_nearest_by_cosine() -> None:
    """Layer 0: (9, 1) is nearer to (1, 0). Layer 1, where the senses lie the other way round, says money."""
    model = NearestSense(TRAIN)
    assert model.predict(word("bank", "?", (9, 1), (9, 1))) == ["river", "money"]
    assert model.predict(word("bank", "?", (1, 9), (0.1, 0.9))) == ["money", "river"]
    assert model.predict(word("cell", "?", (-1, -1), (1, 0))) == ["prison", "prison"]  # the only one


def test_it_is_the_mean_and_not_one_neighbour() -> None:
    """Means are (1, 0) and (0.5, 0.5), by cosine 0.96 and 0.86 from (4, 1.2): a; yet the nearest single one is b's."""
    train = [word("x", "a", (1, 0)), word("x", "b", (1, 0.3)), word("x", "b", (0, 0.7))]
    assert NearestSense(train).predict(word("x", "?", (4, 1.2))) == ["a"]


def test_fallbacks() -> None:
    """Unknown items get their first sense if there is a list; a word without a vector the most frequent sense."""
    nothing = word("lamp", "?", (1, 0), (1, 0))
    assert NearestSense(TRAIN).predict(nothing) == [None, None]
    assert NearestSense(TRAIN, {"lamp": "lamp1"}).predict(nothing) == ["lamp1", "lamp1"]
    assert NearestSense(TRAIN).predict(word("bank", "?", (0, 0), (0, 0))) == ["money", "money"]
    assert NearestSense(TRAIN).first["bank"] == "money"
    assert NearestSense(TRAIN, {"bank": "river"}).first["bank"] == "river"


def test_scores_by_hand() -> None:
    """Four words: bank right in both layers, bank right in layer 0 only, cell right, lamp unanswered without a list.
    F1 of layer 0: 2·3 / (3 + 4); of layer 1: 2·2 / (3 + 4). First senses: money is wrong twice, prison right."""
    test = [
        word("bank", "river", (1, 0), (0, 1)),
        word("bank", "river shore", (1, 0.1), (1, 0)),
        word("cell", "prison", (1, 0), (1, 0)),
        word("lamp", "lamp1", (1, 0), (1, 0)),
    ]
    found = score_senses(TRAIN, test)
    assert found.f1 == pytest.approx([6 / 7, 4 / 7])
    assert found.first_f1 == pytest.approx(2 / 7)
    assert found.choice == [1.0, 0.5]  # the two banks
    assert found.first_choice == 0.0
    assert (found.num_choice, found.num_unseen, found.num_unanswered) == (2, 1, 1)
    listed = score_senses(TRAIN, test, {"lamp": "lamp1"})
    assert listed.f1 == pytest.approx([1.0, 0.75])  # all answered: F1 is accuracy
    assert listed.num_unanswered == 0


def test_f1_without_anything() -> None:
    assert f1(0, 0, 0) == 0.0
    assert f1(1, 1, 1) == 1.0


def test_leave_one_out() -> None:
    """Two tight groups: each word is nearest to its own. The first sense is right for half."""
    words = [word("x", "a", (1, 0.1)), word("x", "a", (1, 0)), word("x", "b", (0, 1)), word("x", "b", (0.1, 1))]
    found = leave_one_out(words)
    assert found.f1 == [1.0]
    assert found.first_f1 == 0.5


def test_vectors_of_words_are_means_of_their_pieces() -> None:
    hidden = np.asarray([[[9.0], [1.0], [3.0], [5.0], [9.0]]], np.float32)
    found, known = of_words(hidden, np.asarray([-1, 0, 0, 2, -1]), 4)
    assert found[0, :, 0].tolist() == [2.0, 0.0, 5.0, 0.0]
    assert known.tolist() == [True, False, True, False]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_sample_marks_its_words(language: str) -> None:
    found = sample_senses(language)
    assert len(found) == len(sample_texts(language))
    for example in found:
        mark = example.marks[0]
        assert example.words[mark.start : mark.end] == [mark.item]
        assert len(example.words) > 3
    by_item: dict[str, set[str]] = {}
    for example in found:
        by_item.setdefault(example.marks[0].item, set()).update(example.marks[0].senses)
    assert all(len(senses) == 2 for senses in by_item.values())


def test_no_such_sample() -> None:
    with pytest.raises(FirthError, match="no sample in the language 'xx': choose en or zh"):
        sample_senses("xx")
