"""Reads text files, json, jsonl, csv, tsv, parquet, arrow, docx, pdf and tar as a stream of documents, or as single texts (``read_texts``);
and a sample from all over the input (``script_sample``)."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from firth.core.config import Config
from firth.core.errors import FirthError, closest, counted, nearest
from firth.data.containers import arrow_batches, read_docx, read_pdf, read_tar
from firth.data.labelled import SINGLES
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


class Place(NamedTuple):
    """Where a document stands in its file: ``:12`` is a line, ``#12`` a row or document, counted from 1 with the empty ones;
    ``#12-2`` the second part of a long one."""

    mark: str
    number: int
    part: int = 1

    def __str__(self) -> str:
        return f"{self.mark}{self.number}{f'-{self.part}' if self.part > 1 else ''}"


Found: TypeAlias = Iterator[tuple[int, Document]]
"""Documents with the numbers of their lines, rows or records; those of empty rows are empty."""

_NOT_ALONE = "sentence1 text_a premise question title 问题 标题".split()  # they stand beside texts
MAX_DOCUMENT_CHARS = 1_000_000
_HEAD_LINES = 2000
_MANY_FILES = 10  # each is one document
_FULL_LINE = 20  # characters of text without spaces; shorter ones are titles
_FEW_SPACES = 0.05  # of the characters: Chinese and Japanese, not Korean
_ENDS = (*".!?…\"'”’»」』)）:;：；", *ENDS)


TEXT = "text"
"""The name of the column of texts; where a file has none of this name, one of another usual name is read."""


class ReadingConfig(Config):
    """How files are read; ``auto`` inspects the first lines."""

    format: str = "auto"
    layout: str = "auto"
    column: str = TEXT
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


def _txt(source: Source, config: ReadingConfig, layout: str) -> Found:
    if layout == "file":
        yield from ((1, part) for part in _bounded(text_blocks(source, config.encoding)))
    elif layout == "blank":
        yield from enumerate(_blank_separated(numbered_lines(source, config.encoding)), 1)
    else:
        yield from ((number, Document(line)) for number, line in numbered_lines(source, config.encoding))


def _jsonl(source: Source, config: ReadingConfig, fields: bool) -> Found:
    for number, value in json_values(source, config.encoding):
        others: Fields | None = None
        if isinstance(value, dict):
            column = column_of(config.column, list(value), f"{source.name}:{number}")
            others = _without(value, column) if fields else None
            value = "" if value[column] is None else value[column]
        if not isinstance(value, str):
            raise FirthError(
                f"{source.name}:{number}: '{config.column}' is not a string but {type(value).__name__}; fix this line or choose another --column"
            )
        yield number, Document(whole_characters(value), fields=others)


def _json(source: Source, config: ReadingConfig, fields: bool) -> Found:
    """A list of records; or what was named .json and has one in each line."""
    if table_format(source, config.encoding) == "jsonl":
        yield from _jsonl(source, config, fields)
        return
    for number, row in json_list(source, config.encoding):
        column = column_of(config.column, list(row), f"{source.name}:{number}")
        value = row[column]
        if value is not None and not isinstance(value, str):
            raise FirthError(
                f"{source.name}: '{config.column}' of record {number:,} is not a string but {type(value).__name__}; fix it or choose another --column"
            )
        yield number, Document(whole_characters(value or ""), fields=_without(row, column) if fields else None)


def _without(row: Fields, column: str) -> Fields:
    return {name: value for name, value in row.items() if name != column}


def column_of(wanted: str, names: Sequence[str], where: str) -> str:
    """The column of the text; where none is named like ``text``, one of another usual name."""
    if wanted in names:
        return wanted
    usual = {name.strip().lower(): name for name in names} if wanted == TEXT else {}
    usual = usual if TEXT in usual or not closest(wanted, names) else {}
    found = next((usual[name] for name in SINGLES if name in usual and name not in _NOT_ALONE), None)
    if found is None:
        raise FirthError(f"{where}: no column '{wanted}': {nearest(wanted, list(names))}; choose with --column")
    return found


def _table(source: Source, config: ReadingConfig, fields: bool) -> Found:
    rows = fields_of(source, config.encoding)
    header = [str(name) for name in next(rows, (1, []))[1]]
    column = column_of(config.column, header, f"{source.name}:1")
    place = header.index(column)
    for number, (line, row) in enumerate(rows, 1):
        if len(row) != len(header):
            raise FirthError(
                f"{source.name}:{line}: {counted(len(row), 'field')} where the header has {len(header)}; fix this line"
            )
        others = _without(dict(zip(header, row, strict=True)), column) if fields else None
        yield number, Document(str(row[place]), fields=others)


