"""Labelled texts, one or two to a label: tables of any kind to examples."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from firth.core.errors import FirthError
from firth.data.columns import SCORES, Chosen, Columns, choose_columns, is_number
from firth.data.examples import TextExample
from firth.data.sources import Source, find_sources
from firth.data.tables import Table, open_table
from firth.tokenizers.characters import whole_characters


def read_texts(
    path: str,
    columns: Columns | None = None,
    scores: bool | None = None,
    encoding: str = "utf-8",
    labelled: bool = True,
) -> list[TextExample]:
    """All examples of a file (or folder, or glob). ``scores``: labels are numbers; by itself that is found if
    the column is called so, or if all labels are numbers and some have a fraction."""
    found: list[TextExample] = []
    named = False
    for source in find_sources([path]):
        table, chosen = _opened(source, columns, encoding, labelled)
        found += _examples(table, chosen)
        named = named or chosen.label_name in SCORES
    if scores is None:
        scores = named or _fractions(example.label for example in found if example.label is not None)
    return [_with_score(example) for example in found] if scores else found


def stream_texts(path: str, columns: Columns | None = None, encoding: str = "utf-8") -> Iterator[TextExample]:
    """One example after the other, in constant memory, labels as they are written, if there are any."""
    for source in find_sources([path]):
        yield from _examples(*_opened(source, columns, encoding, labelled=False))


def _opened(source: Source, columns: Columns | None, encoding: str, labelled: bool) -> tuple[Table, Chosen]:
    table = open_table(source, encoding)
    return table, choose_columns(table, columns or Columns(), labelled)


def _examples(table: Table, chosen: Chosen) -> Iterator[TextExample]:
    needed = chosen.needed()
    for number, (line, fields) in enumerate(table.rows):
        if number == 0 and chosen.header:
            continue
        where = table.where(line)
        if len(fields) < needed or (chosen.num_fields is not None and len(fields) != chosen.num_fields):
            raise FirthError(
                f"{where}: {len(fields)} fields where there should be {chosen.num_fields or needed}; mend this line"
            )
        label = _label(None if chosen.label is None else fields[chosen.label])
        if label == "-" and chosen.second is not None:
            continue  # SNLI, MNLI, OCNLI: the annotators did not agree, and the publishers leave these out
        second = None if chosen.second is None else _text(fields[chosen.second], where)
        yield TextExample(_text(fields[chosen.text], where), second, label, where)


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FirthError(
            f"{where}: the text is not text but {type(value).__name__}; mend this line or choose another column"
        )
    return whole_characters(value)


def _label(value: Any) -> str | None:
    """As it is written; nothing written is no label."""
    if value is None:
        return None
    written = str(value).strip()
    return written or None


def _fractions(labels: Iterable[Any]) -> bool:
    some = False
    for label in labels:
        if not is_number(label):
            return False
        some = some or float(label) != int(float(label))
    return some


def _with_score(example: TextExample) -> TextExample:
    if example.label is not None and not is_number(example.label):
        raise FirthError(f"{example.where}: the label '{example.label}' is not a number; mend it, or train classes")
    return replace(example, label=None if example.label is None else float(example.label))
