"""Which sentences a probe reads, and that reading many at once is reading each alone."""

from pathlib import Path

import numpy as np
import pytest

import firth
from firth.evaluation.probe import split_examples, thinned


def test_every_fifth_is_held_out() -> None:
    train, test = split_examples(list(range(12)))
    assert test == [4, 9]
    assert train == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11]


def test_thinned_at_even_distances() -> None:
    """Ten sentences of ten words for at most thirty: three of them, from the whole of the file."""
    assert thinned(list(range(10)), [10] * 10, 30) == [0, 3, 6]
    assert thinned(list(range(10)), [10] * 10, 100) == list(range(10))
    assert thinned(list(range(10)), [10] * 10, 1) == [0]


@pytest.mark.parametrize("kind", ["run_folder", "gpt_folder"])
def test_many_texts_are_read_as_each_alone(kind: str, request: pytest.FixtureRequest) -> None:
    model = firth.load(request.getfixturevalue(kind))
    texts: list[str | list[str]] = ["The old doctor.", ["A", "broken", "clock"], "The river slept. " * 20, ""]
    for text, found in zip(texts, model.layers_of(texts), strict=True):
        alone = model.layers(text)
        assert found.tokens == alone.tokens
        np.testing.assert_array_equal(found.words, alone.words)
        np.testing.assert_allclose(found.hidden, alone.hidden, atol=1e-5)


def test_the_report_is_whole(run_folder: Path, tmp_path: Path) -> None:
    """Every number of the table stands in the page too."""
    found = firth.probe(run_folder, out=tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for row in found["rows"]:
        assert row["name"].strip() in page
    assert "give sentences with tags by --pos FILE" in page