def _parquet(source: Source, config: ReadingConfig, fields: bool) -> Found:
    import pyarrow
    import pyarrow.parquet

    try:
        with seekable(source) as handle:
            # No read-ahead and small batches: a row group of long texts may exceed memory.
            file = pyarrow.parquet.ParquetFile(handle, pre_buffer=False, buffer_size=1 << 20)
            names = file.schema_arrow.names
            column = column_of(config.column, names, source.name)
            read = 0
            for batch in file.iter_batches(batch_size=64, columns=names if fields else [column]):
                before, read = read, read + batch.num_rows
                source.meter.share = read / max(file.metadata.num_rows, 1)
                yield from _of_rows(source, column, batch.to_pylist(), fields, before)
    except UnicodeDecodeError:
        raise FirthError(f"{source.name}: column '{config.column}' is not UTF-8 text; write the file again") from None
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise FirthError(f"{source.name}: not a complete parquet file ({error}); copy it again") from None


def _of_rows(source: Source, column: str, rows: Iterable[dict[str, object]], fields: bool, before: int) -> Found:
    for number, row in enumerate(rows, before + 1):
        value = row[column]
        if value is not None and not isinstance(value, str):
            raise FirthError(
                f"{source.name}: column '{column}' is not a string but {type(value).__name__}; choose another --column"
            )
        yield number, Document(value or "", fields=_without(row, column) if fields else None)


def _arrow(source: Source, config: ReadingConfig, fields: bool) -> Found:
    def choose(names: Sequence[str]) -> str:
        return column_of(config.column, names, source.name)

    before = 0
    try:
        for batch in arrow_batches(source, choose, fields):
            yield from _of_rows(source, choose(batch.schema.names), batch.to_pylist(), fields, before)
            before += batch.num_rows
    except UnicodeDecodeError:
        raise FirthError(f"{source.name}: column '{config.column}' is not UTF-8 text; write the file again") from None


def _docx(source: Source, config: ReadingConfig, fields: bool) -> Found:
    yield 1, Document(whole_characters(read_docx(source)))


def _pdf(source: Source, config: ReadingConfig, fields: bool) -> Found:
    yield from ((1, part) for part in _bounded(f"{whole_characters(page)}\n" for page in read_pdf(source)))


def _tar(source: Source, config: ReadingConfig, fields: bool) -> Found:
    for number, text in enumerate(read_tar(source, config.column, config.encoding), 1):
        yield number, Document(whole_characters(text))


_READERS: dict[str, Callable[[Source, ReadingConfig, bool], Found]] = {
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


def read_documents(
    sources: list[Source], config: ReadingConfig, remedy: str = "choose with --column"
) -> Iterator[Document]:
    """Every document of every source, in order. ``remedy``: what to do where a file has not the column."""
    num_texts = sum(source.format == "txt" for source in sources)
    try:
        for source in sources:
            yield from read_source(source, config, num_texts)
    except FirthError as error:
        said = str(error).replace("choose with --column", remedy)
        if said == str(error):
            raise
        raise FirthError(said) from None


def read_source(source: Source, config: ReadingConfig, num_texts: int) -> Iterator[Document]:
    """The documents of one source, which is one of so many text files."""
    return (document for _, document in read_places(source, config, num_texts))


def read_places(
    source: Source, config: ReadingConfig, num_texts: int, fields: bool = False, every_row: bool = False
) -> Iterator[tuple[Place, Document]]:
    """The documents of one source and where they stand; with the other ``fields`` of their rows. Empty ones are left out
    and long ones cut, unless ``every_row`` is to have its answer."""
    if config.layout not in ("auto", "file", "blank", "line"):
        raise FirthError(f"unknown layout '{config.layout}': choose file, blank or line")
    mark, layout = "#", config.layout
    if source.format == "txt":
        layout = layout if layout != "auto" else detect_layout(source, config.encoding, num_texts)
        mark, found = "#" if layout == "blank" else ":", _txt(source, config, layout)
    else:
        if source.format == "jsonl" or (source.format == "json" and table_format(source, config.encoding) == "jsonl"):
            mark = ":"
        found = _READERS[source.format](source, config, fields)
    last = part = 0
    for number, document in found:
        if every_row or document.text.strip():
            long = len(document.text) > MAX_DOCUMENT_CHARS and document.sentences is None and not every_row
            for piece in _bounded(iter([document.text]), document.fields) if long else (document,):
                last, part = number, part + 1 if number == last else 1
                yield Place(mark, number, part), piece


def read_texts(path: str, column: str = TEXT, encoding: str = "utf-8") -> Iterator[str]:
    """Every line of a text file and every row of a table or jsonl, also the empty ones, so that results stay beside them."""
    for source in find_sources([path]):
        if source.format == "txt":
            yield from (line for _, line in numbered_lines(source, encoding))
        else:
            reading = ReadingConfig(column=column, encoding=encoding)
            yield from (document.text for _, document in read_places(source, reading, 0, every_row=True))


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
