"""Reads text files, json, jsonl, csv, tsv, parquet, arrow, docx, pdf and tar as a stream of documents, or as single texts (``read_texts``);
and a sample from all over the input (``script_sample``)."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from firth.core.config import Config
from firth.core.errors import FirthError, counted, nearest
from firth.data.containers import arrow_batches, read_docx, read_pdf, read_tar
from firth.data.sources import Source, find_sources, numbered_lines, seekable, text_blocks
from firth.data.tables import fields_of, json_list, json_values, table_format
from firth.tokenizers.segmentation import MAX_WORD_CHARS, MAX_WORDS
from firth.tokenizers.sentences import ENDS
from firth.tokenizers.words import whole_characters

Fields: TypeAlias = Mapping[str, object]
"""The other columns of a document's row, by name."""


class Document(NamedTuple):
    """A text, and its sentences as (start, end) where the file's layout gives them."""

    text: str
    sentences: list[tuple[int, int]] | None = None
    fields: Fields | None = None  # where they were asked for


MAX_DOCUMENT_CHARS = 1_000_000
_HEAD_LINES = 2000
_MANY_FILES = 10  # each is one document
_FULL_LINE = 20  # characters of text without spaces; shorter ones are titles
_FEW_SPACES = 0.05  # of the characters: Chinese and Japanese, not Korean
_ENDS = (*".!?…\"'”’»」』)）:;：；", *ENDS)


class ReadingConfig(Config):
    """How files are read; ``auto`` inspects the first lines."""

    format: str = "auto"
    layout: str = "auto"
    column: str = "text"
    encoding: str = "utf-8"


