"""Tables: rows of csv, tsv, jsonl, json and parquet files, read as a stream; and written again with new columns.

What is written appears whole or not at all. csv and tsv keep their cells as they were read, jsonl its values, parquet the types of its columns.
"""

import contextlib
import csv
import io
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from firth.core.errors import FirthError
from firth.core.files import atomic_file
from firth.data.containers import arrow_batches
from firth.data.quotation import uses_quotation
from firth.data.sources import MAX_LINE_CHARS, TEXT_ONLY, Source, numbered_lines, seekable, text_blocks
from firth.tokenizers.words import whole_characters

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
    types: Mapping[str, "pyarrow.DataType"] = field(default_factory=dict)  # of the columns of a parquet file

    def where(self, line: int) -> str:
        return f"{self.source.name}:{line}"


def open_table(source: Source, encoding: str = "utf-8", every_field: bool = False, every_row: bool = False) -> Table:
    """Picks the format by the file name, or by the first line where the name does not tell. ``every_field``: an object
    with a field that the first ones do not have is an error; else that field is not read. ``every_row``: of a tsv also rows
    of empty cells."""
    if source.format in TEXT_ONLY:
        raise FirthError(
            f"{source.name}: a {source.format} has no columns; write the texts as csv, tsv, jsonl or parquet"
        )
    format = table_format(source, encoding)
    if format == "parquet":
        return _parquet(source)
    if format == "arrow":
        return _arrow(source)
    if format in ("json", "jsonl"):
        objects = json_list(source, encoding) if format == "json" else json_lines(source, encoding)
        return _of_objects(source, objects, every_field)
    empty = " " if every_field or every_row else " \t"
    if every_field and source.format == "txt":
        empty = ""
    return _peeked(source, None, _fields(source, encoding, format, empty))


def first_line(source: Source, encoding: str) -> str:
    """The first line that is not blank, or an empty string."""
    return next((line for _, line in numbered_lines(source, encoding) if line.strip()), "")


def table_format(source: Source, encoding: str) -> str:
    """tsv, csv, jsonl, json or parquet; a plain text file counts as a tsv of one column."""
    if source.format in ("parquet", "arrow", "jsonl", "tsv"):
        return source.format
    first = first_line(source, encoding).strip()
    if source.format == "csv":
        return "tsv" if first.count("\t") > max(1, first.count(",")) else "csv"
    if first.startswith("{"):
        return "jsonl" if _whole(first) else "json"
    return "json" if source.format == "json" else "tsv"


