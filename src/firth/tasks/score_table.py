"""Predictions into the user's table: every column and every row in its order, and what the model says after them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from firth.core.errors import FirthError, counted
from firth.core.storage import Cluster
from firth.core.types import Prediction
from firth.data.labelled import Chosen, Columns, TextExample, choose_columns
from firth.data.sources import find_sources
from firth.data.tables import Table, delimiter_of, open_table, output_format, table_writer
from firth.tasks.model import TaskModel
from firth.tasks.predict import check_pair, stored_reading, stream_on, withheld
from firth.tokenizers.words import whole_characters

PREFIX = "predicted_"
UNKNOWN = "unknown_share"  # of tokens that the model does not know


@dataclass(frozen=True)
class Scored:
    """What was written."""

    rows: int
    columns: tuple[str, ...]  # the new ones


def score_table(
    model: TaskModel,
    run: Path,
    source: str,
    out: Path,
    columns: Columns,
    encoding: str | None = None,
    cluster: Cluster | None = None,
    min_confidence: float | None = None,
) -> Scored:
    """Writes the table ``source`` to ``out`` with the predictions of the model of ``run`` as new columns.

    Which columns hold the texts is what the task was trained with, unless ``columns`` says it. Memory does not grow with
    the table. Tags and answers are for texts, not for tables. A label that is less probable than ``min_confidence`` is an
    empty cell.
    """
    if model.config.task not in ("classify", "score"):
        raise FirthError(f"{run}: a table is scored by classify and score, not {model.config.task}; leave out --out")
    output_format(out)
    reading = stored_reading(run)
    if columns.text is None and columns.second is None:
        columns = Columns(reading.text, reading.second)
    sources = find_sources([source])
    if len(sources) != 1:
        raise FirthError(f"{source}: {len(sources)} files; score them one by one, each with its own --out")
    if out.exists() and out.resolve() == sources[0].path.resolve():
        raise FirthError(f"{out}: this is the file that is read; name another file with --out")
    encoding = encoding or reading.encoding or "utf-8"
    table = open_table(sources[0], encoding, every_field=True)
    chosen = text_columns(table, columns, reading.label)
    names = table_names(table, chosen)
    added = _added(model)
    count = 0
    with table_writer(out, [*names, *added], table.types, delimiter_of(sources[0], encoding)) as write:
        rows: list[list[object]] = []  # of the examples that are being predicted

        def examples() -> Iterator[TextExample]:
            for where, row in table_rows(table, chosen, len(names)):
                example = _example(row, chosen, where)
                if not model.either:
                    check_pair(example, model.pairs)
                rows.append(row)
                yield example

        for _, found in stream_on(cluster, run, examples()) if cluster else model.stream(examples()):
            write([*rows.pop(0), *_values(model, withheld(found, min_confidence))])
            count += 1
    return Scored(count, tuple(added))


def text_columns(table: Table, columns: Columns, label: str | None) -> Chosen:
    """The columns of the texts. A column of labels may be there or not: it is kept and not read."""
    if label is not None and columns.label is None:
        try:
            return choose_columns(table, Columns(columns.text, columns.second, label), labelled=False)
        except FirthError:
            pass  # the table has no labels
    found = choose_columns(table, columns, labelled=False)
    single = table.source.format == "txt" and len(table.head[0][1]) == 1  # a text per line
    if table.names is None and not found.header and columns.text is None and not single:
        first = ", ".join(str(field) for field in table.head[0][1])
        raise FirthError(
            f"{table.where(1)}: which column holds the text ({first[:80]})? Name it with --text, or its number from 1 where there is no header"
        )
    return found


def table_names(table: Table, chosen: Chosen) -> list[str]:
    if table.names is not None:
        return list(table.names)
    first = table.head[0][1]
    return [str(name).strip() for name in first] if chosen.header else [f"column_{n}" for n in range(1, len(first) + 1)]


def table_rows(table: Table, chosen: Chosen, num_fields: int) -> Iterator[tuple[str, list[object]]]:
    for number, (line, fields) in enumerate(table.rows):
        if number == 0 and chosen.header:
            continue
        if len(fields) != num_fields:
            raise FirthError(
                f"{table.where(line)}: {counted(len(fields), 'field')} where {num_fields} are expected; fix this line"
            )
        yield table.where(line), list(fields)


def _example(row: Sequence[object], chosen: Chosen, where: str) -> TextExample:
    """An empty cell is an empty text, so that every row gets an answer."""

    def cell(place: int) -> str:
        value = row[place]
        if value is not None and not isinstance(value, str):
            raise FirthError(
                f"{where}: the text is not a string but {type(value).__name__}; fix this line or choose another column"
            )
        return whole_characters(value or "")

    return TextExample(cell(chosen.text), None if chosen.second is None else cell(chosen.second), None, where)


def _added(model: TaskModel) -> list[str]:
    if model.config.task == "score":
        return [PREFIX + "score", UNKNOWN]
    labels = (f"probability_{label}" for label in model.config.labels)
    if model.config.several:
        return [PREFIX + "labels", *labels, UNKNOWN]
    return [PREFIX + "label", PREFIX + "probability", *labels, UNKNOWN]


def _values(model: TaskModel, found: Prediction) -> list[object]:
    if model.config.task == "score":
        return [found["score"], found["unknown"]]
    probabilities = found["probabilities"]
    shares = (round(probabilities[one], 6) for one in model.config.labels)
    if model.config.several:
        return [found["labels"], *shares, found["unknown"]]
    return [found["label"], round(max(probabilities.values()), 6), *shares, found["unknown"]]