def _bounded(blocks: Iterator[str], fields: Fields | None = None) -> Iterator[Document]:
    """One document, split at a line break, sentence end or space where it exceeds the limit."""
    held = ""
    for block in blocks:
        held += block
        while len(held) > MAX_DOCUMENT_CHARS:
            cut = max(held.rfind(mark, MAX_DOCUMENT_CHARS // 2, MAX_DOCUMENT_CHARS) for mark in "\n。！？")
            if cut < 0:
                cut = held.rfind(" ", MAX_DOCUMENT_CHARS // 2, MAX_DOCUMENT_CHARS)
            cut = cut + 1 if cut > 0 else MAX_DOCUMENT_CHARS
            if not held[:cut].isspace():
                yield Document(held[:cut], fields=fields)
            held = held[cut:]
    if held.strip():
        yield Document(held, fields=fields)


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
    """Guesses the layout from the first lines. Ten files or more: one document per ``file``. Blank lines between
    lines that end like sentences: ``blank``; between other lines (wrapped prose, verse): ``file``. No blank
    lines: one document per ``line``, unless the lines look wrapped (about as long as each other)."""
    if num_files >= _MANY_FILES:
        return "file"
    block = next(text_blocks(source, encoding), "")
    head = [line.strip() for line in block.split("\n", _HEAD_LINES)[:_HEAD_LINES]]
    if len(head) == 1 and len(block) >= MAX_DOCUMENT_CHARS:
        return "file"
    while head and not head[-1]:
        head.pop()
    full = [line for line in head if line]
    if not full:
        return "line"
    ended = sum(line.endswith(_ENDS) for line in full) / len(full)
    if "" in head:
        return "blank" if ended >= 0.7 else "file"
    lengths = sorted(len(line) for line in full)
    if len(full) < 5 or ended >= 0.5 or lengths[-1] > 120:
        return "line"
    # without spaces a line is broken at any character, so that only lines that end a paragraph are shorter
    unspaced = sum(line.count(" ") for line in full) < _FEW_SPACES * sum(lengths)
    place, least = (
        (3 * len(full) // 10, max(lengths[-1] - 1, _FULL_LINE)) if unspaced else (len(full) // 2, 0.7 * lengths[-1])
    )
    return "file" if lengths[place] >= least else "line"


def find_layouts(sources: list[Source], config: ReadingConfig) -> dict[str, int]:
    """How the text files are cut into documents, and how many of them so."""
    texts = [source for source in sources if source.format == "txt"]
    if config.layout != "auto" or len(texts) >= _MANY_FILES:
        return {config.layout if config.layout != "auto" else "file": len(texts)} if texts else {}
    return dict(Counter(detect_layout(source, config.encoding, len(texts)) for source in texts))


def _txt(source: Source, config: ReadingConfig, layout: str) -> Iterator[Document]:
    if layout == "file":
        yield from _bounded(text_blocks(source, config.encoding))
    elif layout == "blank":
        yield from _blank_separated(numbered_lines(source, config.encoding))
    else:
        for _, line in numbered_lines(source, config.encoding):
            if line.strip():
                yield Document(line)


def _jsonl(source: Source, config: ReadingConfig, fields: bool) -> Iterator[Document]:
    for number, value in json_values(source, config.encoding):
        others: Fields | None = None
        if isinstance(value, dict):
            others = _without(value, config.column) if fields else None
            value = _field(source, number, value, config.column)
        if not isinstance(value, str):
            raise FirthError(
                f"{source.name}:{number}: '{config.column}' is not a string but {type(value).__name__}; fix this line or choose another --column"
            )
        if value.strip():
            yield Document(whole_characters(value), fields=others)


def _json(source: Source, config: ReadingConfig, fields: bool) -> Iterator[Document]:
    """A list of records; or what was named .json and has one in each line."""
    if table_format(source, config.encoding) == "jsonl":
        yield from _jsonl(source, config, fields)
        return
    for number, row in json_list(source, config.encoding):
        value = _field(source, number, row, config.column)
        if value is not None and not isinstance(value, str):
            raise FirthError(
                f"{source.name}: '{config.column}' of record {number:,} is not a string but {type(value).__name__}; fix it or choose another --column"
            )
        if value and value.strip():
            yield Document(whole_characters(value), fields=_without(row, config.column) if fields else None)


def _without(row: Fields, column: str) -> Fields:
    return {name: value for name, value in row.items() if name != column}


def _field(source: Source, number: int, row: dict[str, object], column: str) -> object:
    if column not in row:
        raise FirthError(
            f"{source.name}:{number}: no column '{column}': {nearest(column, list(row))}; choose with --column"
        )
    return row[column]


def _table(source: Source, config: ReadingConfig, fields: bool) -> Iterator[Document]:
    rows = fields_of(source, config.encoding)
    header = [str(name) for name in next(rows, (1, []))[1]]
    if config.column not in header:
        raise FirthError(
            f"{source.name}:1: no column '{config.column}': {nearest(config.column, header)}; choose with --column"
        )
    place = header.index(config.column)
    for line, row in rows:
        if len(row) != len(header):
            raise FirthError(
                f"{source.name}:{line}: {counted(len(row), 'field')} where the header has {len(header)}; fix this line"
            )
        text = str(row[place])
        if text.strip():
            others = _without(dict(zip(header, row, strict=True)), config.column) if fields else None
            yield Document(text, fields=others)


def _parquet(source: Source, config: ReadingConfig, fields: bool) -> Iterator[Document]:
    import pyarrow
    import pyarrow.parquet

    try:
        with seekable(source) as handle:
            # No read-ahead and small batches: a row group of long texts may exceed memory.
            file = pyarrow.parquet.ParquetFile(handle, pre_buffer=False, buffer_size=1 << 20)
            names = file.schema_arrow.names
            if config.column not in names:
                raise FirthError(
                    f"{source.name}: no column '{config.column}': {nearest(config.column, names)}; choose with --column"
                )
            read = 0
            for batch in file.iter_batches(batch_size=64, columns=names if fields else [config.column]):
                read += batch.num_rows
                source.meter.share = read / max(file.metadata.num_rows, 1)
                yield from _of_rows(source, config.column, batch.to_pylist(), fields)
    except UnicodeDecodeError:
        raise FirthError(f"{source.name}: column '{config.column}' is not UTF-8 text; write the file again") from None
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise FirthError(f"{source.name}: not a complete parquet file ({error}); copy it again") from None


def _of_rows(source: Source, column: str, rows: Iterable[dict[str, object]], fields: bool) -> Iterator[Document]:
    for row in rows:
        value = row[column]
        if value is not None and not isinstance(value, str):
            raise FirthError(
                f"{source.name}: column '{column}' is not a string but {type(value).__name__}; choose another --column"
            )
        if value and value.strip():
            yield Document(value, fields=_without(row, column) if fields else None)


def _arrow(source: Source, config: ReadingConfig, fields: bool) -> Iterator[Document]:
    try:
        for batch in arrow_batches(source, config.column, fields):
            yield from _of_rows(source, config.column, batch.to_pylist(), fields)
    except UnicodeDecodeError:
        raise FirthError(f"{source.name}: column '{config.column}' is not UTF-8 text; write the file again") from None


def _docx(source: Source, config: ReadingConfig, fields: bool) -> Iterator[Document]:
    text = whole_characters(read_docx(source))
    if text.strip():
        yield Document(text)


def _pdf(source: Source, config: ReadingConfig, fields: bool) -> Iterator[Document]:
    yield from _bounded(f"{whole_characters(page)}\n" for page in read_pdf(source))


def _tar(source: Source, config: ReadingConfig, fields: bool) -> Iterator[Document]:
    for text in read_tar(source, config.column, config.encoding):
        if text.strip():
            yield Document(whole_characters(text))


_READERS: dict[str, Callable[[Source, ReadingConfig, bool], Iterator[Document]]] = {
    "json": _json,
    "jsonl": _jsonl,
    "csv": _table,
    "tsv": _table,
    "parquet": _parquet,
    "arrow": _arrow,
    "docx": _docx,
    "pdf": _pdf,
    "tar": _tar,
}


def read_documents(sources: list[Source], config: ReadingConfig) -> Iterator[Document]:
    """Every document of every source, in order."""
    num_texts = sum(source.format == "txt" for source in sources)
    for source in sources:
        yield from read_source(source, config, num_texts)


def read_source(source: Source, config: ReadingConfig, num_texts: int, fields: bool = False) -> Iterator[Document]:
    """The documents of one source, which is one of so many text files; with the other ``fields`` of their rows."""
    if config.layout not in ("auto", "file", "blank", "line"):
        raise FirthError(f"unknown layout '{config.layout}': choose file, blank or line")
    if source.format == "txt":
        layout = config.layout if config.layout != "auto" else detect_layout(source, config.encoding, num_texts)
        found = _txt(source, config, layout)
    else:
        found = _READERS[source.format](source, config, fields)
    for document in found:
        if len(document.text) > MAX_DOCUMENT_CHARS and document.sentences is None:
            yield from _bounded(iter([document.text]), document.fields)
        else:
            yield document


def read_texts(path: str, column: str = "text", encoding: str = "utf-8") -> Iterator[str]:
    """Every line of a text file, also an empty one, so that results stay beside their lines; of a table or jsonl, the
    rows of the column that hold something."""
    for source in find_sources([path]):
        if source.format == "txt":
            yield from (line for _, line in numbered_lines(source, encoding))
        else:
            reading = ReadingConfig(column=column, encoding=encoding)
            yield from (document.text for document in read_documents([source], reading))


def read_dictionary(path: Path) -> list[str]:
    """A word a line; what follows white space (jieba's counts and tags) is left out, as are lines that begin with #."""
    if path.is_dir():
        raise FirthError(f"{path}: a folder, not a dictionary; name the file with one word a line")
    words: list[str] = []
    for number, line in numbered_lines(find_sources([str(path)], "txt")[0], "utf-8"):
        word = line.split()[0] if line.split() else ""
        if not word or word.startswith("#"):
            continue
        if len(word) > MAX_WORD_CHARS:
            raise FirthError(
                f"{path}:{number}: a word of more than {MAX_WORD_CHARS} characters; a dictionary has one word a line"
            )
        if len(word) > 1:
            words.append(word)
        if len(words) > MAX_WORDS:
            raise FirthError(f"{path}: more than {MAX_WORDS:,} words; keep those that the text has")
    if not words:
        raise FirthError(f"{path}: no words of two or more characters in it; write one word a line")
    return words


# -- text from all over the input, by which its scripts are known: some of every file, and of a large file blocks over its
# whole length, so that neither the order of the files nor what stands first decides

CASE_KEPT = (
    "capital letters are kept: the text has ı and İ (Turkish, Azeri), and lower case, which makes i of I, would make other words "
    "of its words (IŞIK → işik); write it in small letters before, if one form of each word is wanted"
)
_DOTLESS_SHARE = 0.001  # of the characters; they are 5 % of Turkish
_CHARS = 100_000  # about so many in all
_LEAST = 2_000  # of a small file
_MOST_FILES = 50
_BLOCKS = 16  # of a large file
_PASSED = 20  # times as many characters are read as are taken, where a file can only be read from its beginning
_OF_A_DOCUMENT = 1_000
_SEEKABLE = ("txt", "jsonl", "csv", "tsv")


def has_dotless_i(sample: Iterable[str]) -> bool:
    """Whether some of the text is of a language with ı and i."""
    text = "".join(sample)
    return text.count("ı") + text.count("İ") >= max(_DOTLESS_SHARE * len(text), 1)


def script_sample(sources: list[Source], reading: ReadingConfig) -> Iterator[str]:
    """Parts of documents."""
    num_texts = sum(source.format == "txt" for source in sources)
    step = max(1, len(sources) // _MOST_FILES)
    chosen = sources[::step]
    total = sum(source.size for source in chosen)
    for source in chosen:
        room = max(_LEAST, _CHARS * source.size // max(total, 1))
        blocks = _blocks(source, reading, room)
        yield from _from_the_beginning(source, reading, num_texts, room) if blocks is None else blocks


def _from_the_beginning(source: Source, reading: ReadingConfig, num_texts: int, room: int) -> Iterator[str]:
    """The first documents, then some from time to time, until enough is taken or read."""
    taken = passed = 0
    small = not source.packing and source.size <= 4 * room
    for document in read_source(source, reading, num_texts):
        passed += len(document.text)
        if (taken - room // 2) * 2 * _PASSED <= passed:
            part = document.text[: room if small else max(_OF_A_DOCUMENT, room // _BLOCKS)]
            yield part
            taken += len(part)
        if taken >= room or passed >= _PASSED * room:
            return


def _blocks(source: Source, reading: ReadingConfig, room: int) -> list[str] | None:
    """Whole lines from equally distant places of a large file; None where it must be read in order."""
    encoding = reading.encoding.lower().replace("_", "-")
    if source.packing or source.format not in _SEEKABLE or source.size <= 4 * room or encoding.startswith("utf-16"):
        return None
    size = room // _BLOCKS * 2  # bytes; some lines are cut off
    parts: list[str] = []
    with open(source.path, "rb") as handle:
        head = handle.read(4)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:  # two or four bytes a character
            return None
        for number in range(_BLOCKS):
            handle.seek(source.size * number // _BLOCKS)
            raw = handle.read(size)
            first = raw.find(b"\n") + 1 if number else 0
            last = raw.rfind(b"\n")
            raw = raw[first : last if last > first else None]
            try:
                text = raw.decode(encoding, "ignore")
            except LookupError:  # no such encoding: the reader says so
                return None
            parts += _values(text, reading.column) if source.format == "jsonl" else [text]
    return parts if any(parts) else None


def _values(lines: str, column: str) -> list[str]:
    """The texts of whole lines of JSON."""
    found = []
    for line in lines.split("\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        value = value.get(column) if isinstance(value, dict) else value
        if isinstance(value, str):
            found.append(value)
    return found
