"""Parallel text: two line-aligned files, TSV, jsonl or TMX, optionally compressed.

Pairs are streamed in order, including empty ones: the corpus filters and counts them.
"""

import codecs
import io
import itertools
import re
import xml.etree.ElementTree as xml
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from firth.core.config import Config
from firth.core.errors import FirthError, nearest
from firth.data.sources import PACKINGS, Source, marked_encoding, numbered_lines, open_source, shown_name
from firth.data.tables import json_values
from firth.tokenizers.words import whole_characters

_FORMATS = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tmx": "tmx"}
_HEAD_BYTES = 1 << 20
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = {"bpt", "ept", "ph", "it", "ut", "sub"}  # inside a TMX segment: markup of the original file


class PairsReadingConfig(Config):
    """How parallel text is read. ``source`` and ``target`` name the columns of a TSV with a header, the
    keys of jsonl, or the languages of a TMX file. Default: the first two."""

    source: str | None = None
    target: str | None = None
    encoding: str = "utf-8"


class Pair(NamedTuple):
    source: str
    target: str


def find_pair_sources(inputs: list[str]) -> list[Source]:
    """Two line-aligned plain files, any number of TSV, jsonl and TMX files, or one plain file with tabs."""
    found = [_source(Path(word)) for word in inputs]
    if len(found) == 1 and found[0].format == "txt" and _has_columns(found[0]):
        return [replace(found[0], format="tsv")]  # whatever its name: Tatoeba publishes pairs as .txt
    plain = [source for source in found if source.format == "txt"]
    if not found or (plain and len(found) != 2) or len(plain) == 1:
        raise FirthError(
            f"parallel text needs two line-aligned files, or .tsv, .jsonl or .tmx files; got {' '.join(inputs) or 'nothing'}"
        )
    return found


def _source(path: Path) -> Source:
    if not path.is_file():
        raise FirthError(f"{path}: no such file; check the path")
    if path.stat().st_size == 0:
        raise FirthError(f"{path}: the file is empty; remove it from the list or fill it")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in PACKINGS else ""
    return Source(path, _FORMATS.get(suffixes[-1] if suffixes else "", "txt"), packing, shown_name(path))


def _has_columns(source: Source) -> bool:
    """Whether the first line has a tab, in any encoding: of those with two or four bytes for each sign there are zeros."""
    with open_source(source) as handle:
        raw = handle.read(_HEAD_BYTES)
    encoding = marked_encoding(raw, "utf-8")
    if encoding == "utf-8":
        encoding = "latin-1"
        if b"\0" in raw:
            encoding = "utf-16-le" if raw[1::2].count(0) > raw[::2].count(0) else "utf-16-be"
    return "\t" in raw.decode(encoding, "replace").partition("\n")[0]


def read_pairs(sources: list[Source], config: PairsReadingConfig) -> Iterator[Pair]:
    """Every pair of every source, in order."""
    if sources[0].format == "txt":
        yield from _two_files(sources[0], sources[1], config)
        return
    readers: dict[str, Callable[[Source, PairsReadingConfig], Iterator[Pair]]] = {
        "tsv": _tsv,
        "jsonl": _jsonl,
        "tmx": _tmx,
    }
    for source in sources:
        yield from readers[source.format](source, config)


def _two_files(first: Source, second: Source, config: PairsReadingConfig) -> Iterator[Pair]:
    counts = [0, 0]
    lines = [numbered_lines(source, config.encoding) for source in (first, second)]
    for pair in itertools.zip_longest(*lines):
        for side, numbered in enumerate(pair):
            counts[side] += numbered is not None
        if None in pair:
            for side, rest in enumerate(lines):
                counts[side] += sum(1 for _ in rest)
            raise FirthError(
                f"{first.name} has {counts[0]:,} lines but {second.name} has {counts[1]:,}: parallel files need the same number of lines"
            )
        yield Pair(pair[0][1], pair[1][1])


def _tsv(source: Source, config: PairsReadingConfig) -> Iterator[Pair]:
    """Columns named by the header, or else the first two columns."""
    wanted = (config.source or "source", config.target or "target")
    places = (0, 1)
    for number, line in numbered_lines(source, config.encoding):
        if not line.strip():
            continue
        fields = line.split("\t")
        if number == 1 and all(name in fields for name in wanted):
            places = (fields.index(wanted[0]), fields.index(wanted[1]))
            continue
        if number == 1 and (config.source or config.target):
            missing = next(name for name in wanted if name not in fields)
            raise FirthError(
                f"{source.name}:1: no column '{missing}': {nearest(missing, fields)}; choose with --source and --target"
            )
        if len(fields) <= max(places):
            raise FirthError(
                f"{source.name}:{number}: {len(fields)} field{'s' * (len(fields) > 1)}, but a pair needs two with a tab between; fix this line"
            )
        yield Pair(fields[places[0]], fields[places[1]])


