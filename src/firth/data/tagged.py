"""Tagged sentences: reads CoNLL-U (universaldependencies.org/format.html), CoNLL columns, ``word/tag`` text and
jsonl.

In CoNLL-U, tags belong to syntactic words. A word of a multiword token (``don't`` = ``do`` + ``n't``) gets its part
of the surface form, or all of it where the parts are spelled differently.

Sense-annotated text (word sense disambiguation) has two formats. All-words (Raganato et al. 2017): ``NAME.data.xml`` has
``<sentence>``s of ``<wf>`` and ``<instance>``; ``NAME.gold.key.txt`` in the same folder has the senses of each instance. Lexical
sample (Senseval): each ``<lexelt>`` has ``<instance>``s with their ``<answer>`` and a ``<context>`` with the word in ``<head>``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, iterparse

from firth.core.errors import FirthError, nearest
from firth.data.labelled import SenseExample, SenseMark, TagExample
from firth.data.sources import PACKINGS, Source, find_sources, numbered_lines, open_source
from firth.data.tables import json_lines
from firth.tokenizers.words import is_han, split_words, whole_characters

_COLUMNS = {"upos": 3, "xpos": 4}


def conllu_examples(name: str, lines: Iterator[tuple[int, str]], tag: str = "upos") -> Iterator[TagExample]:
    """One example per sentence; ``tag`` is upos or xpos."""
    if tag not in _COLUMNS:
        raise FirthError(f"{name}: CoNLL-U has no tag column '{tag}'; choose upos or xpos")
    for full, group in groupby(lines, key=lambda line: bool(line[1].strip())):
        if full:
            example = _sentence(name, list(group), _COLUMNS[tag])
            if example.words:
                yield example


def _sentence(name: str, lines: list[tuple[int, str]], tag_place: int) -> TagExample:
    text = ""
    words: list[str] = []
    tags: list[str] = []
    surfaces: list[tuple[str, int, bool]] = []  # form, number of its words, followed by a space
    inside = 0  # remaining words of the current multiword token
    for number, line in lines:
        if line.startswith("#"):
            text = line.partition("=")[2].strip() if line.startswith("# text =") else text
            continue
        fields = line.split("\t")
        if len(fields) != 10:
            raise FirthError(f"{name}:{number}: {len(fields)} columns where CoNLL-U has 10; fix this line")
        span = fields[0]
        if "." in span:
            continue  # an empty node, not a word of the text
        spaced = "SpaceAfter=No" not in fields[9].split("|")
        if "-" in span:
            first, _, last = span.partition("-")
            if not (first.isdecimal() and last.isdecimal()):
                raise FirthError(f"{name}:{number}: '{span}' is not a range of words; fix this line")
            inside = int(last) - int(first) + 1
            surfaces.append((fields[1], inside, spaced))
            continue
        words.append(fields[1])
        tags.append(fields[tag_place])
        if inside:
            inside -= 1
        else:
            surfaces.append((fields[1], 1, spaced))
    places = _find(text, surfaces) if text else None
    if places is None:
        text, places = _put_together(surfaces)
    offsets = _word_places(words, surfaces, places)
    return TagExample(words, tags, f"{name}:{lines[0][0]}", text, offsets)


def _find(text: str, surfaces: list[tuple[str, int, bool]]) -> list[int] | None:
    """The start of each surface form in the text, or None if they do not match it."""
    starts, place = [], 0
    for form, _, _ in surfaces:
        while place < len(text) and text[place].isspace() and not text.startswith(form, place):
            place += 1
        if not text.startswith(form, place):
            return None
        starts.append(place)
        place += len(form)
    return starts


def _put_together(surfaces: list[tuple[str, int, bool]]) -> tuple[str, list[int]]:
    text, starts = "", []
    for form, _, spaced in surfaces:
        starts.append(len(text))
        text += form + (" " if spaced else "")
    return text.rstrip(), starts


def _word_places(words: list[str], surfaces: list[tuple[str, int, bool]], starts: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for (form, count, _), start in zip(surfaces, starts, strict=True):
        parts = words[len(found) : len(found) + count]
        if "".join(parts).lower() == form.lower() and len("".join(parts)) == len(form):
            for part in parts:
                found.append((start, start + len(part)))
                start += len(part)
        else:
            found += [(start, start + len(form))] * len(parts)
    return found


LAYOUTS = ("auto", "columns", "conllu", "slashes", "jsonl")
_WORDS = ("words", "tokens")
_TAGS = ("tags", "ner_tags", "pos_tags", "labels", "ner", "upos")
_SLASHED = re.compile(r"\[?([^\s]+)/([^\s/\]]+)(?:\][^\s\]/]*)?")
_CJK_MARKS = re.compile("[\u3000-\u303f\uff00-\uff65，。！？；：“”‘’（）《》、…—·]")
_HEAD_LINES = 200


@dataclass(frozen=True)
class TagColumns:
    """Column numbers from 1 (negative: from the end). CoNLL-U: upos or xpos. jsonl: field names."""

    word: int | str = 1
    tag: int | str = -1


def read_tagged(
    path: str, columns: TagColumns | None = None, layout: str = "auto", encoding: str = "utf-8"
) -> list[TagExample]:
    """All sentences of a file, folder or glob."""
    return list(stream_tagged(path, columns, layout, encoding))


def stream_tagged(
    path: str, columns: TagColumns | None = None, layout: str = "auto", encoding: str = "utf-8"
) -> Iterator[TagExample]:
    """Streams sentences, without tags where the file has words only."""
    if layout not in LAYOUTS:
        raise FirthError(f"unknown tag layout '{layout}': choose {', '.join(LAYOUTS)}")
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
    """Guesses the layout from the first lines: objects, ten columns starting with a number, ``word/tag``, else columns."""
    full = [line for line in head if line.strip(" \t") and not line.startswith("# ")]
    if source.format == "jsonl" or (full and full[0].lstrip().startswith("{")):
        return "jsonl"
    if full and all(len(line.split("\t")) == 10 and line[0].isdecimal() for line in full):
        return "conllu"
    words = [word for line in full for word in line.split()]
    slashed = sum(_SLASHED.fullmatch(word) is not None for word in words)
    return "slashes" if words and slashed > 0.9 * len(words) else "columns"


def example_of(words: list[str], tags: list[str] | None, where: str) -> TagExample:
    """An example whose text is joined from its words: with spaces, except next to Chinese characters, and without any
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
                f"{name}:{number}: {len(fields)} columns where the first word has {width}: words and tags do not align; fix this line"
            )
        if max(max(place, -1 - place) for place in (word_place, tag_place)) >= width:
            raise FirthError(f"{name}:{number}: no such column: there are {width}; choose columns by number, from 1")
        start = start if words else number
        words.append(fields[word_place])
        tags.append(fields[tag_place])
    if words:
        yield example_of(words, tags if width > 1 else None, f"{name}:{start}")


