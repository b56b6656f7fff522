"""Borders between the characters that a reader sees."""

import itertools

import pytest

from firth.tokenizers.words import is_border, widen_to_characters


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("abc", ["a", "b", "c"]),
        ("北京", ["北", "京"]),
        ("e\u0301a", ["e\u0301", "a"]),
        ("👩\u200d🚀!", ["👩\u200d🚀", "!"]),
        ("👍🏽x", ["👍🏽", "x"]),
        ("❤\ufe0fx", ["❤\ufe0f", "x"]),
        ("🇨🇳🇩🇪x", ["🇨🇳", "🇩🇪", "x"]),
        ("नि न", ["नि", " ", "न"]),
        ("a \u0301", ["a", " ", "\u0301"]),
    ],
)
def test_borders(text: str, seen: list[str]) -> None:
    places = [place for place in range(len(text) + 1) if is_border(text, place)]
    assert [text[start:end] for start, end in itertools.pairwise(places)] == seen
    for place, char in enumerate(seen):
        start = sum(map(len, seen[:place]))
        for inner in range(start, start + len(char)):
            assert widen_to_characters(text, inner, inner + 1) == (start, start + len(char))


def test_nothing_stays_nothing() -> None:
    assert widen_to_characters("e\u0301", 1, 1) == (1, 1)
