"""Tag schemes: spans, check, repair, conversion."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.core.errors import FirthError
from firth.tasks.tag_schemes import (
    Span,
    bad_tags,
    convert,
    detect_scheme,
    repair,
    spans_of,
    strict_spans_of,
    tags_of,
    transitions,
)

SCHEMES = ["bio", "iob1", "bioes", "bmes"]


@st.composite
def span_lists(draw: st.DrawFn) -> tuple[list[Span], int]:
    spans, place = [], 0
    for _ in range(draw(st.integers(0, 5))):
        place += draw(st.integers(0, 2))
        length = draw(st.integers(1, 3))
        spans.append(Span(draw(st.sampled_from(["PER", "LOC", "a-b"])), place, place + length - 1))
        place += length
    return spans, place + draw(st.integers(0, 2))


def test_the_same_entities_in_each_scheme() -> None:
    # New York | Mary Ann Evans | , | London Paris (two neighbours of one type)
    spans = [Span("LOC", 0, 1), Span("PER", 2, 4), Span("LOC", 6, 6), Span("LOC", 7, 7)]
    wanted = {
        "bio": "B-LOC I-LOC B-PER I-PER I-PER O B-LOC B-LOC",
        "iob1": "I-LOC I-LOC I-PER I-PER I-PER O I-LOC B-LOC",
        "bioes": "B-LOC E-LOC B-PER I-PER E-PER O S-LOC S-LOC",
        "bmes": "B-LOC E-LOC B-PER M-PER E-PER O S-LOC S-LOC",
    }
    for scheme, line in wanted.items():
        assert tags_of(spans, 8, scheme) == line.split()
        assert detect_scheme([line.split()]) == scheme
        for other, converted in wanted.items():
            assert convert(line.split(), other) == converted.split()


@settings(deadline=None)
@given(drawn=span_lists(), scheme=st.sampled_from(SCHEMES))
def test_spans_to_tags_and_back(drawn: tuple[list[Span], int], scheme: str) -> None:
    spans, num_words = drawn
    tags = tags_of(spans, num_words, scheme)
    assert bad_tags(tags, scheme) == []
    assert repair(tags, scheme) == tags
    assert spans_of(convert(tags, "bioes")) == spans
    if scheme != "iob1":
        assert strict_spans_of(tags, scheme) == spans
    if scheme != "bmes":
        assert spans_of(tags) == spans


@settings(deadline=None)
@given(
    tags=st.lists(st.sampled_from(["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B", "M-A"]), max_size=8),
    scheme=st.sampled_from(SCHEMES),
)
def test_repair(tags: list[str], scheme: str) -> None:
    repaired = repair(tags, scheme)
    assert bad_tags(repaired, scheme) == []
    assert len(repaired) == len(tags)
    if not bad_tags(tags, scheme):
        assert repaired == tags


def test_bad_tags_are_named() -> None:
    assert bad_tags("O I-PER I-PER".split(), "bio") == [(1, "I-PER", "O")]
    assert bad_tags("B-PER I-LOC".split(), "bio") == [(1, "I-LOC", "B-PER")]
    assert bad_tags("B-PER O".split(), "bioes") == [(1, "O", "B-PER")]
    assert bad_tags("B-PER I-PER".split(), "bioes") == [(2, "O", "I-PER")]
    assert bad_tags("S-PER E-PER".split(), "bioes") == [(1, "E-PER", "S-PER")]
    assert bad_tags("B-PER M-PER E-PER".split(), "bmes") == []
    assert bad_tags("O B-PER".split(), "iob1") == [(1, "B-PER", "O")]
    assert bad_tags(["X-PER"], "bio") == [(0, "X-PER", "O")]
    assert repair("O I-PER I-PER".split(), "bio") == "O B-PER I-PER".split()


def test_detect() -> None:
    assert detect_scheme([["NOUN", "VERB"], ["O"]]) is None
    assert detect_scheme([["O", "O"]]) is None
    assert detect_scheme([["O", "B-X", "I-X"], ["I-X"]]) == "bio"  # one mistake, but no IOB1
    assert detect_scheme([["I-X", "B-X"], ["O", "I-X"]]) == "iob1"
    assert detect_scheme([["S-X"]]) == "bioes"
    assert detect_scheme([["B", "E", "S", "M"]]) == "bmes"  # word segmentation, no types
    with pytest.raises(FirthError, match="unknown scheme of tags 'bioe': did you mean 'bio"):
        tags_of([], 1, "bioe")


def test_transitions() -> None:
    labels = ["O", "B-A", "I-A", "I-B"]
    begin, follow, end = transitions(labels, "bio")
    assert begin.tolist() == [True, True, False, False]
    assert follow.tolist() == [
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, False],
        [True, True, False, True],
    ]
    assert end.all()
    begin, follow, end = transitions(["O", "B-A", "E-A", "S-A"], "bioes")
    assert begin.tolist() == [True, True, False, True]
    assert follow[1].tolist() == [False, False, True, False]
    assert end.tolist() == [True, False, True, True]
