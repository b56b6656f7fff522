"""A part of a search index: some documents with their passages, words and vectors in one file that never changes.

The file is safetensors, so nothing in it is executed, and it is memory-mapped: only what a question touches is read.
Texts and terms are UTF-8 bytes end to end with their borders.

K documents, P passages, V terms, Q postings, C columns, D dimensions.
"""

import hashlib
import json
import mmap
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, nearest
from firth.core.files import atomic_file, parse_json
from firth.core.types import Array, Arrays, Floats, Ints
from firth.retrieval.passages import Span
from firth.retrieval.words import terms

_TYPES = {"U8": "u1", "I32": "<i4", "I64": "<i8", "U64": "<u8", "F32": "<f4", "F64": "<f8"}
_EXPANSION = 128  # neighbours that are looked at when a row joins a graph
_HEADER = 8  # bytes of the length of a safetensors header


def key_of(text: str) -> int:
    """64 bits that stand for an id, a column's value or a content."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def plain_value(value: object) -> str:
    """A value of a column as it is compared: 3.0 is 3, True is true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _number(value: object) -> float:
    """A value of a column as a number, or NaN."""
    try:
        return float(value) if isinstance(value, int | float | str) else float("nan")
    except ValueError:
        return float("nan")


@dataclass(frozen=True)
class Entry:
    """A document on its way into a part, with its passages and their vectors."""

    id: str
    source: str
    text: str
    fields: Mapping[str, object]
    passages: Sequence[Span]
    vectors_PD: Floats | None

    @property
    def keys(self) -> tuple[int, int, int]:
        return key_of(self.id), key_of(self.source), content_key(self.text, self.fields)

    @property
    def row(self) -> bytes:
        found = {"id": self.id, "source": self.source, "fields": dict(self.fields)}
        return json.dumps(found, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")


def content_key(text: str, fields: Mapping[str, object]) -> int:
    return key_of(json.dumps([text, dict(fields)], sort_keys=True, default=str))


def build_arrays(entries: Sequence[Entry]) -> Arrays:
    """The arrays of a part."""
    texts = [entry.text.encode("utf-8", "replace") for entry in entries]
    starts = borders_of([len(text) for text in texts])
    columns = sorted({name for entry in entries for name in entry.fields})
    values = [[entry.fields.get(name) for name in columns] for entry in entries]
    passages, found = _passages(entries, starts)
    vectors = [entry.vectors_PD for entry in entries if entry.vectors_PD is not None]
    names, rows = [name.encode() for name in columns], [entry.row for entry in entries]
    return {
        "texts": join_bytes(texts),
        "text_starts": starts,
        "rows": join_bytes(rows),
        "row_starts": borders_of([len(row) for row in rows]),
        "keys": np.asarray([entry.keys for entry in entries], np.uint64).reshape(len(entries), 3),
        "columns": join_bytes(names),
        "column_starts": borders_of([len(name) for name in names]),
        "values": np.asarray(
            [[0 if one is None else key_of(plain_value(one)) for one in row] for row in values], np.uint64
        ).reshape(len(entries), len(columns)),
        "numbers": np.asarray([[_number(one) for one in row] for row in values], np.float64).reshape(
            len(entries), len(columns)
        ),
        "passages": passages,
        **_postings(found),
        **({"vectors": np.concatenate(vectors).astype(np.float32)} if vectors else {}),
    }


def join_bytes(parts: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(parts), np.uint8)


def borders_of(sizes: Sequence[int]) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.asarray(sizes, np.int64))))