def _place(name: str, column: int | str) -> int:
    if isinstance(column, str):
        raise FirthError(
            f"{name}: column names like '{column}' work for CoNLL-U and jsonl only; give a number from 1 for this file"
        )
    if column == 0:
        raise FirthError("there is no column 0; count columns from 1, or from the end with -1")
    return column - 1 if column > 0 else column


def _slashes(name: str, lines: Iterator[tuple[int, str]]) -> Iterator[TagExample]:
    """``word/tag`` text; the brackets of the People's Daily corpus around compounds are dropped."""
    for number, line in lines:
        pairs = []
        for word in line.split():
            match = _SLASHED.fullmatch(word)
            if match is None:
                raise FirthError(f"{name}:{number}: '{word}' has no tag after a slash; write word/tag")
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


def _list(item: dict[str, object], names: tuple[str, ...], where: str) -> list[str] | None:
    name = next((name for name in names if item.get(name) is not None), None)
    if name is None:
        return None
    values = item[name]
    if not isinstance(values, list):
        raise FirthError(f"{where}: '{name}' is not a list but {type(values).__name__}; fix this line")
    return [whole_characters(str(value)) for value in values]


_KEY_ENDINGS = (".gold.key.txt", ".key.txt", ".key")
_WORDNET_KINDS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}
_UNASSIGNED = "U"  # Senseval's label for an occurrence that no sense fits


def read_senses(path: str) -> list[SenseExample]:
    """All examples with a sense, given in the file or in its key file."""
    source = find_sources([path])[0]
    keys = _read_keys(Path(path))
    with open_source(source) as handle:
        try:
            every = _examples(iterparse(handle, events=("start", "end")), source.name, keys)
            found = [example for example in every if example.marks]
        except ParseError as error:
            raise FirthError(
                f"{path}:{error.position[0]}: not well-formed XML ({error}); fix the file or choose another one"
            ) from None
    if not found:
        raise FirthError(
            f"{path}: no sense-annotated word: name an XML file with <instance>s, and put its key file "
            f"({key_names(Path(path))[0]}) in the same folder if the senses are not in the XML"
        )
    return found


