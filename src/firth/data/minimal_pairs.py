"""Minimal pairs: two sentences that differ in one thing, the first of them right (BLiMP, Warstadt et al. 2020).

Files are jsonl, json, csv, tsv or parquet with named columns, as published (BLiMP: ``sentence_good``, ``sentence_bad``, ``UID``,
``linguistics_term``, ``field``; ZhoBLiMP: ``uid``, ``phenomenon``) or called ``good``, ``bad``, ``set``, ``phenomenon``, ``field``;
or lines of good<TAB>bad without names. Where no column names the set, it is the name of the file.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firth.core.errors import FirthError
from firth.data.sources import PACKINGS, Source, find_sources
from firth.data.tables import Table, open_table
from firth.tokenizers.words import whole_characters

_NAMES = {
    "good": ("good", "sentence_good", "good_sentence"),
    "bad": ("bad", "sentence_bad", "bad_sentence"),
    "set": ("set", "uid", "paradigm"),
    "phenomenon": ("phenomenon", "linguistics_term"),
    "field": ("field",),
}
_SENTENCES = ("good", "bad")
_REMEDY = "a line has two sentences, the right one first with a tab between them, or the columns good and bad"


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences, and what they belong to; an empty name where the file has none."""

    good: str
    bad: str
    set: str
    phenomenon: str = ""
    field: str = ""


def read_minimal_pairs(path: str | Path, num: int | None = None, encoding: str = "utf-8") -> list[MinimalPair]:
    """The pairs of a file, or of every table in a folder, in order; of each set the first ``num``."""
    pairs: list[MinimalPair] = []
    counts: Counter[str] = Counter()
    for source in _find_tables(Path(path)):
        before = counts.total()
        for pair in _read(open_table(source, encoding)):
            counts[pair.set] += 1
            if num is None or counts[pair.set] <= num:
                pairs.append(pair)
        if counts.total() == before:
            raise FirthError(f"{source.name}: no pairs in it; {_REMEDY}")
    return pairs


def _find_tables(path: Path) -> list[Source]:
    """A file as it is; of a folder the tables, since plain text next to them is a licence or a description."""
    found = find_sources([str(path)])
    if not path.is_dir():
        return found
    tables = [source for source in found if source.format != "txt"]
    if not tables:
        raise FirthError(f"{path}: no jsonl, csv, tsv or parquet file in this folder; name the file of the pairs")
    return tables


def _read(table: Table) -> Iterator[MinimalPair]:
    rows = table.rows
    names = table.names
    if names is None and table.head:
        first = [str(field).strip() for field in table.head[0][1]]
        if any(name.lower() in _NAMES[part] for name in first for part in _SENTENCES):
            names = first
            next(rows)
    if names is None:
        names = list(_SENTENCES)
    columns = _columns(table, names)
    default = _stem(table.source)
    for line, fields in rows:
        if len(fields) > len(names):
            raise FirthError(f"{table.where(line)}: {len(fields)} fields where there are {len(names)}; {_REMEDY}")
        values = {part: fields[place] if place < len(fields) else None for part, place in columns.items()}
        good, bad = (_sentence(values[part], part, table.where(line)) for part in _SENTENCES)
        rest = {part: "" if values.get(part) is None else str(values[part]).strip() for part in list(_NAMES)[2:]}
        yield MinimalPair(good, bad, rest["set"] or default, rest["phenomenon"], rest["field"])


def _columns(table: Table, names: list[str]) -> dict[str, int]:
    """Where each part of a pair stands."""
    lower = [name.strip().lower() for name in names]
    places = {part: [lower.index(name) for name in known if name in lower] for part, known in _NAMES.items()}
    found = {part: some[0] for part, some in places.items() if some}
    missing = [part for part in _SENTENCES if part not in found]
    if missing and table.head:
        raise FirthError(
            f"{table.where(table.head[0][0])}: no '{missing[0]}' among {', '.join(names)}; call the sentences good and bad"
        )
    return found


def _sentence(value: object, part: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise FirthError(f"{where}: no {part} sentence; {_REMEDY}")
    return whole_characters(value.strip())


def _stem(source: Source) -> str:
    """The name of a file without its suffixes."""
    path = source.path
    path = path.with_suffix("") if path.suffix.lower() in PACKINGS else path
    return path.stem
