"""Entity scores equal seqeval's, read leniently and strictly."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval import metrics as peer
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES, Entities

from firth.tasks.tag_schemes import entity_counts, entity_scores, spans_of, strict_spans_of

BIO = ["O", "B-A", "I-A", "B-B", "I-B", "B", "I", "B-x-y", "I-x-y"]
BIOES = ["O", *(f"{prefix}-{name}" for prefix in "BIES" for name in "AB"), "B", "I", "E", "S"]


def pairs(tags: list[str]) -> st.SearchStrategy[list[list[tuple[str, str]]]]:
    tag = st.sampled_from(tags)
    return st.lists(st.lists(st.tuples(tag, tag), min_size=1, max_size=9), min_size=1, max_size=5)


def split(rows: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [[one for one, _ in row] for row in rows], [[two for _, two in row] for row in rows]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from([*BIOES, "NOUN", "X", ".", "I-"]), max_size=12))
def test_lenient_spans(tags: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert spans_of(tags) == get_entities(tags)


@settings(deadline=None, max_examples=200)
@given(pairs(BIOES))
def test_lenient_scores(rows: list[list[tuple[str, str]]]) -> None:
    true, guessed = split(rows)
    found = entity_scores(true, guessed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found["precision"] == pytest.approx(peer.precision_score(true, guessed))
        assert found["recall"] == pytest.approx(peer.recall_score(true, guessed))
        assert found["f1"] == pytest.approx(peer.f1_score(true, guessed))
        if entity_counts(true, guessed).types:  # seqeval's mean over no types at all is NaN
            assert found["macro_f1"] == pytest.approx(peer.f1_score(true, guessed, average="macro"))
        assert found["weighted_f1"] == pytest.approx(peer.f1_score(true, guessed, average="weighted"))
        assert found["accuracy"] == pytest.approx(peer.accuracy_score(true, guessed))


@pytest.mark.parametrize(("scheme", "tags", "theirs"), [("bio", BIO, IOB2), ("bioes", BIOES, IOBES)])
def test_strict(scheme: str, tags: list[str], theirs: type) -> None:
    @settings(deadline=None, max_examples=200)
    @given(pairs(tags))
    def check(rows: list[list[tuple[str, str]]]) -> None:
        true, guessed = split(rows)
        wanted = [[(span.tag, span.start, span.end - 1) for span in spans] for spans in Entities(true, theirs).entities]
        assert [strict_spans_of(row, scheme) for row in true] == wanted
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if entity_counts(true, guessed, strict=scheme).types:
                f1 = peer.f1_score(true, guessed, mode="strict", scheme=theirs)
                assert entity_scores(true, guessed, strict=scheme)["f1"] == pytest.approx(f1)

    check()


def test_by_type() -> None:
    true = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O"]]
    guessed = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "I-LOC"]]
    found = {name: score.model_dump() for name, score in entity_counts(true, guessed).by_type().items()}
    assert found == {
        "LOC": {"precision": 0, "recall": 0, "f1": 0, "true": 2, "guessed": 1},
        "PER": {"precision": 0.5, "recall": 1, "f1": pytest.approx(2 / 3), "true": 1, "guessed": 2},
    }
    assert entity_scores([["O"]], [["O"]])["f1"] == 0


def test_bmes_is_scored_as_what_it_means() -> None:
    true = [["B-A", "M-A", "E-A", "S-A"]]
    assert entity_scores(true, [["B-A", "M-A", "M-A", "E-A"]])["f1"] == 0
    assert entity_scores(true, true)["f1"] == 1
    assert entity_scores([["B-A", "M-A", "B-A"]], [["B-A", "M-A", "B-A"]])["recall"] == 1
