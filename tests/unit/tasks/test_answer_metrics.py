"""Exact match and F1 of answers, by hand and against a plain search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from firth.tasks.answer_spans import (
    answer_scores,
    best_threshold,
    cmrc_score,
    common_stretch,
    mixed_segments,
    normalized,
    squad_score,
)


def with_threshold(scores: ArrayLike, nulls: ArrayLike, answerable: ArrayLike, value: float) -> NDArray[np.float64]:
    """The scores of each question if those with a null score above the threshold are left unanswered."""
    withheld = np.asarray(nulls, np.float64) > value
    return np.where(withheld, ~np.asarray(answerable, np.bool_), np.asarray(scores, np.float64)).astype(np.float64)


def test_normal_form() -> None:
    assert normalized("The  U.S. Army's\tan-Answer, a") == "us armys ananswer"
    assert normalized("theatre another") == "theatre another"
    assert normalized("“Quoted”") == "“quoted”"  # only ASCII punctuation, as published
    assert normalized("The") == ""


def test_squad_by_hand() -> None:
    assert squad_score("Denver Broncos", ["the Denver Broncos!", "Denver"]) == (1, 1)
    # two of three words of the guess, two of two of the answer: 2 * 2/3 * 1 / (2/3 + 1)
    assert squad_score("old Denver Broncos", ["Denver Broncos"]) == (0, pytest.approx(0.8))
    assert squad_score("b b c", ["b c c"]) == (0, pytest.approx(2 / 3))  # words count as often as both have them
    assert squad_score("Paris", ["London", "in Paris, France"]) == (0, pytest.approx(0.5))


def test_no_answer() -> None:
    assert squad_score("", []) == (1, 1)
    assert squad_score("something", []) == (0, 0)
    assert squad_score("", ["something"]) == (0, 0)
    assert squad_score("the", [""]) == (1, 1)
    # Version 2 drops answers without content, version 1 compares them.
    assert squad_score("the", ["a", "cat"], version=2) == (0, 0)
    assert squad_score("the", ["a"], version=1) == (1, 0)
    assert squad_score("x", [], version=1) == (0, 0)


def test_sets() -> None:
    scores = answer_scores(["a cat", "dog", ""], [["cat"], ["the dog house"], []])
    np.testing.assert_allclose(scores, [[1, 1], [0, 2 / 3], [1, 1]])
    assert answer_scores([], []).shape == (0, 2)


class TestThreshold:
    @settings(deadline=None)
    @given(
        st.lists(
            st.tuples(st.floats(0, 1), st.integers(-20, 20), st.booleans(), st.booleans()),
            min_size=1,
            max_size=12,
        )
    )
    def test_against_every_threshold(self, rows: list[tuple[float, int, bool, bool]]) -> None:
        nulls = np.asarray([row[1] for row in rows], np.float64)
        answerable = np.asarray([row[2] for row in rows])
        answered = np.asarray([row[3] for row in rows])
        # An empty guess scores 0 on a question that has an answer and 1 on one that has none; others the reverse.
        scores = np.asarray([row[0] if row[3] else 0.0 for row in rows])
        scores = np.where(answerable, scores, ~answered)
        found = best_threshold(scores, nulls, answered, answerable)
        tried = [with_threshold(scores, nulls, answerable, value).mean() for value in (*np.unique(nulls), -1e9)]
        assert found.score == pytest.approx(max(tried))
        assert with_threshold(scores, nulls, answerable, found.value).mean() == pytest.approx(found.score)

    def test_by_hand(self) -> None:
        # Sorted by null score: right (+1), half right (+.5), a guess where there is none (-1), right (+.4).
        found = best_threshold([1, 0.5, 0, 0.4], [0.1, 0.2, 0.3, 0.9], [True] * 4, [True, True, False, True])
        assert found == (pytest.approx(2.5 / 4), 0.2)

    def test_nothing_answered_is_best(self) -> None:
        assert best_threshold([0, 0], [0.5, 0.6], [True, True], [False, False]) == (1, 0)
        assert best_threshold([], [], [], []) == (0, 0)


class TestCMRC:
    def test_segments(self) -> None:
        assert mixed_segments("《战国无双3》由ω-force开发") == ["战", "国", "无", "双", "3", "由", "ωforce", "开", "发"]
        assert mixed_segments("光荣和ω-force。", keep_marks=True) == ["光", "荣", "和", "ω", "-", "force", "。"]
        assert mixed_segments("约1,000.5美元 (US dollars), don't") == [
            *["约", "1,000.5", "美", "元", "(", "us", "dollars", ")", ",", "do", "n't"]
        ]
        assert mixed_segments("") == []

    def test_stretch(self) -> None:
        assert common_stretch("abcde", "xbcdy") == 3
        assert common_stretch("abc", "acb") == 1  # unbroken: not the subsequence "ab"
        assert common_stretch("", "a") == 0

    @settings(deadline=None)
    @given(st.text("ab", max_size=8), st.text("ab", max_size=8))
    def test_stretch_against_every_stretch(self, first: str, second: str) -> None:
        parts = {first[start:end] for start in range(len(first)) for end in range(start + 1, len(first) + 1)}
        assert common_stretch(first, second) == max((len(part) for part in parts if part in second), default=0)

    def test_score_by_hand(self) -> None:
        assert cmrc_score("光荣和ω-force", ["光荣和ω-force。", "光荣"]) == (1, 1)
        # 光荣 is 2 of the answer's 4 units and 2 of the guess's 3.
        assert cmrc_score("光荣的", ["光荣和ω-force"]) == (0, pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)))
        assert cmrc_score("无", ["有"]) == (0, 0)
        assert cmrc_score("", []) == (1, 1)
        assert cmrc_score("", ["有"]) == (0, 0)
