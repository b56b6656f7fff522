"""Quotation in tsv files: read where the file uses it, left alone where the marks belong to the texts."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.core.errors import FirthError
from firth.data.labelled import read_texts
from firth.data.quotation import uses_quotation
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import find_sources
from firth.data.tables import open_table

ROWS = [
    ["text", "label"],
    ['He said "no".\n\nThen he left, quietly.', "a"],
    ['"Begins with a mark', "b"],
    ["plain, with a comma", "a"],
    ["a\ttab", "b"],
]


def written(path: Path, rows: list[list[str]], quoting: "csv._QuotingType" = csv.QUOTE_MINIMAL) -> str:
    """As pandas' to_csv(sep="\\t") writes it."""
    buffer = io.StringIO()
    csv.writer(buffer, delimiter="\t", quoting=quoting, lineterminator="\n").writerows(rows)
    path.write_text(buffer.getvalue(), encoding="utf-8", newline="")
    return str(path)


def literal(path: Path, rows: list[list[str]]) -> str:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8", newline="")
    return str(path)


def quoted(path: str) -> bool:
    return uses_quotation(find_sources([path])[0], "utf-8")


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_what_pandas_writes(quoting: "csv._QuotingType", tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", ROWS, quoting)
    found = [[one.text, one.label] for one in read_texts(path)]
    assert found == ROWS[1:]
    texts = [one.text for one in read_documents(find_sources([path]), ReadingConfig())]
    assert texts == [row[0] for row in ROWS[1:]]


def test_marks_that_are_doubled_in_their_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", [["text", "label"], ['the "big" one', "a"], ["another", "b"]])
    assert [one.text for one in read_texts(path)] == ['the "big" one', "another"]


@pytest.mark.parametrize(
    "texts",
    [
        ['a 5" screen', "plain"],
        ['"Well," he said', "plain"],
        ['"begins with a mark', "plain"],
        ['"begins', "plain", 'ends"', "plain"],  # a cell of three lines, were it quotation
        ['"A title"', "no title"],
        ['"Hello, world"', "plain"],
        ['"Hello, world"', "a comma, bare", 'and "" more'],
        ["plain", "plain again"],
        ['"'],
    ],
)
def test_marks_that_belong_to_the_texts(texts: list[str], tmp_path: Path) -> None:
    path = literal(tmp_path / "a.tsv", [["text", "label"], *([text, "a"] for text in texts)])
    assert not quoted(str(path))
    assert [one.text for one in read_texts(path)] == texts


def test_a_text_per_line_has_no_quotation(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text('"one ""two"" three"\nfour\n', encoding="utf-8")
    table = open_table(find_sources([str(tmp_path / "a.txt")])[0])
    assert [list(fields) for _, fields in table.rows] == [['"one ""two"" three"'], ["four"]]


def test_a_broken_row_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"one\n""two"""\ta\nthree\n', encoding="utf-8")
    with pytest.raises(FirthError, match=r"a\.tsv:4: 1 field where 2 are expected; fix this line"):
        read_texts(str(path))


CELL = st.text(st.sampled_from('ab "\t\n,1'), max_size=8)


@given(st.lists(st.lists(CELL, min_size=3, max_size=3), min_size=1, max_size=8))
def test_what_is_recognised_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    path = written(tmp_path_factory.mktemp("q") / "a.tsv", [["x", "y", "z"], *rows])
    if quoted(path):
        found = [list(fields) for _, fields in open_table(find_sources([path])[0]).rows]
        assert found[1:] == rows
    else:  # nothing to quote, or a tab beside a line break in one cell, which may be several rows
        assert not any('"' in cell for row in rows for cell in row) or any("\n" in cell for row in rows for cell in row)


@given(
    st.lists(st.lists(st.text(st.sampled_from('ab ",'), max_size=6), min_size=2, max_size=2), min_size=1, max_size=8)
)
def test_rows_are_never_swallowed(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    path = literal(tmp_path_factory.mktemp("q") / "a.tsv", [["x", "y"], *rows])
    found = [list(fields) for _, fields in open_table(find_sources([path])[0]).rows]
    full = [row for row in rows if "\t".join(row).strip(" \t")]
    assert len(found) in (1 + len(full), 1 + len(rows))


@given(st.text(st.sampled_from('ab "\t\n,'), max_size=60))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("q") / "a.tsv"
    path.write_text(f"{text}\n", encoding="utf-8", newline="")
    table = open_table(find_sources([str(path)])[0])
    assert sum(1 for _ in table.rows) <= text.count("\n") + 1


def test_lines_of_one_column_stay_apart(tmp_path: Path) -> None:
    """Speech over several lines looks like a quoted cell; where there is no tab nothing says that it is one."""
    for number, text in enumerate(('text\n"I am here.\nI will go."\nShe left.\n', '"Yes"\n"No"\n')):
        path = tmp_path / f"{number}.tsv"
        path.write_text(text, encoding="utf-8")
        assert not quoted(str(path))
    (tmp_path / "all.tsv").write_text('"text"\t"label"\n"good"\t"1"\n', encoding="utf-8")
    assert quoted(str(tmp_path / "all.tsv"))


def test_a_line_of_spaces_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"a ""b"" c"\tpos\n  \nd\tneg\n', encoding="utf-8")
    rows = [list(fields) for _, fields in open_table(find_sources([str(path)])[0]).rows]
    assert rows == [["text", "label"], ['a "b" c', "pos"], ["d", "neg"]]
