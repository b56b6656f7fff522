"""The search for answers against brute force; answers in Chinese, emoji and combining marks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.tasks.answer_spans import answer_tokens, best_spans, find_answers


def brute_force(start: np.ndarray, end: np.ndarray, allowed: np.ndarray, max_len: int) -> list[tuple[float, int, int]]:
    found = [
        (float(start[first] + end[last]), first, last)
        for first in range(len(start))
        for last in range(first, min(len(start), first + max_len))
        if allowed[first] and allowed[last]
    ]
    return sorted(found, key=lambda item: (-item[0], item[1], item[2]))


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    num_tokens=st.integers(1, 14),
    max_len=st.integers(1, 16),
    num_best=st.integers(1, 30),
    coarse=st.booleans(),
)
def test_against_brute_force(seed: int, num_tokens: int, max_len: int, num_best: int, coarse: bool) -> None:
    random = np.random.default_rng(seed)
    start, end = random.normal(size=(2, 3, num_tokens))
    if coarse:  # many equal scores
        start, end = np.round(start), np.round(end)
    allowed = random.random((3, num_tokens)) < 0.7
    found = best_spans(start, end, allowed, max_len, num_best)
    for row in range(3):
        wanted = brute_force(start[row], end[row], allowed[row], max_len)[:num_best]
        real = found.scores[row] > -np.inf
        mine = list(zip(found.scores[row][real], found.first[row][real], found.last[row][real], strict=True))
        assert mine == wanted


def windows(passage: str, borders: list[list[tuple[int, int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Each window is [CLS] and tokens at these places; offsets and which tokens are of the passage."""
    width = 1 + max(map(len, borders))
    offsets = np.zeros((len(borders), width, 2), np.int64)
    allowed = np.zeros((len(borders), width), bool)
    for row, places in enumerate(borders):
        offsets[row, 1 : 1 + len(places)] = places
        allowed[row, 1 : 1 + len(places)] = True
    return offsets, allowed


def test_over_windows() -> None:
    passage = "红 绿 蓝 白"
    places = [(0, 1), (2, 3), (4, 5), (6, 7)]
    offsets, allowed = windows(passage, [places[:3], places[1:]])
    start, end = np.zeros((2, 4)), np.zeros((2, 4))
    start[0] = [1.0, 0, 3, 0]  # the first window thinks 绿..蓝
    end[0] = [1.0, 0, 0, 4]
    start[1] = [5.0, 5, 0, 0]  # the second 绿..蓝 too, and more so
    end[1] = [5.0, 0, 4, 0]
    found = find_answers(passage, start, end, allowed, offsets, max_len=3, num_best=5)
    assert (found.answers[0].text, found.answers[0].start, found.answers[0].end) == ("绿 蓝", 2, 5)
    assert found.answers[0].score == 9
    assert len({(answer.start, answer.end) for answer in found.answers}) == len(found.answers) == 5
    assert found.null_score == (1 + 1) - 9  # the smaller of the two windows' [CLS]
    assert sum(answer.prob for answer in found.answers) == pytest.approx(1)
    assert found.best().text == found.best(-7.0).text == "绿 蓝"
    assert found.best(-7.5).text == ""


def test_nothing_to_choose_from() -> None:
    found = find_answers("", np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2), bool), np.zeros((1, 2, 2), np.int64))
    assert found.best().text == ""
    assert found.best(3.0).text == ""


@pytest.mark.parametrize(
    ("passage", "place", "wanted"),
    [
        ("我住在北京市。", (3, 5), "北京"),
        ("un cafe\u0301 noir", (3, 7), "cafe\u0301"),  # a tokenizer that strips accents ends before the mark
        ("ok 👩\u200d🚀 go", (3, 4), "👩\u200d🚀"),
        ("👍🏽 yes", (0, 1), "👍🏽"),
        ("x 🇨🇳🇩🇪", (4, 5), "🇩🇪"),
        ("𠮷野家", (0, 1), "𠮷"),
        ("नि", (0, 1), "नि"),
    ],
)
def test_offsets_are_of_the_original(passage: str, place: tuple[int, int], wanted: str) -> None:
    offsets, allowed = windows(passage, [[place]])
    found = find_answers(passage, np.zeros((1, 2)), np.zeros((1, 2)), allowed, offsets).best()
    assert found.text == wanted
    assert passage[found.start : found.end] == wanted


def test_tokens_of_an_answer() -> None:
    offsets = [(0, 0), (0, 2), (2, 4), (5, 9), (9, 10)]
    assert answer_tokens(offsets, 2, 9) == (2, 3)
    assert answer_tokens(offsets, 3, 6) == (2, 3)  # parts of tokens
    assert answer_tokens(offsets, 0, 1) == (1, 1)  # never the empty one
    assert answer_tokens(offsets, 4, 5) is None  # a space
    assert answer_tokens([], 0, 3) is None
