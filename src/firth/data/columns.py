"""Which column is the text, which the second text, which the label: by names, or guessed by a stated rule.

Names are those of GLUE, CLUE, SNLI and of everyday tables. Columns can also be named by the user, a file
without a header by numbers from 1.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from firth.core.errors import FirthError, nearest
from firth.data.tables import Table

PAIRS = (
    ("text", "second"),
    ("text", "text_b"),
    ("text", "text2"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
    ("#1 string", "#2 string"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
)
SINGLES = ("text", "sentence", "review", "content", "comment", "sentence1", "text_a", "premise", "question")
LABELS = "label gold_label score quality is_duplicate similarity sentiment class category target rating stars".split()
SCORES = ("score", "similarity")
_NAMED = {name for pair in PAIRS for name in pair} | set(SINGLES)


@dataclass(frozen=True)
class Columns:
    """What the user calls the columns; what is not said is found."""

    text: str | None = None
    second: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Chosen:
    """Places of the columns, whether the first row is a header, and how many fields a row must have."""

    text: int
    second: int | None
    label: int | None
    header: bool
    num_fields: int | None  # none: at least as many as the columns need
    label_name: str = ""

    def needed(self) -> int:
        return 1 + max(place for place in (self.text, self.second, self.label) if place is not None)


def choose_columns(table: Table, columns: Columns, labelled: bool) -> Chosen:
    """``labelled``: it is an error if there are no labels."""
    if table.names is not None:
        return _by_name(table, table.names, columns, labelled, header=False)
    if not table.head:
        raise FirthError(f"{table.source.name}: no rows in this file")
    first = [str(field).strip() for field in table.head[0][1]]
    wanted = [name for name in (columns.text, columns.second, columns.label) if name is not None]
    if any(field.lower() in _NAMED for field in first) or any(
        name in first and not name.isdecimal() for name in wanted
    ):
        return _by_name(table, first, columns, labelled, header=True)
    for name in wanted:
        if not name.isdecimal():
            raise FirthError(
                f"{table.where(1)}: no column '{name}': {nearest(name, first)}; name it, or its number from 1"
            )
    return _without_header(table, columns, labelled)


def _by_name(table: Table, names: list[str], columns: Columns, labelled: bool, header: bool) -> Chosen:
    lower = [name.strip().lower() for name in names]

    def place(name: str) -> int:
        if name in names:
            return names.index(name)
        if name.lower() in lower:
            return lower.index(name.lower())
        if name.isdecimal() and 1 <= int(name) <= len(names):
            return int(name) - 1
        raise FirthError(f"{table.where(1)}: no column '{name}': {nearest(name, names)}; name the right one")

    second: int | None = place(columns.second) if columns.second else None
    if columns.text:
        text = place(columns.text)
    else:
        pair = next((pair for pair in PAIRS if set(pair) <= set(lower)), None)
        single = pair[0] if pair else next((name for name in SINGLES if name in lower), None)
        if single is None:
            raise FirthError(f"{table.where(1)}: no column of text among {', '.join(names)}; name it with --text")
        text = lower.index(single)
        second = lower.index(pair[1]) if pair and second is None else second
    label = (
        place(columns.label) if columns.label else next((lower.index(name) for name in LABELS if name in lower), None)
    )
    if label is None and labelled:
        raise FirthError(f"{table.where(1)}: no column of labels among {', '.join(names)}; name it with --label")
    return Chosen(text, second, label, header, len(names), lower[label] if label is not None else "")


def _without_header(table: Table, columns: Columns, labelled: bool) -> Chosen:
    rows = [[str(field) for field in fields] for _, fields in table.head]
    if columns.text or columns.label or columns.second:
        guess = None
        if columns.text is None:
            guess = _shape(table, rows, labelled)
        text, second, label = (
            int(name) - 1 if name else other
            for name, other in (
                (columns.text, guess.text if guess else 0),
                (columns.second, guess.second if guess else None),
                (columns.label, guess.label if guess else None),
            )
        )
        assert text is not None
        chosen = Chosen(text, second, label, False, None)
        if labelled and label is None:
            raise FirthError(
                f"{table.source.name}: which column holds the labels? Name it with --label, a number from 1"
            )
        if chosen.needed() > len(rows[0]) or min(text, second or 0, label or 0) < 0:
            raise FirthError(
                f"{table.where(1)}: no column {chosen.needed()}: there are {len(rows[0])}; choose by number from 1"
            )
        return chosen
    return _shape(table, rows, labelled)


def _shape(table: Table, rows: list[list[str]], labelled: bool) -> Chosen:
    """A table without header by its shape. One column: texts. CoLA's and the STS benchmark's columns by what is
    in them. Two: label and text, three: two texts with the label before or behind; the label is the
    column of numbers, else the one with fewer distinct values, else the shorter one."""
    num = Counter(map(len, rows)).most_common(1)[0][0]
    full = [row for row in rows if len(row) == num]
    columns = [[row[place] for row in full] for place in range(num)]
    if num == 1:
        if labelled:
            raise FirthError(
                f"{table.where(1)}: one column only, so there are no labels; separate label and text by a tab"
            )
        return Chosen(0, None, None, False, 1)
    if num == 4 and set(columns[1]) <= {"0", "1"} and max(map(len, columns[2])) <= 3:
        return Chosen(3, None, 1, False, 4)
    if num >= 7 and all(row[0].startswith("main-") and is_number(row[4]) for row in full):
        return Chosen(5, 6, 4, False, None, "score")
    if num == 10 and all(row[1].startswith("main-") and is_number(row[9]) for row in full):
        return Chosen(7, 8, 9, False, 10, "score")
    if num > 3:
        raise FirthError(
            f"{table.where(1)}: {num} columns and no header with known names; name the columns by --text, --second and --label, by number from 1"
        )
    label = min(range(num) if num == 2 else (0, 2), key=lambda place: _unlike_labels(columns[place]))
    if not labelled and _too_many(columns[label]):
        return Chosen(0, 1, None, False, num)  # two texts without a label
    _doubt(table, full, label)
    text, *others = (place for place in range(num) if place != label)
    return Chosen(text, others[0] if others else None, label, False, num)


def _doubt(table: Table, rows: list[list[str]], label: int) -> None:
    """A guess that is likely wrong is not made."""
    first, *others = (row[label] for row in rows)
    counts = Counter(others)
    numbers = bool(others) and all(map(is_number, others))
    odd = (numbers and not is_number(first)) or (
        len(others) >= 20 and first not in counts and min(counts.values()) > 1 and len(counts) <= len(others) / 5
    )
    if odd:
        raise FirthError(
            f"{table.where(1)}: looks like a header without known names ({', '.join(rows[0])[:80]}); name the columns with --text and --label"
        )
    if _too_many([first, *others]):
        raise FirthError(f"{table.source.name}: which column holds the labels? Name it with --label, a number from 1")


def _too_many(labels: list[str]) -> bool:
    """Whether there are more distinct labels than classes can be."""
    return len(labels) >= 20 and len(set(labels)) > len(labels) / 2 and not all(map(is_number, labels))


def is_number(field: Any) -> bool:
    try:
        return math.isfinite(float(field))
    except (TypeError, ValueError):
        return False


def _unlike_labels(column: list[str]) -> tuple[bool, int, int]:
    """The smaller, the more a column looks like labels."""
    return not all(map(is_number, column[1:])), len(set(column)), sum(map(len, column))