def _passages(entries: Sequence[Entry], starts: Ints) -> tuple[Ints, list[Counter[str]]]:
    """[P, 3] (document, first byte, byte behind the last), and the terms of each passage."""
    rows: list[tuple[int, int, int]] = []
    found: list[Counter[str]] = []
    for number, entry in enumerate(entries):
        place, at = int(starts[number]), 0
        for start, end in entry.passages:
            begin = place + len(entry.text[at:start].encode("utf-8", "replace")) if start >= at else None
            if begin is None:  # passages overlap: count from the beginning of the text
                begin = int(starts[number]) + len(entry.text[:start].encode("utf-8", "replace"))
            inside = entry.text[start:end]
            rows.append((number, begin, begin + len(inside.encode("utf-8", "replace"))))
            found.append(Counter(terms(inside)))
            place, at = begin, start
    return np.asarray(rows, np.int64).reshape(len(rows), 3), found


def _postings(found: Sequence[Counter[str]]) -> Arrays:
    vocabulary: dict[str, int] = {}
    term_Q: list[int] = []
    for counter in found:
        term_Q += [vocabulary.setdefault(word, len(vocabulary)) for word in counter]
    ranked = sorted(vocabulary, key=lambda word: word.encode("utf-8", "surrogatepass"))
    place = np.zeros(len(vocabulary), np.int64)
    place[[vocabulary[word] for word in ranked]] = np.arange(len(ranked))
    sorted_Q = place[np.asarray(term_Q, np.int64)]
    return sorted_postings(
        [word.encode("utf-8", "surrogatepass") for word in ranked],
        sorted_Q,
        np.repeat(np.arange(len(found)), [len(counter) for counter in found]),
        np.asarray([times for counter in found for times in counter.values()], np.int64),
        np.asarray([counter.total() for counter in found], np.int64),
    )


def sorted_postings(words: Sequence[bytes], term_Q: Ints, passage_Q: Ints, count_Q: Ints, lens_P: Ints) -> Arrays:
    """Postings by term, the passages of a term in their order."""
    order = np.argsort(term_Q, kind="stable")
    return {
        "terms": join_bytes(words),
        "term_starts": borders_of([len(word) for word in words]),
        "posting_starts": borders_of(np.bincount(term_Q, minlength=len(words)).tolist()),
        "postings": passage_Q[order].astype(np.int32),
        "counts": count_Q[order].astype(np.int32),
        "lens": lens_P.astype(np.int32),
    }


def write_part(path: Path, arrays: Mapping[str, Array]) -> None:
    """Written whole or not at all."""
    from safetensors.numpy import save

    data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with atomic_file(path) as handle:
        handle.write(data)


