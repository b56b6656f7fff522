"""ROUGE by hand and against a plain table."""

import random

import pytest

from firth.tasks.write.data import common_len, rouge_f1, rouge_l, rouge_n, rouge_words


def test_by_hand() -> None:
    """Lin 2004, 3.1: "police kill the gunman" has the longest common part 2 of 4 with "police killed the gunman"
    ... and "the gunman kill police" 2 as well in another order, so recall 3/4 and 2/4."""
    reference = "police killed the gunman".split()
    first, second = "police kill the gunman".split(), "the gunman kill police".split()
    assert common_len(first, reference) == 3
    assert common_len(second, reference) == 2
    assert rouge_l(first, reference) == (0.75, 0.75, 0.75)
    assert rouge_l(second, reference).recall == 0.5
    assert rouge_n(first, reference, 2).recall == pytest.approx(1 / 3)  # only "the gunman"
    assert rouge_n(second, reference, 2).recall == pytest.approx(1 / 3)


def test_words_that_come_again_count_once_each() -> None:
    assert rouge_n("the the the cat".split(), "the cat sat".split(), 1) == (
        0.5,
        pytest.approx(2 / 3),
        pytest.approx(4 / 7),
    )


def test_chinese_by_characters() -> None:
    assert rouge_words("BERT-2模型，研究_x") == ["bert", "2", "模", "型", "研", "究", "x"]
    found = rouge_f1("模型 研究", "模型的研究")
    assert found["rouge_1"] == found["rouge_l"] == pytest.approx(100 * 8 / 9)
    assert found["rouge_2"] == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


def test_nothing_in_common_or_nothing_at_all() -> None:
    assert set(rouge_f1("a b", "c d").values()) == {0.0}
    assert set(rouge_f1("", "c d").values()) == {0.0}
    assert rouge_f1("Same words!", "same, words") == {"rouge_1": 100, "rouge_2": 100, "rouge_l": 100}


def table_len(first: list[str], second: list[str]) -> int:
    rows = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, word in enumerate(first):
        for j, other in enumerate(second):
            rows[i + 1][j + 1] = rows[i][j] + 1 if word == other else max(rows[i][j + 1], rows[i + 1][j])
    return rows[-1][-1]


def test_the_longest_common_part_is_that_of_the_table() -> None:
    pick = random.Random(1)
    for _ in range(200):
        first, second = ([pick.choice("abcd") for _ in range(pick.randint(0, 90))] for _ in range(2))
        assert common_len(first, second) == table_len(first, second)
