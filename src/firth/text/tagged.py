"""Words with tags: columns (CoNLL 2003, BMES), CoNLL-U, ``word/tag`` lines and jsonl, to examples.

Each word keeps its place in a text: the one the file gives, or one put together from the words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from firth.core.errors import FirthError, nearest
from firth.core.examples import TagExample
from firth.text.characters import is_han, whole_characters
from firth.text.conllu import conllu_examples
from firth.text.lines import numbered_lines
from firth.text.sources import Source, find_sources
from firth.text.tables import json_lines

LAYOUTS = ("auto", "columns", "conllu", "slashes", "jsonl")
_WORDS = ("words", "tokens")
_TAGS = ("tags", "ner_tags", "pos_tags", "labels", "ner", "upos")
_SLASHED = re.compile(r"\[?([^\s]+)/([^\s/\]]+)(?:\][^\s\]/]*)?")
_CJK_MARKS = re.compile("[\u3000-\u303f\uff00-\uff65，。！？；：“”‘’（）《》、…—·]")
_HEAD_LINES = 200


@dataclass(frozen=True)
class TagColumns:
    """Numbers from 1 of the columns (from the end if negative); CoNLL-U: the name upos or xpos; jsonl: the fields."""

    word: int | str = 1
    tag: int | str = -1


def read_tagged(
    path: str, columns: TagColumns | None = None, layout: str = "auto", encoding: str = "utf-8"
) -> list[TagExample]:
    """All sentences of a file (or folder, or glob)."""
    return list(stream_tagged(path, columns, layout, encoding))


def stream_tagged(
    path: str, columns: TagColumns | None = None, layout: str = "auto", encoding: str = "utf-8"
) -> Iterator[TagExample]:
    """One sentence after the other; without tags where the file has words only."""
    if layout not in LAYOUTS:
        raise FirthError(f"unknown layout of tags '{layout}': choose {', '.join(LAYOUTS)}")
    columns = columns or TagColumns()
    for source in find_sources([path]):
        lines = numbered_lines(source, encoding)
        head = list(islice(lines, _HEAD_LINES))
        lines = chain(head, lines)
        found = layout if layout != "auto" else tag_layout(source, [line for _, line in head])
        if found == "conllu":
            yield from conllu_examples(source.name, lines, "upos" if columns.tag == -1 else str(columns.tag))
        elif found == "jsonl":
            yield from _jsonl(source, encoding, columns)
        elif found == "slashes":
            yield from _slashes(source.name, lines)
        else:
            yield from _columns(source.name, lines, columns)


def tag_layout(source: Source, head: list[str]) -> str:
    """By the first lines: objects, ten columns that begin with a number, ``word/tag`` words, else columns."""
    full = [line for line in head if line.strip(" \t") and not line.startswith("# ")]
    if source.format == "jsonl" or (full and full[0].lstrip().startswith("{")):
        return "jsonl"
    if full and all(len(line.split("\t")) == 10 and line[0].isdecimal() for line in full):
        return "conllu"
    words = [word for line in full for word in line.split()]
    slashed = sum(_SLASHED.fullmatch(word) is not None for word in words)
    return "slashes" if words and slashed > 0.9 * len(words) else "columns"


def example_of(words: list[str], tags: list[str] | None, where: str) -> TagExample:
    """An example whose text is put together: a space between words, but not beside Chinese, and none at all
    where Chinese is given character by character (so the digits of a year stay together)."""
    text, offsets = "", []
    by_characters = all(len(word) == 1 for word in words) and any(map(_closed, words))
    for word in words:
        if text and word and not by_characters and not _closed(text[-1]) and not _closed(word[0]):
            text += " "
        offsets.append((len(text), len(text) + len(word)))
        text += word
    return TagExample(words, tags, where, text, offsets)


def _closed(char: str) -> bool:
    return is_han(char) or _CJK_MARKS.match(char) is not None


def _columns(name: str, lines: Iterator[tuple[int, str]], columns: TagColumns) -> Iterator[TagExample]:
    word_place, tag_place = _place(name, columns.word), _place(name, columns.tag)
    words: list[str] = []
    tags: list[str] = []
    width = start = 0
    for number, line in lines:
        fields = line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]
        if not line.strip(" \t") or fields[0] == "-DOCSTART-":
            if words:
                yield example_of(words, tags if width > 1 else None, f"{name}:{start}")
            words, tags = [], []
            continue
        width = width or len(fields)
        if len(fields) != width:
            raise FirthError(
                f"{name}:{number}: {len(fields)} columns where the first word has {width}: words and tags do not pair; mend this line"
            )
        if max(max(place, -1 - place) for place in (word_place, tag_place)) >= width:
            raise FirthError(f"{name}:{number}: no such column: there are {width}; choose them by number, from 1")
        start = start if words else number
        words.append(fields[word_place])
        tags.append(fields[tag_place])
    if words:
        yield example_of(words, tags if width > 1 else None, f"{name}:{start}")


def _place(name: str, column: int | str) -> int:
    if isinstance(column, str):
        raise FirthError(
            f"{name}: a name of a column, '{column}', is for CoNLL-U and jsonl; this file has columns by number, from 1"
        )
    if column == 0:
        raise FirthError("columns are counted from 1 (from the end: -1); there is no column 0")
    return column - 1 if column > 0 else column


def _slashes(name: str, lines: Iterator[tuple[int, str]]) -> Iterator[TagExample]:
    """Words with their tags behind a slash; the brackets of People's Daily around compounds are left out."""
    for number, line in lines:
        pairs = []
        for word in line.split():
            match = _SLASHED.fullmatch(word)
            if match is None:
                raise FirthError(f"{name}:{number}: '{word}' has no tag behind a slash; write word/tag")
            pairs.append((match[1], match[2]))
        if pairs:
            yield example_of([word for word, _ in pairs], [tag for _, tag in pairs], f"{name}:{number}")


def _jsonl(source: Source, encoding: str, columns: TagColumns) -> Iterator[TagExample]:
    word_names = (columns.word,) if isinstance(columns.word, str) else _WORDS
    tag_names = (columns.tag,) if isinstance(columns.tag, str) else _TAGS
    for number, item in json_lines(source, encoding):
        where = f"{source.name}:{number}"
        words, tags = _list(item, word_names, where), _list(item, tag_names, where)
        if words is None:
            raise FirthError(f"{where}: no list of words (looked for {', '.join(word_names)}); rename the field")
        if tags is None and isinstance(columns.tag, str):
            raise FirthError(
                f"{where}: no list '{columns.tag}' of tags: {nearest(columns.tag, list(item))}; name the right field"
            )
        yield example_of(words, tags, where)


def _list(item: dict[str, Any], names: tuple[str, ...], where: str) -> list[str] | None:
    name = next((name for name in names if item.get(name) is not None), None)
    if name is None:
        return None
    if not isinstance(item[name], list):
        raise FirthError(f"{where}: '{name}' is not a list but {type(item[name]).__name__}; mend this line")
    return [whole_characters(str(value)) for value in item[name]]