def key_names(path: Path) -> list[str]:
    """Possible names of the key file of an XML file."""
    name = path.name
    for packing in PACKINGS:
        name = name.removesuffix(packing)
    stem = name.removesuffix(".xml").removesuffix(".data")
    return [f"{stem}{ending}{packing}" for packing in ("", *PACKINGS) for ending in _KEY_ENDINGS]


def _read_keys(path: Path) -> dict[str, tuple[str, ...]]:
    """Senses by instance id. Lines are ``id sense...``, in lexical samples ``item id sense...``: so the second field
    is entered as an id, too. In the first format that field is a sense and is never looked up."""
    place = next((path.parent / name for name in key_names(path) if (path.parent / name).is_file()), None)
    keys: dict[str, tuple[str, ...]] = {}
    if place is None:
        return keys
    for number, line in numbered_lines(find_sources([str(place)])[0], "utf-8"):
        fields = line.split()
        if len(fields) == 1:
            raise FirthError(f"{place}:{number}: '{line.strip()[:40]}' has no sense; write: id sense")
        if fields:
            keys[fields[0]] = tuple(fields[1:])
            keys.setdefault(fields[1], tuple(fields[2:]))
    return keys


def _examples(
    events: Iterator[tuple[str, Element]], name: str, keys: dict[str, tuple[str, ...]]
) -> Iterator[SenseExample]:
    item = ""
    for event, element in events:
        if event == "start":
            item = element.get("item", "") if element.tag == "lexelt" else item
        elif element.tag == "sentence":
            yield _sense_sentence(element, name, keys)
            element.clear()
        elif element.tag == "instance" and element.find("context") is not None:
            yield _context(element, item, name, keys)
            element.clear()


def _sense_sentence(element: Element, name: str, keys: dict[str, tuple[str, ...]]) -> SenseExample:
    """An element with a space in it ("old age") is several words with one sense."""
    words: list[str] = []
    marks = []
    for part in element:
        start = len(words)
        words += "".join(part.itertext()).split()
        if part.tag != "instance" or start == len(words):
            continue
        number = part.get("id", "")
        senses = keys.get(number, ())
        if senses:
            item = f"{part.get('lemma', words[start]).lower()}#{part.get('pos', '')}"
            marks.append(SenseMark(number, item, start, len(words), senses))
    return SenseExample(words, marks, f"{name}: {element.get('id', 'a sentence')}")


def _context(element: Element, item: str, name: str, keys: dict[str, tuple[str, ...]]) -> SenseExample:
    number = element.get("id", "")
    inside = tuple(answer.get("senseid", "") for answer in element.findall("answer"))
    senses = tuple(sense for sense in inside or keys.get(number, ()) if sense and sense != _UNASSIGNED)
    words: list[str] = []
    heads: list[tuple[int, int]] = []
    context = element.find("context")
    assert context is not None
    _collect(context, words, heads)
    marks = [SenseMark(number, item, *heads[0], senses)] if senses and heads else []
    return SenseExample(words, marks, f"{name}: {number or 'an instance'}")


def _collect(element: Element, words: list[str], heads: list[tuple[int, int]]) -> None:
    """Appends words in order: ``<wf>`` is split at spaces only, other text by Firth's word splitter."""
    start = len(words)
    text = element.text or ""
    words += text.split() if element.tag == "wf" else _cut(text)
    for part in element:
        _collect(part, words, heads)
        words += _cut(part.tail or "")
    if element.tag == "head" and len(words) > start:
        heads.append((start, len(words)))


def _cut(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text)]


def read_first_senses(path: str) -> dict[str, str]:
    """The first sense of each item, from WordNet's ``index.sense`` or from lines ``lemma#POS sense``."""
    found: dict[str, str] = {}
    for number, line in numbered_lines(find_sources([path])[0], "utf-8"):
        fields = line.split()
        if not fields:
            continue
        if len(fields) == 4 and "%" in fields[0]:  # sense_key synset_offset sense_number tag_cnt
            lemma, _, rest = fields[0].partition("%")
            if fields[2] == "1" and rest[:1] in _WORDNET_KINDS:
                found[f"{lemma}#{_WORDNET_KINDS[rest[0]]}"] = fields[0]
        elif len(fields) == 2:
            found[fields[0]] = fields[1]
        else:
            raise FirthError(
                f"{path}:{number}: neither a line of WordNet's index.sense nor 'lemma#POS sense'; fix this line"
            )
    return found
