"""Labelled texts and text pairs: chooses the columns of a table and reads it as examples.

The columns of text, second text and label are chosen by name, or by the shape of a table without header. Known
names are those of GLUE, CLUE, SNLI and of common tables. The user can also name the columns, or number them from 1
where the file has no header.

The first classes are the examples that readers yield and tasks consume. ``where`` is the source of an example for messages,
mostly ``file:line``; offsets count characters (code points) of the original text.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from firth.core.errors import FirthError, counted, nearest
from firth.data.sources import Source, find_sources, numbered_lines
from firth.data.tables import Table, find_delimiter, open_table
from firth.tokenizers.words import whole_characters


@dataclass(frozen=True)
class TextExample:
    """One text or a text pair, with its class label or its score (a number). Where a text may have several labels, or none,
    they are in ``labels``, and ``label`` is the same as a JSON list."""

    text: str
    second: str | None = None
    label: str | float | None = None
    where: str = ""
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TagExample:
    """Words with their tags, and the text with the offsets of each word."""

    words: list[str]
    tags: list[str] | None = None
    where: str = ""
    text: str = ""
    offsets: list[tuple[int, int]] = field(default_factory=list)


class Answer(NamedTuple):
    """A span of a passage."""

    text: str
    start: int


@dataclass(frozen=True)
class AnswerExample:
    """A question about a passage; ``impossible`` where the passage does not answer it.

    ``answers`` are spans of the passage; ``references`` are all annotated answer texts, used for scoring.
    """

    id: str
    question: str
    passage: str
    answers: list[Answer] = field(default_factory=list)
    impossible: bool = False
    where: str = ""
    references: list[str] = field(default_factory=list)


class SenseMark(NamedTuple):
    """Words ``start`` to ``end`` of a sentence together have one of ``senses`` (any counts as correct).

    ``item`` is the entry whose senses are candidates: a lemma with its part of speech.
    """

    id: str
    item: str
    start: int
    end: int
    senses: tuple[str, ...]


@dataclass(frozen=True)
class SenseExample:
    """A tokenized sentence or longer context with sense annotations."""

    words: list[str]
    marks: list[SenseMark]
    where: str = ""


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
_USUAL = ("text", "sentence", "review", "content", "comment", "sentence1", "text_a", "premise", "question")
_FREE = "body message tweet document description abstract title 文本 内容 正文 评论 句子 问题 标题".split()
SINGLES = (*_USUAL, *_FREE)
LABELS = (
    "label labels gold_label score quality is_duplicate similarity sentiment class category target rating stars "
    "topic topics relation intent emotion genre 标签 类别 分类 类型 情感 "
    "kategorie klasse etikett catégorie categorie classe étiquette categoría categoria etiqueta"
).split()
SCORES = ("score", "similarity")
_NAMED = {name for pair in PAIRS for name in pair} | set(_USUAL)


@dataclass(frozen=True)
class Columns:
    """Column names given by the user; None means: find it."""

    text: str | None = None
    second: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Chosen:
    """Column indices, whether the first row is a header, and the number of fields per row."""

    text: int
    second: int | None
    label: int | None
    header: bool
    num_fields: int | None  # None: at least as many as the chosen columns need
    label_name: str = ""

    def needed(self) -> int:
        return 1 + max(place for place in (self.text, self.second, self.label) if place is not None)


def choose_columns(table: Table, columns: Columns, labelled: bool) -> Chosen:
    """``labelled``: missing labels are an error."""
    if table.names is not None:
        return _by_name(table, table.names, columns, labelled, header=False)
    if not table.head:
        raise FirthError(f"{table.source.name}: no rows in this file; check the path")
    first = [str(field).strip() for field in table.head[0][1]]
    asked = (("--text", columns.text), ("--second", columns.second), ("--label", columns.label))
    wanted = {name: option for option, name in reversed(asked) if name is not None}
    if _is_header(first) or any(name in first and not name.isdecimal() for name in wanted):
        return _by_name(table, first, columns, labelled, header=True)
    for name, option in wanted.items():
        if not name.isdecimal():
            raise FirthError(
                f"{table.where(1)}: no column '{name}': {nearest(name, first)}; name the right one with {option}, or its number from 1"
            )
    return _without_header(table, columns, labelled)


def _is_header(first: list[str]) -> bool:
    """A usual name of a text, or any two names: a word such as title may be a label as well."""
    lower = {field.lower() for field in first}
    return bool(lower & _NAMED) or len(lower & {*_FREE, *LABELS}) > 1


def _by_name(table: Table, names: list[str], columns: Columns, labelled: bool, header: bool) -> Chosen:
    lower = [name.strip().lower() for name in names]

    def place(name: str, option: str) -> int:
        if name in names:
            return names.index(name)
        if name.lower() in lower:
            return lower.index(name.lower())
        if name.isdecimal() and 1 <= int(name) <= len(names):
            return int(name) - 1
        raise FirthError(
            f"{table.where(1)}: no column '{name}': {nearest(name, names)}; name the right one with {option}"
        )

    second: int | None = place(columns.second, "--second") if columns.second else None
    if columns.text:
        text = place(columns.text, "--text")
    else:
        pair = next((pair for pair in PAIRS if set(pair) <= set(lower)), None)
        single = pair[0] if pair else next((name for name in SINGLES if name in lower), None)
        if single is None:
            raise FirthError(f"{table.where(1)}: no text column among {', '.join(names)}; name it with --text")
        text = lower.index(single)
        second = lower.index(pair[1]) if pair and second is None else second
    label = (
        place(columns.label, "--label")
        if columns.label
        else next((lower.index(name) for name in LABELS if name in lower), None)
    )
    if label is None and labelled:
        raise FirthError(f"{table.where(1)}: no label column among {', '.join(names)}; name it with --label")
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


def _separate(table: Table, rows: list[list[str]]) -> str:
    """What to do about a file whose columns are not found: perhaps it is a csv by another name."""
    path, lines = Path(table.source.name), [row[0] for row in rows]
    mark = find_delimiter(lines)
    if path.suffix != ".csv" and lines and mark in lines[0]:
        name = {",": "commas", ";": "semicolons", "|": "vertical bars"}[mark]
        return f"{name} seem to separate its columns: rename it to {path.stem}.csv, where they do"
    return "separate label and text by a tab, or by commas or semicolons in a .csv file"


def _shape(table: Table, rows: list[list[str]], labelled: bool) -> Chosen:
    """Chooses by the shape of a table without header. One column: texts. CoLA and the STS benchmark are recognised
    by their content. Two columns: label and text. Three: two texts, the label first or last. The label is the
    numeric column, else the one with fewer distinct values, else the one with less text."""
    num = Counter(map(len, rows)).most_common(1)[0][0]
    full = [row for row in rows if len(row) == num]
    columns = [[row[place] for row in full] for place in range(num)]
    if num == 1:
        if labelled:
            raise FirthError(f"{table.where(1)}: only one column, so there are no labels; {_separate(table, rows)}")
        return Chosen(0, None, None, False, 1)
    if num == 4 and set(columns[1]) <= {"0", "1"} and max(map(len, columns[2])) <= 3:
        return Chosen(3, None, 1, False, 4)
    if num >= 7 and all(row[0].startswith("main-") and is_number(row[4]) for row in full):
        return Chosen(5, 6, 4, False, None, "score")
    if num == 10 and all(row[1].startswith("main-") and is_number(row[9]) for row in full):
        return Chosen(7, 8, 9, False, 10, "score")
    if num > 3:
        shown = ", ".join(f"{place} {field.strip()[:20]}" for place, field in enumerate(rows[0], 1))
        raise FirthError(
            f"{table.where(1)}: {num} columns ({shown[:200]}) and no header with known names; choose them with --text and --label (and --second), by name or by number"
        )
    label = min(range(num) if num == 2 else (0, 2), key=lambda place: _unlike_labels(columns[place]))
    if not labelled and _too_many(columns[label]):
        return Chosen(0, 1, None, False, num)  # two texts without a label
    _doubt(table, full, label)
    text, *others = (place for place in range(num) if place != label)
    return Chosen(text, others[0] if others else None, label, False, num)


def _doubt(table: Table, rows: list[list[str]], label: int) -> None:
    """Raises an error where the guess is likely wrong."""
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
    """Whether the values are too diverse for class labels."""
    return len(labels) >= 20 and len(set(labels)) > len(labels) / 2 and not all(map(is_number, labels))


def is_number(value: str | float) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _unlike_labels(column: list[str]) -> tuple[bool, int, int]:
    """Sort key: the smallest is the column that looks most like labels."""
    return not all(map(is_number, column[1:])), len(set(column)), sum(map(len, column))


# -- examples


def read_texts(
    path: str,
    columns: Columns | None = None,
    scores: bool | None = None,
    encoding: str = "utf-8",
    labelled: bool = True,
    separator: str | None = None,
) -> list[TextExample]:
    """All examples of a file, folder or glob. ``scores`` says whether labels are numbers. None detects it: the label
    column is called score or similarity, or all labels are numbers and some are not integers. Several labels of a text are
    a JSON list, or names with a ``separator`` between them."""
    found: list[TextExample] = []
    named = False
    for source in find_sources([path]):
        if columns in (None, Columns()) and _has_prefixes(source, encoding):
            found += _prefixed(source, encoding)
            continue
        table, chosen = _opened(source, columns, encoding, labelled)
        found += _examples(table, chosen, separator)
        named = named or chosen.label_name in SCORES
    if any(example.labels is not None for example in found):
        return [_listed(example) for example in found]
    if scores is None:
        scores = named or _fractions(example.label for example in found if example.label is not None)
    return [_with_score(example) for example in found] if scores else found


def stream_texts(
    path: str, columns: Columns | None = None, encoding: str = "utf-8", separator: str | None = None
) -> Iterator[TextExample]:
    """Streams examples in constant memory, every row of a table; labels, if any, are the strings of the file, cut at a ``separator``."""
    for source in find_sources([path]):
        table = open_table(source, encoding, every_row=True)
        yield from _examples(table, choose_columns(table, columns or Columns(), False), separator, every_row=True)


def has_column(path: str, name: str, encoding: str = "utf-8") -> bool:
    """Whether all tables of a path have a column of this name or number."""
    tables = (open_table(source, encoding) for source in find_sources([path]))
    names = [table.names or ([str(field) for field in table.head[0][1]] if table.head else []) for table in tables]
    places = [{*(one.strip().lower() for one in some), *map(str, range(1, len(some) + 1))} for some in names]
    return all(name.strip().lower() in some for some in places)


_PREFIX = "__label__"


def _has_prefixes(source: Source, encoding: str) -> bool:
    """Whether a text file is written as fastText reads it: ``__label__NAME`` and the text."""
    if source.format != "txt":
        return False
    first = next((line for _, line in numbered_lines(source, encoding) if line.strip()), "")
    return first.lstrip().startswith(_PREFIX)


def _prefixed(source: Source, encoding: str) -> Iterator[TextExample]:
    for number, line in numbered_lines(source, encoding):
        where, words = f"{source.name}:{number}", line.split()
        labels = [word.removeprefix(_PREFIX) for word in words if word.startswith(_PREFIX)]
        if not words:
            continue
        if len(labels) != 1 or not labels[0]:
            raise FirthError(f"{where}: {len(labels)} labels where one is expected; write __label__NAME and the text")
        text = " ".join(word for word in words if not word.startswith(_PREFIX))
        yield TextExample(whole_characters(text), None, labels[0], where)


def _opened(source: Source, columns: Columns | None, encoding: str, labelled: bool) -> tuple[Table, Chosen]:
    table = open_table(source, encoding)
    return table, choose_columns(table, columns or Columns(), labelled)


def _examples(
    table: Table, chosen: Chosen, separator: str | None = None, every_row: bool = False
) -> Iterator[TextExample]:
    needed = chosen.needed()
    for number, (line, fields) in enumerate(table.rows):
        if number == 0 and chosen.header:
            continue
        where = table.where(line)
        if len(fields) < needed or (chosen.num_fields is not None and len(fields) != chosen.num_fields):
            raise FirthError(
                f"{where}: {counted(len(fields), 'field')} where {chosen.num_fields or needed} are expected; fix this line"
            )
        value = None if chosen.label is None else fields[chosen.label]
        labels = _several(value, separator, where)
        label = _label(value) if labels is None else json.dumps(labels, ensure_ascii=False)
        if label == "-" and chosen.second is not None and not every_row:
            continue  # SNLI, MNLI, OCNLI: no agreement between annotators; the published evaluations skip these
        second = None if chosen.second is None else _text(fields[chosen.second], where)
        yield TextExample(_text(fields[chosen.text], where), second, label, where, labels)


def _text(value: object, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FirthError(
            f"{where}: the text is not a string but {type(value).__name__}; fix this line or choose another column"
        )
    return whole_characters(value)


def _label(value: object) -> str | None:
    """The label as written; an empty field is no label."""
    if value is None:
        return None
    written = str(value).strip()
    return written or None


def _several(value: object, separator: str | None, where: str) -> tuple[str, ...] | None:
    """The labels of a list, or with a separator between them, each once; None where there is one label."""
    if separator is not None and (value is None or isinstance(value, str)):
        value = [name for name in (value or "").split(separator) if name.strip()]
    elif isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None  # a name such as [spam]; among lists it is refused later
    if not isinstance(value, list):
        return None
    names = [str(name).strip() for name in value if isinstance(name, str | int) and str(name).strip()]
    if len(names) != len(value):
        raise FirthError(f'{where}: a list of labels must hold names, as in ["news", "sport"]; fix this line')
    return tuple(dict.fromkeys(names))


def _listed(example: TextExample) -> TextExample:
    """Where some texts have lists of labels all must have."""
    if example.labels is None and example.label is not None:
        if str(example.label).lstrip().startswith("["):
            raise FirthError(
                f'{example.where}: {example.label} is not a whole JSON list of labels, as in ["news", "sport"]; fix this line'
            )
        raise FirthError(
            f"{example.where}: '{example.label}' is no list of labels, and other lines have one; write [\"{example.label}\"], "
            "or name the separator of labels with --label-separator"
        )
    return example


def _fractions(labels: Iterable[str | float]) -> bool:
    """Whether all labels are numbers and some are not integers."""
    some = False
    for label in labels:
        if not is_number(label):
            return False
        some = some or float(label) != int(float(label))
    return some


def _with_score(example: TextExample) -> TextExample:
    if example.label is not None and not is_number(example.label):
        raise FirthError(f"{example.where}: the label '{example.label}' is not a number; fix it or use task classify")
    return replace(example, label=None if example.label is None else float(example.label))
