"""Readers: sources to documents, a stream, never the whole corpus in memory.

A text file has one of three layouts: ``file`` (one document), ``blank`` (a sentence a line,
blank lines between documents), ``line`` (a document a line).
"""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from firth.core.config import Config
from firth.core.errors import FirthError, nearest
from firth.text.sources import Source, open_source

MAX_LINE_BYTES = 16_000_000
MAX_DOCUMENT_CHARS = 1_000_000
_HEAD_LINES = 2000
_ENDS = tuple(".!?…。！？\"'”’」』)）:;：；")


class ReadingConfig(Config):
    """How files are read; ``auto`` looks at the first lines."""

    format: str = "auto"
    layout: str = "auto"
    column: str = "text"
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Document:
    """A text, and its sentences as (start, end) where the file says so itself."""

    text: str
    sentences: list[tuple[int, int]] | None = None


def _lines(source: Source, encoding: str, limit: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends; bad bytes and endless lines are named."""
    with open_source(source) as handle:
        numbered = (
            _utf8_lines(source, handle, limit) if encoding == "utf-8" else _other_lines(source, handle, encoding, limit)
        )
        for number, line in numbered:
            if "\0" in line:
                raise FirthError(
                    f"{source.name}:{number}: contains NUL bytes: it is UTF-16 or not text; convert it to UTF-8 or name its --encoding"
                )
            yield number, line


def _utf8_lines(source: Source, handle: BinaryIO, limit: int) -> Iterator[tuple[int, str]]:
    number = 0
    while raw := handle.readline(limit + 1):
        number += 1
        if len(raw) > limit:
            raise FirthError(
                f"{source.name}:{number}: a line of more than {limit // 1_000_000} MB; if it is one running text read it with --layout file, else break it into lines"
            )
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FirthError(
                f"{source.name}:{number}: not UTF-8 (byte {error.start + 1} of the line is 0x{raw[error.start]:02x}); convert it, or name its --encoding, for example gb18030 or latin-1"
            ) from None
        if number == 1:
            line = line.removeprefix("\ufeff")
        yield number, line.rstrip("\r\n")


def _other_lines(source: Source, handle: BinaryIO, encoding: str, limit: int) -> Iterator[tuple[int, str]]:
    try:
        text = io.TextIOWrapper(handle, encoding=encoding, newline=None)
    except LookupError:
        raise FirthError(
            f"unknown encoding '{encoding}': use a name that Python knows, such as utf-8, gb18030 or latin-1"
        ) from None
    number = 0
    while True:
        number += 1
        try:
            line = text.readline(limit)
        except UnicodeError as error:
            raise FirthError(f"{source.name}:{number}: not {encoding} ({error}); name the right --encoding") from None
        if not line:
            return
        yield number, line.removeprefix("\ufeff").rstrip("\n")


def _running_text(source: Source, encoding: str) -> Iterator[str]:
    """Decoded blocks of a file that may have no lines at all."""
    import codecs

    try:
        decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
    except LookupError:
        raise FirthError(
            f"unknown encoding '{encoding}': use a name that Python knows, such as utf-8, gb18030 or latin-1"
        ) from None
    line = 1
    with open_source(source) as handle:
        final = False
        while not final:
            raw = handle.read(1 << 20)
            final = not raw
            try:
                text = decoder.decode(raw, final)
            except UnicodeError:
                raise FirthError(
                    f"{source.name}:{line + raw.count(10)}: not {encoding} (near this line); convert it, or name its --encoding"
                ) from None
            if "\0" in text:
                raise FirthError(
                    f"{source.name}:{line + text[: text.index(chr(0))].count(chr(10))}: contains NUL bytes: it is UTF-16 or not text; convert it to UTF-8"
                )
            line += raw.count(10)
            if text:
                yield text


def _whole_file(source: Source, encoding: str) -> Iterator[Document]:
    """One document, cut at white space or a sentence's end where it is longer than the limit."""
    held = ""
    for block in _running_text(source, encoding):
        held += block
        while len(held) > MAX_DOCUMENT_CHARS:
            cut = max(held.rfind(mark, MAX_DOCUMENT_CHARS // 2, MAX_DOCUMENT_CHARS) for mark in "\n。！？")
            if cut < 0:
                cut = held.rfind(" ", MAX_DOCUMENT_CHARS // 2, MAX_DOCUMENT_CHARS)
            cut = cut + 1 if cut > 0 else MAX_DOCUMENT_CHARS
            yield Document(held[:cut])
            held = held[cut:]
    if held.strip():
        yield Document(held)


def _blank_separated(lines: Iterator[tuple[int, str]]) -> Iterator[Document]:
    sentences: list[str] = []
    size = 0
    for _, line in lines:
        line = line.strip()
        if line:
            sentences.append(line)
            size += len(line)
        if sentences and (not line or size > MAX_DOCUMENT_CHARS):
            yield _joined(sentences)
            sentences, size = [], 0
    if sentences:
        yield _joined(sentences)


def _joined(sentences: list[str]) -> Document:
    borders, start = [], 0
    for sentence in sentences:
        borders.append((start, start + len(sentence)))
        start += len(sentence) + 1
    return Document("\n".join(sentences), borders)


def detect_layout(source: Source, encoding: str, num_files: int) -> str:
    """Looks at the first lines. Many files: a document each. Blank lines between lines that end
    like sentences: ``blank``; lines that do not (wrapped prose, verse): one ``file``; no blank
    lines: a document a ``line`` unless the lines look wrapped."""
    if num_files >= 10:
        return "file"
    head = [line.strip() for _, line in islice(_lines(source, encoding), _HEAD_LINES)]
    while head and not head[-1]:
        head.pop()
    full = [line for line in head if line]
    if not full:
        return "line"
    ended = sum(line.endswith(_ENDS) for line in full) / len(full)
    if "" in head:
        return "blank" if ended >= 0.7 else "file"
    lengths = sorted(len(line) for line in full)
    wrapped = len(full) >= 5 and ended < 0.5 and lengths[-1] <= 120 and lengths[len(lengths) // 2] >= 0.7 * lengths[-1]
    return "file" if wrapped else "line"


def _txt(source: Source, config: ReadingConfig, layout: str) -> Iterator[Document]:
    if layout == "file":
        yield from _whole_file(source, config.encoding)
    elif layout == "blank":
        yield from _blank_separated(_lines(source, config.encoding))
    else:
        for _, line in _lines(source, config.encoding):
            if line.strip():
                yield Document(line)


def _jsonl(source: Source, config: ReadingConfig) -> Iterator[Document]:
    for number, line in _lines(source, config.encoding):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise FirthError(f"{source.name}:{number}: not valid JSON ({error}); mend or remove this line") from None
        if isinstance(value, dict):
            value = _field(source, number, value, config.column)
        if not isinstance(value, str):
            raise FirthError(
                f"{source.name}:{number}: '{config.column}' is not text but {type(value).__name__}; mend this line or choose another --column"
            )
        if value.strip():
            yield Document(value)


def _field(source: Source, number: int, row: dict[str, Any], column: str) -> Any:
    if column not in row:
        raise FirthError(
            f"{source.name}:{number}: no column '{column}': {nearest(column, list(row))}; choose with --column"
        )
    return row[column]


def _table(source: Source, config: ReadingConfig) -> Iterator[Document]:
    csv.field_size_limit(MAX_LINE_BYTES)
    lines = (line + "\n" for _, line in _lines(source, config.encoding))
    plain = source.format == "tsv"
    rows = csv.reader(
        lines,
        delimiter="\t" if plain else ",",
        quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL,
        strict=not plain,
    )
    try:
        header = next(rows, [])
        if config.column not in header:
            raise FirthError(
                f"{source.name}:1: no column '{config.column}': {nearest(config.column, header)}; choose with --column"
            )
        place = header.index(config.column)
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise FirthError(
                    f"{source.name}:{rows.line_num}: {len(row)} fields where the header has {len(header)}; mend this line"
                )
            if row[place].strip():
                yield Document(row[place])
    except csv.Error as error:
        raise FirthError(
            f"{source.name}:{rows.line_num}: not valid {source.format} ({error}); mend this line"
        ) from None


def _parquet(source: Source, config: ReadingConfig) -> Iterator[Document]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(source.path)
        names = file.schema_arrow.names
        if config.column not in names:
            raise FirthError(
                f"{source.name}: no column '{config.column}': {nearest(config.column, names)}; choose with --column"
            )
        for batch in file.iter_batches(batch_size=1024, columns=[config.column]):
            for value in batch.column(0).to_pylist():
                if value is not None and not isinstance(value, str):
                    raise FirthError(
                        f"{source.name}: column '{config.column}' is not text but {type(value).__name__}; choose another --column"
                    )
                if value and value.strip():
                    yield Document(value)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise FirthError(f"{source.name}: not a whole parquet file ({error}); copy it again") from None


def read_documents(sources: list[Source], config: ReadingConfig) -> Iterator[Document]:
    """Every document of every source, in order."""
    if config.layout not in ("auto", "file", "blank", "line"):
        raise FirthError(f"unknown layout '{config.layout}': choose file, blank or line")
    num_texts = sum(source.format == "txt" for source in sources)
    for source in sources:
        if source.format == "txt":
            layout = config.layout if config.layout != "auto" else detect_layout(source, config.encoding, num_texts)
            yield from _txt(source, config, layout)
        else:
            yield from {"jsonl": _jsonl, "csv": _table, "tsv": _table, "parquet": _parquet}[source.format](
                source, config
            )
