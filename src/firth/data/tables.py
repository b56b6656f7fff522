"""Tables: rows of csv, tsv, jsonl, json and parquet files, read as a stream; and written again with new columns.

What is written appears whole or not at all. csv and tsv keep their cells as they were read, jsonl its values, parquet the types of its columns.
"""

import contextlib
import csv
import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from firth.core.errors import FirthError
from firth.core.files import atomic_file
from firth.data.sources import MAX_LINE_CHARS, Source, numbered_lines, seekable, text_blocks

if TYPE_CHECKING:
    import pyarrow

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


def open_table(source: Source, encoding: str = "utf-8", every_field: bool = False) -> Table:
    """Picks the format by the file name, or by the first line where the name does not tell. ``every_field``: an object
    with a field that the first ones do not have is an error; else that field is not read."""
    format = table_format(source, encoding)
    if format == "parquet":
        return _parquet(source)
    if format in ("json", "jsonl"):
        objects = json_list(source, encoding) if format == "json" else json_lines(source, encoding)
        return _of_objects(source, objects, every_field)
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


def _of_objects(source: Source, objects: Iterator[tuple[int, dict[str, object]]], every_field: bool) -> Table:
    head = list(itertools.islice(objects, NUM_HEAD))
    names = list(dict.fromkeys(name for _, item in head for name in item))
    known = set(names)

    def rows() -> Iterator[Row]:
        for number, item in itertools.chain(head, objects):
            new = next((name for name in item if name not in known), None) if every_field else None
            if new is not None:
                raise FirthError(
                    f"{source.name}:{number}: a field '{new}' that the first {NUM_HEAD:,} lines do not have; give every line the same fields"
                )
            yield number, [item.get(name) for name in names]

    return _peeked(source, names, rows())


def _peeked(source: Source, names: list[str] | None, rows: Iterator[Row]) -> Table:
    head = list(itertools.islice(rows, NUM_HEAD))
    return Table(source, names, head, itertools.chain(head, rows))


def _fields(source: Source, encoding: str, format: str) -> Iterator[Row]:
    """Tab-separated fields are taken literally, quotation marks included; fields of a csv may be quoted."""
    lines = numbered_lines(source, encoding)
    if format == "tsv":
        yield from ((number, line.split("\t")) for number, line in lines if line.strip(" \t"))
        return
    csv.field_size_limit(MAX_LINE_CHARS)
    head = [line + "\n" for _, line in itertools.islice(lines, NUM_SNIFFED)]
    rest = (line + "\n" for _, line in lines)
    reader = csv.reader(itertools.chain(head, rest), delimiter=find_delimiter(head), strict=True)
    start = 1
    try:
        for fields in reader:
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise FirthError(f"{source.name}:{start}: not valid csv ({error}); fix this line") from None


NUM_SNIFFED = 200  # lines by which the delimiter of a csv is found


def find_delimiter(lines: Sequence[str]) -> str:
    """Comma, semicolon or vertical bar: the one that cuts most of the first rows into equally many fields."""

    def rows_alike(delimiter: str) -> int:
        counts: Counter[int] = Counter()
        with contextlib.suppress(csv.Error):  # the last row may be cut
            counts.update(len(row) for row in csv.reader(lines, delimiter=delimiter, strict=True) if row)
        counts.pop(1, None)
        return max(counts.values(), default=0)

    return max(",;|", key=rows_alike)


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


# -- writing

OUTPUT_FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_TOGETHER = 1000  # rows of one parquet batch

WriteRow = Callable[[Sequence[object]], None]


def output_format(path: Path) -> str:
    """The format by the ending of the file's name."""
    if path.suffix.lower() not in OUTPUT_FORMATS:
        raise FirthError(f"{path}: the ending says the format: name it {', '.join(OUTPUT_FORMATS)}")
    return OUTPUT_FORMATS[path.suffix.lower()]


@contextlib.contextmanager
def table_writer(path: Path, names: Sequence[str]) -> Iterator[WriteRow]:
    """A function that writes one row of the table at ``path``; the file appears when the block ends."""
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise FirthError(f"{path}: there would be two columns '{twice}'; rename the column in the input")
    format = output_format(path)
    with atomic_file(path) as handle:
        if format == "parquet":
            with _parquet_writer(handle, names) as write:
                yield write
        else:
            yield _text_writer(handle, names, format)


def _text_writer(handle: BinaryIO, names: Sequence[str], format: str) -> WriteRow:
    """One line a row."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")

    def write(row: Sequence[object]) -> None:
        if format == "jsonl":
            buffer.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=str) + "\n")
        elif format == "csv":
            rows.writerow([_cell(value) for value in row])
        else:
            buffer.write("\t".join(_flat(_cell(value)) for value in row) + "\n")
        handle.write(buffer.getvalue().encode())
        buffer.seek(0)
        buffer.truncate()

    if format != "jsonl":
        write(names)
    return write


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _flat(cell: str) -> str:
    """tsv has no quotation: a tab or a line end inside a cell becomes a space."""
    return cell.replace("\t", " ").replace("\r", " ").replace("\n", " ")


@contextlib.contextmanager
def _parquet_writer(handle: BinaryIO, names: Sequence[str]) -> Iterator[WriteRow]:
    """The types of the columns are those of the first rows."""
    import pyarrow
    import pyarrow.parquet

    held: list[Sequence[object]] = []
    writer: pyarrow.parquet.ParquetWriter | None = None

    def flush() -> None:
        nonlocal writer
        if not held and writer is not None:
            return
        columns = list(zip(*held, strict=True)) if held else [() for _ in names]
        schema = None if writer is None else writer.schema
        batch = _batch(names, columns, schema)
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(handle, batch.schema)
        writer.write_table(batch)
        held.clear()

    def write(row: Sequence[object]) -> None:
        held.append(row)
        if len(held) == _TOGETHER:
            flush()

    try:
        yield write
        flush()
    finally:
        if writer is not None:
            writer.close()


def _batch(
    names: Sequence[str], columns: Sequence[Sequence[object]], schema: "pyarrow.Schema | None"
) -> "pyarrow.Table":
    import pyarrow

    try:
        return pyarrow.Table.from_pydict(
            {name: list(column) for name, column in zip(names, columns, strict=True)}, schema=schema
        )
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # a column that holds values of several types
        texts = {name: [_cell(value) for value in column] for name, column in zip(names, columns, strict=True)}
        if schema is not None:
            raise FirthError("a column changes its type on the way: write the result as .jsonl or .csv") from None
        return pyarrow.Table.from_pydict(texts)
