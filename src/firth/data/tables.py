"""Tables: reads tsv, csv, jsonl, a JSON list or parquet as rows with line numbers."""

import csv
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firth.core.errors import FirthError
from firth.data.sources import MAX_LINE_CHARS, Source, numbered_lines, seekable, text_blocks

Row = tuple[int, Sequence[object]]  # line number, fields
NUM_HEAD = 1000


@dataclass(frozen=True)
class Table:
    """Rows of a file. ``names`` are the keys of objects or the parquet columns. A tsv or csv may lack a
    header, so its first line is an ordinary row. ``head`` repeats the first rows."""

    source: Source
    names: list[str] | None
    head: list[Row]
    rows: Iterator[Row]

    def where(self, line: int) -> str:
        return f"{self.source.name}:{line}"


def open_table(source: Source, encoding: str = "utf-8") -> Table:
    """Picks the format by the file name, or by the first line where the name does not tell."""
    format = table_format(source, encoding)
    if format == "parquet":
        return _parquet(source)
    if format in ("json", "jsonl"):
        objects = json_list(source, encoding) if format == "json" else json_lines(source, encoding)
        return _of_objects(source, objects)
    return _peeked(source, None, _fields(source, encoding, format))


def first_line(source: Source, encoding: str) -> str:
    """The first line that is not blank, or an empty string."""
    return next((line for _, line in numbered_lines(source, encoding) if line.strip()), "")


def table_format(source: Source, encoding: str) -> str:
    """tsv, csv, jsonl, json or parquet; a plain text file counts as a tsv of one column."""
    if source.format in ("parquet", "jsonl", "tsv"):
        return source.format
    first = first_line(source, encoding).strip()
    if source.format == "csv":
        return "tsv" if first.count("\t") > max(1, first.count(",")) else "csv"
    if first.startswith("{"):
        return "jsonl" if _whole(first) else "json"
    return "json" if first.startswith("[") and source.path.name.endswith((".json", ".json.gz", ".json.zst")) else "tsv"


def _whole(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def load_json(source: Source, encoding: str) -> object:
    """The file as one JSON value."""
    try:
        return json.loads("".join(text_blocks(source, encoding)))
    except json.JSONDecodeError as error:
        raise FirthError(
            f"{source.name}:{error.lineno}: not valid JSON ({error.msg}); fix it or copy it again"
        ) from None


def json_values(source: Source, encoding: str) -> Iterator[tuple[int, object]]:
    """One JSON value per line; blank lines are skipped."""
    for number, line in numbered_lines(source, encoding):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise FirthError(f"{source.name}:{number}: not valid JSON ({error}); fix or remove this line") from None
        yield number, value


def json_lines(source: Source, encoding: str) -> Iterator[tuple[int, dict[str, object]]]:
    """One JSON object per line."""
    for number, value in json_values(source, encoding):
        if not isinstance(value, dict):
            raise FirthError(
                f"{source.name}:{number}: not an object with named fields but {type(value).__name__}; write {{...}} on each line"
            )
        yield number, value


def json_list(source: Source, encoding: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Objects of one JSON list, counted from 1."""
    value = load_json(source, encoding)
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise FirthError(f"{source.name}: not a list of objects; write [{{...}}, ...] or one object per line")
    yield from enumerate(value, 1)


def _of_objects(source: Source, objects: Iterator[tuple[int, dict[str, object]]]) -> Table:
    head = list(itertools.islice(objects, NUM_HEAD))
    names = list(dict.fromkeys(name for _, item in head for name in item))
    rows = ((number, [item.get(name) for name in names]) for number, item in itertools.chain(head, objects))
    return _peeked(source, names, rows)


def _peeked(source: Source, names: list[str] | None, rows: Iterator[Row]) -> Table:
    head = list(itertools.islice(rows, NUM_HEAD))
    return Table(source, names, head, itertools.chain(head, rows))


def _fields(source: Source, encoding: str, format: str) -> Iterator[Row]:
    """Tab-separated fields are taken literally, quotation marks included; comma-separated fields may be quoted."""
    lines = numbered_lines(source, encoding)
    if format == "tsv":
        yield from ((number, line.split("\t")) for number, line in lines if line.strip(" \t"))
        return
    csv.field_size_limit(MAX_LINE_CHARS)
    reader = csv.reader((line + "\n" for _, line in lines), strict=True)
    start = 1
    try:
        for fields in reader:
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise FirthError(f"{source.name}:{start}: not valid csv ({error}); fix this line") from None


def _parquet(source: Source) -> Table:
    import pyarrow
    import pyarrow.parquet

    def batches() -> Iterator[Iterator[list[object]]]:
        try:
            with seekable(source) as handle:
                file = pyarrow.parquet.ParquetFile(handle, pre_buffer=False, buffer_size=1 << 20)
                names.extend(file.schema_arrow.names)
                for batch in file.iter_batches(batch_size=256):
                    yield map(list, zip(*(column.to_pylist() for column in batch.columns), strict=True))
        except (pyarrow.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FirthError(f"{source.name}: not a complete parquet file ({error}); copy it again") from None

    names: list[str] = []
    return _peeked(source, names, enumerate(itertools.chain.from_iterable(batches()), 1))
