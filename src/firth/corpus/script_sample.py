"""Text from all over the input, by which its scripts are known: some of every file, and of a large file blocks over its
whole length, so that neither the order of the files nor what stands first decides."""

import json
from collections.abc import Iterable, Iterator

from firth.data.readers import ReadingConfig, read_source
from firth.data.sources import Source

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