def map_arrays(path: Path) -> Arrays:
    """The arrays of a safetensors file, memory-mapped."""
    try:
        with open(path, "rb") as handle:
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        size = int.from_bytes(mapped[:_HEADER], "little")
        header: Any = parse_json(mapped[_HEADER : _HEADER + size], path)
        found: Arrays = {}
        for name, facts in header.items():
            if name != "__metadata__":
                kind, shape, (start, end) = _TYPES[facts["dtype"]], facts["shape"], facts["data_offsets"]
                flat = np.frombuffer(mapped, kind, (end - start) // np.dtype(kind).itemsize, _HEADER + size + start)
                found[name] = flat.reshape(shape)
        return found
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise FirthError(f"{path}: damaged ({error}); make the index again") from None


class Matches(Protocol):
    """The nearest rows that a graph found, by their numbers."""

    @property
    def keys(self) -> Array: ...


class Graph(Protocol):
    def search(self, vectors: Floats, count: int) -> Matches: ...


@dataclass(frozen=True)
class OpenGraph:
    """A graph of usearch over the vectors of some parts, numbered one part after the other."""

    key: tuple[str, str]  # name and checksum
    parts: Sequence[str]  # their files
    graph: Graph


def grow_graph(path: Path | None, vectors: Sequence[Floats]) -> bytes:
    """A graph with more rows than that of a file; a new one without a file. The numbers of the rows go on."""
    from usearch.index import Index

    graph = (
        Index(
            ndim=vectors[0].shape[1],
            metric="ip",
            dtype="f16",
            connectivity=16,
            expansion_add=_EXPANSION,
            enable_key_lookups=False,
        )
        if path is None
        else Index.restore(str(path), expansion_add=_EXPANSION, enable_key_lookups=False)
    )
    if graph is None:
        raise FirthError(f"{path}: damaged; make the index again")
    for rows_PD in vectors:
        graph.add(np.arange(len(graph), len(graph) + len(rows_PD)), rows_PD, threads=0)
    return bytes(graph.save() or b"")


class Part:
    """A part that is read. ``gone``: which of its documents were deleted or replaced since."""

    def __init__(self, arrays: Mapping[str, Array], gone_K: NDArray[np.bool_] | None, path: Path) -> None:
        self.arrays, self.path = arrays, path
        self.gone_K = gone_K if gone_K is not None else np.zeros(len(arrays["keys"]), np.bool_)
        self.passages: Ints = np.asarray(arrays["passages"])
        self.num_documents, self.num_passages = len(arrays["keys"]), len(self.passages)

    @cached_property
    def live_P(self) -> NDArray[np.bool_] | None:
        """Which passages count; none: all."""
        return ~self.gone_K[self.passages[:, 0]] if self.gone_K.any() else None

    @cached_property
    def num_live(self) -> int:
        """Passages that count."""
        return self.num_passages if self.live_P is None else int(self.live_P.sum())

    @cached_property
    def num_words(self) -> int:
        """Of the passages that count."""
        lens = self.arrays["lens"]
        return int((lens if self.live_P is None else lens[self.live_P]).sum(dtype=np.int64))

    @property
    def vectors_PD(self) -> Floats | None:
        return self.arrays.get("vectors")

    def postings(self, word: str) -> tuple[Ints, Ints]:
        """(passages, counts) of a term."""
        wanted, borders = word.encode("utf-8", "surrogatepass"), self.arrays["term_starts"]
        place = bisect_left(_Bytes(self.arrays["terms"], borders), wanted)
        if place == len(borders) - 1 or cut_bytes(self.arrays["terms"], borders, place) != wanted:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        starts = self.arrays["posting_starts"]
        some = slice(int(starts[place]), int(starts[place + 1]))
        return self.arrays["postings"][some].astype(np.int64), self.arrays["counts"][some].astype(np.int64)

    def terms(self) -> list[bytes]:
        """All terms in their order."""
        found = _Bytes(self.arrays["terms"], self.arrays["term_starts"])
        return [found[place] for place in range(len(found))]

    @cached_property
    def _by_id(self) -> tuple[NDArray[np.uint64], Ints]:
        ids: NDArray[np.uint64] = self.arrays["keys"][:, 0]
        order = np.argsort(ids, kind="stable")
        return ids[order], order

    def find(self, id: str) -> int | None:
        """The number of the document with this id."""
        keys, order = self._by_id
        key = np.uint64(key_of(id))
        for place in range(int(np.searchsorted(keys, key)), len(keys)):
            number = int(order[place])
            if keys[place] != key:
                return None
            if not self.gone_K[number] and self.row(number)["id"] == id:
                return number
        return None

    def of_source(self, source: str) -> list[int]:
        """The documents of a file."""
        found = np.flatnonzero((self.arrays["keys"][:, 1] == np.uint64(key_of(source))) & ~self.gone_K)
        return [number for number in found.tolist() if self.row(number)["source"] == source]

    def content_key(self, number: int) -> int:
        return int(self.arrays["keys"][number, 2])

    def row(self, number: int) -> dict[str, object]:
        """id, source and fields of a document."""
        raw = cut_bytes(self.arrays["rows"], self.arrays["row_starts"], number)
        found = parse_json(raw, self.path)
        if (
            not isinstance(found, dict)
            or not isinstance(found.get("fields"), dict)
            or not {"id", "source"} <= found.keys()
        ):
            raise FirthError(f"{self.path}: damaged (document {number}); make the index again")
        return dict(found)

    def text(self, number: int) -> str:
        return self._decoded(cut_bytes(self.arrays["texts"], self.arrays["text_starts"], number))

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise FirthError(f"{self.path}: damaged (a text that is not UTF-8); make the index again") from None

    def passage(self, number: int) -> tuple[int, int, str]:
        """(document, first character in it, text)."""
        document, start, end = self.passages[number].tolist()
        begin = int(self.arrays["text_starts"][document])
        texts = self.arrays["texts"]
        before = len(self._decoded(texts[begin:start].tobytes()))
        return document, before, self._decoded(texts[start:end].tobytes())

    @cached_property
    def columns(self) -> list[str]:
        starts = self.arrays["column_starts"]
        return [self._decoded(cut_bytes(self.arrays["columns"], starts, place)) for place in range(len(starts) - 1)]


class _Bytes:
    """Byte strings end to end as a sequence, for bisection."""

    def __init__(self, data: Array, borders: Array) -> None:
        self.data, self.borders = data, borders

    def __len__(self) -> int:
        return len(self.borders) - 1

    def __getitem__(self, place: int) -> bytes:
        return cut_bytes(self.data, self.borders, place)


def cut_bytes(data: Array, borders: Array, place: int) -> bytes:
    return data[int(borders[place]) : int(borders[place + 1])].tobytes()


_CONDITION = re.compile(r"\s*(.+?)\s*(>=|<=|!=|=|>|<)\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    column: str
    sign: str  # = != < <= > >=
    value: str

    def holds(self, part: Part) -> NDArray[np.bool_]:
        """For each document of a part; a document without the column fulfils only ``!=``."""
        if self.column not in part.columns:
            return np.full(part.num_documents, self.sign == "!=")
        place = part.columns.index(self.column)
        if self.sign in ("=", "!="):
            same = part.arrays["values"][:, place] == np.uint64(key_of(self.value))
            return np.asarray(same if self.sign == "=" else ~same, np.bool_)
        numbers, wanted = part.arrays["numbers"][:, place], float(self.value)
        with np.errstate(invalid="ignore"):
            found = {"<": numbers < wanted, "<=": numbers <= wanted, ">": numbers > wanted, ">=": numbers >= wanted}
        return np.asarray(found[self.sign], np.bool_)


def read_conditions(where: Sequence[str] | Mapping[str, object], parts: Sequence[Part]) -> list[Condition]:
    """Conditions as they are written, or values by column; columns that no document has are an error."""
    if isinstance(where, Mapping):
        found = [Condition(name, "=", plain_value(value)) for name, value in where.items()]
    else:
        found = [_read(one) for one in where]
    known = {name for part in parts for name in part.columns}
    for one in found:
        if one.column not in known:
            reason = nearest(one.column, sorted(known)) if known else "the documents have no columns"
            raise FirthError(f"--where: no column '{one.column}': {reason}")
    return found


def _read(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise FirthError(f"--where '{text}': write a column and a value, such as year>=1998 or language=en")
    column, sign, value = match.groups()
    if sign not in ("=", "!="):
        try:
            float(value)
        except ValueError:
            raise FirthError(f"--where '{text}': {sign} compares numbers, and '{value}' is none") from None
    return Condition(column, sign, value)


def merge_arrays(parts: Sequence[Part]) -> Arrays:
    """The arrays of one part with the documents of several, without those that are gone."""
    columns = sorted({name for part in parts for name in part.columns})
    kept = [np.flatnonzero(~part.gone_K) for part in parts]
    found: dict[str, list[Array]] = {}
    for part, keep_K in zip(parts, kept, strict=True):
        for name, array in _kept(part, keep_K, columns).items():
            found.setdefault(name, []).append(array)
    sizes = [int(np.sum(texts, dtype=np.int64)) for texts in found["text_sizes"]]
    document = byte = 0
    for passages, keep_K, size in zip(found["passages"], kept, sizes, strict=True):
        passages += np.asarray([document, byte, byte], np.int64)
        document, byte = document + len(keep_K), byte + size
    joined = {name: np.concatenate(some) for name, some in found.items()}
    names = [name.encode() for name in columns]
    return {
        "text_starts": borders_of(joined.pop("text_sizes").tolist()),
        "row_starts": borders_of(joined.pop("row_sizes").tolist()),
        "columns": join_bytes(names),
        "column_starts": borders_of([len(name) for name in names]),
        **joined,
        **_merged_postings(parts),
    }


def _kept(part: Part, keep_K: Ints, columns: Sequence[str]) -> Arrays:
    """The arrays of the documents that stay; places of passages count from the first of them."""
    arrays = part.arrays
    texts, text_sizes = _picked(arrays["texts"], arrays["text_starts"], keep_K)
    rows, row_sizes = _picked(arrays["rows"], arrays["row_starts"], keep_K)
    new_K = np.zeros(part.num_documents, np.int64)
    new_K[keep_K] = np.arange(len(keep_K))
    moved_K = np.zeros(part.num_documents, np.int64)
    moved_K[keep_K] = borders_of(text_sizes.tolist())[:-1] - arrays["text_starts"][keep_K]
    passages = part.passages if part.live_P is None else part.passages[part.live_P]
    owner = passages[:, 0]
    shifted = np.stack((new_K[owner], passages[:, 1] + moved_K[owner], passages[:, 2] + moved_K[owner]), 1)
    place = {name: number for number, name in enumerate(part.columns)}
    values = np.zeros((len(keep_K), len(columns)), np.uint64)
    numbers = np.full((len(keep_K), len(columns)), np.nan)
    for column, name in enumerate(columns):
        if name in place:
            values[:, column] = arrays["values"][keep_K, place[name]]
            numbers[:, column] = arrays["numbers"][keep_K, place[name]]
    found: Arrays = {"texts": texts, "text_sizes": text_sizes, "rows": rows, "row_sizes": row_sizes}
    found |= {"keys": arrays["keys"][keep_K], "values": values, "numbers": numbers, "passages": shifted}
    if part.vectors_PD is not None:
        found["vectors"] = part.vectors_PD if part.live_P is None else part.vectors_PD[part.live_P]
    return found


def _picked(data: Array, borders: Array, keep: Ints) -> tuple[NDArray[np.uint8], Ints]:
    """Some of the byte strings end to end, and their sizes."""
    sizes: Ints = np.diff(borders)[keep]
    return join_bytes([cut_bytes(data, borders, place) for place in keep.tolist()]), sizes


def _merged_postings(parts: Sequence[Part]) -> Arrays:
    listed = [part.terms() for part in parts]
    words = sorted({word for some in listed for word in some})
    place = {word: number for number, word in enumerate(words)}
    term_Q, passage_Q, count_Q, lens_P = [], [], [], []
    before = 0
    for part, some in zip(parts, listed, strict=True):
        numbers = np.asarray([place[word] for word in some], np.int64)
        terms_here = np.repeat(numbers, np.diff(part.arrays["posting_starts"]))
        passages_here, live = part.arrays["postings"].astype(np.int64), part.live_P
        counts_here, lens = part.arrays["counts"], part.arrays["lens"]
        if live is not None:
            stay = live[passages_here]
            passages_here = (np.cumsum(live) - 1)[passages_here[stay]]
            terms_here, counts_here, lens = terms_here[stay], counts_here[stay], lens[live]
        term_Q.append(terms_here)
        passage_Q.append(passages_here + before)
        count_Q.append(counts_here)
        lens_P.append(lens)
        before += len(lens)
    joined = [np.concatenate(some).astype(np.int64) for some in (term_Q, passage_Q, count_Q, lens_P)]
    used, new = np.unique(joined[0], return_inverse=True)  # terms of documents that are gone go, too
    return sorted_postings([words[number] for number in used.tolist()], new, *joined[1:])