def _jsonl(source: Source, config: PairsReadingConfig) -> Iterator[Pair]:
    """Objects with the two texts, also one level down (``{"translation": {"en": …, "de": …}}``)."""
    names: tuple[str, str] | None = None
    for number, row in json_values(source, config.encoding):
        if isinstance(row, dict) and isinstance(row.get("translation"), dict):
            row = row["translation"]
        if not isinstance(row, dict):
            raise FirthError(
                f"{source.name}:{number}: not an object with two texts but {type(row).__name__}; fix this line"
            )
        if names is None:
            names = _keys(row, config, f"{source.name}:{number}")
        yield Pair(*(_text(row, name, f"{source.name}:{number}") for name in names))


def _keys(row: dict[str, object], config: PairsReadingConfig, where: str) -> tuple[str, str]:
    """The keys of the two texts, found in the first line."""
    texts = [name for name, value in row.items() if isinstance(value, str)]
    plain = ("source", "target") if {"source", "target"} <= set(texts) else tuple(texts)
    if config.source is None and config.target is None and len(plain) == 2:
        return plain[0], plain[1]
    if config.source is None or config.target is None:
        raise FirthError(f"{where}: cannot tell which keys hold the two texts; choose with --source and --target")
    return config.source, config.target


def _text(row: dict[str, object], name: str, where: str) -> str:
    if name not in row:
        raise FirthError(f"{where}: no key '{name}': {nearest(name, list(row))}; choose with --source and --target")
    value = row[name]
    if not isinstance(value, str):
        raise FirthError(f"{where}: '{name}' is not a string but {type(value).__name__}; fix this line")
    return whole_characters(value)


def _tmx(source: Source, config: PairsReadingConfig) -> Iterator[Pair]:
    """Translation units of a TMX file, one at a time; ``en`` also means ``en-US``."""
    names: tuple[str, str] | None = None
    if config.source is not None and config.target is not None:
        names = (config.source, config.target)
    try:
        with open_source(source) as handle:
            for _, unit in _elements(handle):
                if unit.tag != "tu":
                    continue
                texts = {_language(variant): _segment(variant) for variant in unit.iter("tuv")}
                unit.clear()
                if names is None and len(texts) >= 2:
                    first, second, *_ = texts
                    names = (first, second)
                found = [_of_language(texts, name) for name in names or ()]
                if len(found) == 2 and found[0] is not None and found[1] is not None:
                    yield Pair(found[0], found[1])
    except RecursionError:
        raise FirthError(f"{source.name}: mark-up that is nested too deeply; fix or copy it again") from None
    except UnicodeError as error:
        raise FirthError(
            f"{source.name}: not in the encoding that it names ({error.reason if isinstance(error, UnicodeDecodeError) else error}); fix or copy it again"
        ) from None
    except LookupError as error:
        raise FirthError(f"{source.name}:1: {error}; convert it to UTF-8") from None
    except xml.ParseError as error:
        raise FirthError(f"{source.name}:{error.position[0]}: not valid TMX ({error}); fix or copy it again") from None


_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")
_READ_BY_EXPAT = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso8859-1", "ascii")


def _elements(handle: BinaryIO) -> Iterator[tuple[str, xml.Element]]:
    """The elements of a file as they end. Expat knows Unicode and Latin-1; other encodings (gb18030, big5 ...) are decoded
    before it."""
    buffered = io.BufferedReader(cast(io.RawIOBase, handle), 1 << 16)
    declared = _DECLARED.match(buffered.peek(1024)[:1024])
    name = codecs.lookup(declared.group(1).decode()).name if declared else "utf-8"
    if name in _READ_BY_EXPAT:
        yield from xml.iterparse(buffered)
        return
    parser: xml.XMLPullParser[xml.Element] = xml.XMLPullParser(["end"])
    decoder = codecs.getincrementaldecoder(name)()
    final, first = False, True
    while not final:
        raw = buffered.read(1 << 16)
        final = not raw
        text = decoder.decode(raw, final)
        if first:  # the declaration is true no longer
            text, first = re.sub(r"^\s*<\?xml[^>]*\?>", "", text), False
        parser.feed(text.encode())
        for event, *rest in parser.read_events():
            yield str(event), cast(xml.Element, rest[0])
    parser.close()


def _language(variant: xml.Element) -> str:
    return (variant.get(_LANGUAGE) or variant.get("lang") or "").lower()


def _segment(variant: xml.Element) -> str:
    segment = variant.find("seg")
    return "" if segment is None else " ".join(_inner(segment).split())


def _inner(element: xml.Element) -> str:
    """The text of a segment without the markup of the original file."""
    parts = [element.text or ""]
    for child in element:
        parts += ["" if child.tag in _CODES else _inner(child), child.tail or ""]
    return "".join(parts)


def _of_language(texts: dict[str, str], name: str) -> str | None:
    name = name.lower()
    return next((text for code, text in texts.items() if code == name or code.startswith(f"{name}-")), None)