def _whole(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
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
    except (ValueError, RecursionError) as error:
        raise FirthError(f"{source.name}: not valid JSON ({error}); fix it or copy it again") from None


def json_values(source: Source, encoding: str) -> Iterator[tuple[int, object]]:
    """One JSON value per line; blank lines are skipped."""
    for number, line in numbered_lines(source, encoding):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
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


def _peeked(
    source: Source,
    names: list[str] | None,
    rows: Iterator[Row],
    types: "Mapping[str, pyarrow.DataType] | None" = None,
) -> Table:
    head = list(itertools.islice(rows, NUM_HEAD))
    return Table(source, names, head, itertools.chain(head, rows), types if types is not None else {})


def fields_of(source: Source, encoding: str) -> Iterator[Row]:
    """The rows of a csv or tsv, the header first; a tsv row of empty cells is one of them."""
    return _fields(source, encoding, table_format(source, encoding), empty=" ")


def _fields(source: Source, encoding: str, format: str, empty: str = " \t") -> Iterator[Row]:
    """Fields of a csv may be quoted. Tab-separated ones are taken literally, quotation marks included, unless the whole file
    uses them as quotation. Lines of these characters are passed over."""
    lines = numbered_lines(source, encoding)
    quoted = format == "tsv" and source.format != "txt" and uses_quotation(source, encoding)
    if format == "tsv" and not quoted:
        yield from ((number, line.split("\t")) for number, line in lines if not empty or line.strip(empty))
        return
    csv.field_size_limit(MAX_LINE_CHARS)
    head = [line + "\n" for _, line in itertools.islice(lines, NUM_SNIFFED)]
    rest = (line + "\n" for _, line in lines)
    reader = csv.reader(itertools.chain(head, rest), delimiter="\t" if quoted else find_delimiter(head), strict=True)
    start = 1
    try:
        for fields in reader:
            if fields and not (quoted and len(fields) == 1 and not fields[0].strip(" ")):
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise FirthError(f"{source.name}:{start}: not valid {format} ({error}); fix this line") from None


NUM_SNIFFED = 200  # lines by which the delimiter of a csv is found


def find_delimiter(lines: Sequence[str]) -> str:
    """Comma, semicolon or vertical bar: the first one that cuts the first row, and nearly all others alike."""

    def fits(delimiter: str) -> bool:
        sizes: list[int] = []
        with contextlib.suppress(csv.Error):  # a quotation that is cut at the end of these lines
            sizes.extend(len(row) for row in csv.reader(lines, delimiter=delimiter, strict=True) if row)
        return bool(sizes) and sizes[0] > 1 and sizes.count(sizes[0]) >= 0.9 * len(sizes)

    return next((delimiter for delimiter in ",;|" if fits(delimiter)), ",")


def delimiter_of(source: Source, encoding: str) -> str:
    """What parts the fields of a csv file; a comma for files of other kinds."""
    if source.format != "csv" or not source.path.is_file():
        return ","
    return find_delimiter([line + "\n" for _, line in itertools.islice(numbered_lines(source, encoding), NUM_SNIFFED)])


def _parquet(source: Source) -> Table:
    import pyarrow
    import pyarrow.parquet

    def batches() -> Iterator[Iterator[list[object]]]:
        try:
            with seekable(source) as handle:
                file = pyarrow.parquet.ParquetFile(handle, pre_buffer=False, buffer_size=1 << 20)
                names.extend(file.schema_arrow.names)
                types.update({one.name: one.type for one in file.schema_arrow})
                left = file.metadata.num_rows
                for batch in file.iter_batches(batch_size=256):
                    left -= batch.num_rows
                    if left < 0 or not batch.num_rows:  # a damaged one goes on without end
                        raise pyarrow.ArrowInvalid("other rows than its footer says")
                    yield map(list, zip(*(column.to_pylist() for column in batch.columns), strict=True))
        except (pyarrow.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FirthError(f"{source.name}: not a complete parquet file ({error}); copy it again") from None

    names: list[str] = []
    types: dict[str, pyarrow.DataType] = {}
    return _peeked(source, names, enumerate(itertools.chain.from_iterable(batches()), 1), types)


def _arrow(source: Source) -> Table:
    names: list[str] = []
    types: dict[str, pyarrow.DataType] = {}

    def rows() -> Iterator[list[object]]:
        for batch in arrow_batches(source):
            if not names:
                names.extend(batch.schema.names)
                types.update({one.name: one.type for one in batch.schema})
            yield from map(list, zip(*(column.to_pylist() for column in batch.columns), strict=True))

    return _peeked(source, names, enumerate(rows(), 1), types)


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
def table_writer(
    path: Path, names: Sequence[str], types: Mapping[str, "pyarrow.DataType"], delimiter: str = ","
) -> Iterator[WriteRow]:
    """A function that writes one row of the table at ``path``; the file appears when the block ends. ``types`` are those of
    columns that come from a parquet file, ``delimiter`` is that of a csv."""
    if not path.absolute().parent.is_dir():
        raise FirthError(f"{path.parent}: no such folder; make it first, or write somewhere else")
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise FirthError(f"{path}: there would be two columns '{twice}'; rename the column in the input")
    format = output_format(path)
    with atomic_file(path) as handle:
        if format == "parquet":
            with _parquet_writer(handle, names, types) as write:
                yield write
        else:
            yield _text_writer(handle, names, format, delimiter)


def _text_writer(handle: BinaryIO, names: Sequence[str], format: str, delimiter: str) -> WriteRow:
    """One line per row."""
    buffer = io.StringIO()
    rows = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")

    def write(row: Sequence[object]) -> None:
        if format == "jsonl":
            values = {name: _finite(value) for name, value in zip(names, row, strict=True)}
            buffer.write(whole_characters(json.dumps(values, ensure_ascii=False, default=str)) + "\n")
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


def _finite(value: object) -> object:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: object) -> str:
    """A value as text that reads back as the same value."""
    if value is None:
        return ""
    if isinstance(value, list | dict | bool):
        return whole_characters(json.dumps(value, ensure_ascii=False, default=str))
    return whole_characters(str(value))


def _flat(cell: str) -> str:
    """tsv has no quotation: a tab or a line end inside a cell becomes a space."""
    return cell.replace("\t", " ").replace("\r", " ").replace("\n", " ")


@contextlib.contextmanager
def _parquet_writer(
    handle: BinaryIO, names: Sequence[str], types: Mapping[str, "pyarrow.DataType"]
) -> Iterator[WriteRow]:
    """Types that are not given are those of the first rows."""
    import pyarrow
    import pyarrow.parquet

    held: list[Sequence[object]] = []
    known = dict(types)
    writer: pyarrow.parquet.ParquetWriter | None = None

    def flush() -> None:
        nonlocal writer
        if not held and writer is not None:
            return
        columns = list(zip(*held, strict=True)) if held else [() for _ in names]
        arrays = [_column(name, column, known.get(name)) for name, column in zip(names, columns, strict=True)]
        known.update(zip(names, (array.type for array in arrays), strict=True))
        batch = pyarrow.Table.from_arrays(arrays, list(names))
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


def _column(name: str, values: Sequence[object], wanted: "pyarrow.DataType | None") -> "pyarrow.Array":
    """The values of a column without loss: as ``wanted``, or by what they are; values of several types become text."""
    import pyarrow

    cells = [whole_characters(value) if isinstance(value, str) else value for value in values]
    errors = (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError)
    if wanted is None:
        try:
            found = pyarrow.array([_cell(value) if isinstance(value, dict) else value for value in cells])
        except errors:
            found = pyarrow.array([None if value is None else _cell(value) for value in cells], pyarrow.string())
        return found.cast(pyarrow.string()) if pyarrow.types.is_null(found.type) else found
    try:
        if pyarrow.types.is_string(wanted):
            return pyarrow.array([None if value is None else _cell(value) for value in cells], wanted)
        if pyarrow.types.is_integer(wanted):  # a fraction must not be cut off
            return pyarrow.array(cells).cast(wanted, safe=True)
        return pyarrow.array(cells, wanted)
    except errors:
        raise FirthError(
            f"the column '{name}' changes its type on the way ({wanted}): write the result as .jsonl or .csv"
        ) from None
