"""fastText's own files, version 11 and 12: settings, dictionary, input matrix, output matrix; whole (``.bin``) or
quantised (``.ftz``). Word vectors and classifiers have the same layout.

Every size in the file is compared with what is left of the file before anything of that size is made. Matrices stay
memory-mapped.
"""

import mmap
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import atomic_file
from firth.vectors.classifier import (
    BEHIND_WORDS,
    DROPPED,
    LABEL_PREFIX,
    Classifier,
    ClassifierConfig,
    DenseTable,
    Features,
    Floats,
    Loss,
    QuantizedTable,
    Table,
)

FASTTEXT_MAGIC = 793712314
FASTTEXT_VERSION = 12
_ARGS = struct.Struct("<12id")
_SIZES = struct.Struct("<3i2q")
_CENTROIDS = 256
_LOSSES: dict[int, Loss] = {1: "hierarchical", 2: "negative", 3: "softmax", 4: "one_vs_all"}
MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}
_ENCODING = ("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Settings:
    """The settings that a file keeps, by the original's names."""

    dim: int
    ws: int
    epoch: int
    min_count: int
    neg: int
    word_ngrams: int
    loss: int
    model: int
    bucket: int
    minn: int
    maxn: int
    lr_update_rate: int = 100
    t: float = 1e-4


@dataclass(frozen=True)
class FastTextFile:
    """Everything in a file."""

    path: Path
    settings: Settings
    words: list[bytes]
    counts: NDArray[np.int64]
    labels: list[bytes]
    label_counts: NDArray[np.int64]
    num_tokens: int
    pruned: NDArray[np.int32] | None  # [P, 2]: a bucket that was kept, and its row behind the words; none: all were
    inputs: Table
    outputs: Table

    @property
    def is_classifier(self) -> bool:
        return MODELS[self.settings.model] == "supervised"


class _Reader:
    """A place in a mapped file; whatever goes beyond its end is refused in one sentence."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.place = path, data, 0

    def refuse(self, what: str) -> NoReturn:
        raise FirthError(f"{self.path}: {what}; copy it again")

    def need(self, size: int, what: str) -> None:
        if size < 0 or size > len(self.data) - self.place:
            self.refuse(f"cut off within its {what}, or a size in it is wrong")

    def unpack(self, layout: struct.Struct, what: str) -> tuple[int, ...]:
        self.need(layout.size, what)
        found = layout.unpack_from(self.data, self.place)
        self.place += layout.size
        return found

    def flag(self, what: str) -> bool:
        self.need(1, what)
        byte = self.data[self.place]
        self.place += 1
        if byte > 1:
            self.refuse(f"its {what} does not begin with a yes or no")
        return bool(byte)

    def array(self, kind: str, shape: tuple[int, ...], what: str) -> NDArray[np.generic]:
        """Mapped, not read."""
        size = np.dtype(kind).itemsize
        for one in shape:
            if one < 0:
                self.refuse(f"a size of its {what} is below zero")
            size *= one
        self.need(size, what)
        start, self.place = self.place, self.place + size
        if size == 0:
            return np.zeros(shape, kind)
        return np.memmap(self.path, np.dtype(kind), "r", start, shape)


def read_file(path: Path, with_outputs: bool = True) -> FastTextFile:
    """Reads the dictionary and maps the matrices; of word vectors the first one may be enough."""
    with open(path, "rb") as handle:
        try:
            data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise FirthError(f"{path}: empty; no model in it") from None
        with data:
            return _read(_Reader(path, data), with_outputs)


def _read(reader: _Reader, with_outputs: bool) -> FastTextFile:
    magic, version = reader.unpack(struct.Struct("<2i"), "header")
    if magic != FASTTEXT_MAGIC:
        raise FirthError(f"{reader.path}: no fastText model (its first bytes are others); check the file")
    if version not in (11, FASTTEXT_VERSION):
        raise FirthError(f"{reader.path}: fastText format {version}; 11 and {FASTTEXT_VERSION} are known")
    settings = _read_settings(reader, version)
    entries, num_words, num_labels, num_tokens, num_pruned = reader.unpack(_SIZES, "header")
    if min(num_words, num_labels) < 0 or entries != num_words + num_labels or num_words == 0:
        reader.refuse(f"its header says {entries} entries, {num_words} words and {num_labels} labels")
    spellings, counts = _read_entries(reader, entries, num_words)
    pruned = _read_pruned(reader, num_pruned, settings.bucket)
    quantized = reader.flag("input matrix")
    if pruned is not None and not quantized:
        reader.refuse("a dictionary without some n-grams before a matrix that is whole")
    rows = num_words + (settings.bucket if pruned is None else len(pruned))
    inputs = _read_table(reader, quantized, rows, settings.dim, "input matrix")
    outputs: Table = DenseTable(np.zeros((0, settings.dim), np.float32))
    if with_outputs:
        quantized_output = reader.flag("output matrix") and quantized
        num_outputs = num_labels if settings.model == 3 else num_words
        outputs = _read_table(reader, quantized_output, num_outputs, settings.dim, "output matrix")
        if reader.place != len(reader.data):
            reader.refuse("more follows after its last matrix")
    parts = (spellings[:num_words], counts[:num_words], spellings[num_words:], counts[num_words:])
    return FastTextFile(reader.path, settings, *parts, num_tokens, pruned, inputs, outputs)


def _read_settings(reader: _Reader, version: int) -> Settings:
    found = Settings(*reader.unpack(_ARGS, "header"))
    if found.model not in MODELS or found.loss not in _LOSSES:
        reader.refuse(f"model {found.model} with loss {found.loss}, which fastText does not have")
    if found.dim < 1 or found.bucket < 0:
        reader.refuse(f"its header says {found.dim} dimensions and {found.bucket} buckets")
    if not 0 <= found.minn <= 100 or not 0 <= found.maxn <= 100 or not 0 <= found.word_ngrams <= 100:
        reader.refuse(f"its header says n-grams of {found.minn} to {found.maxn} letters and {found.word_ngrams} words")
    if version == 11 and found.model == 3:  # older classifiers have no character n-grams, whatever they say
        return Settings(**{**vars(found), "maxn": 0})
    return found


def _read_entries(reader: _Reader, entries: int, num_words: int) -> tuple[list[bytes], NDArray[np.int64]]:
    """Words, then labels: each its bytes, a zero, its count and its kind."""
    reader.need(entries * 10, "dictionary")
    data, place = reader.data, reader.place
    spellings, counts = [], np.empty(entries, np.int64)
    for number in range(entries):
        end = data.find(b"\0", place)
        if end < 0 or end + 10 > len(data):
            reader.refuse(f"cut off within entry {number + 1} of its dictionary")
        spellings.append(data[place:end])
        counts[number] = int.from_bytes(data[end + 1 : end + 9], "little", signed=True)
        if data[end + 9] != (number >= num_words):
            reader.refuse(f"entry {number + 1} of its dictionary is neither a word nor a label in its place")
        place = end + 10
    reader.place = place
    if (counts < 0).any():
        reader.refuse("a count in its dictionary is below zero")
    return spellings, counts


def _read_pruned(reader: _Reader, count: int, bucket: int) -> NDArray[np.int32] | None:
    """Buckets that were kept when the dictionary was cut; a count of -1 says that it was not."""
    if count < 0:
        return None
    pairs = np.array(reader.array("<i4", (count, 2), "list of n-grams"), np.int32)
    outside = (pairs < 0).any(1) | (pairs[:, 0] >= bucket) | (pairs[:, 1] >= count)
    if outside.any() or len(np.unique(pairs[:, 0])) != count:
        reader.refuse("its list of n-grams names some that there are not, or one twice")
    return pairs[np.argsort(pairs[:, 0])]


def _read_table(reader: _Reader, quantized: bool, rows: int, dim: int, what: str) -> Table:
    if not quantized:
        shape = reader.unpack(struct.Struct("<2q"), what)
        if shape != (rows, dim):
            reader.refuse(f"its {what} is {shape[0]} x {shape[1]} where {rows} x {dim} is due")
        return DenseTable(_floats(reader, (rows, dim), what))
    has_norms = reader.flag(what)
    num_rows, width, size = reader.unpack(struct.Struct("<2qi"), what)
    if (num_rows, width) != (rows, dim):
        reader.refuse(f"its {what} is {num_rows} x {width} where {rows} x {dim} is due")
    if size < 0 or (size % rows if rows else size):
        reader.refuse(f"its {what} has {size} codes for {rows} rows")
    codes = np.asarray(reader.array("u1", (rows, size // rows if rows else 0), what), np.uint8)
    centroids, sub_dim = _read_quantizer(reader, dim, codes.shape[1], what)
    norms = np.zeros(0, np.float32)
    if has_norms:
        numbers = reader.array("u1", (rows,), what)
        norms = _read_quantizer(reader, 1, 1, what)[0][numbers.astype(np.int64)]
    return QuantizedTable(codes, centroids, norms, dim, sub_dim)


def _read_quantizer(reader: _Reader, dim: int, pieces: int, what: str) -> tuple[Floats, int]:
    """256 centroids for each piece of a row."""
    found_dim, found_pieces, sub_dim, last = reader.unpack(struct.Struct("<4i"), what)
    fits = found_dim == dim and found_pieces == pieces and sub_dim > 0 and -(-dim // sub_dim) == pieces
    if not fits or last != (dim % sub_dim or sub_dim):
        reader.refuse(f"the quantiser of its {what} cuts {found_dim} dimensions into {found_pieces} of {sub_dim}")
    return _floats(reader, (dim * _CENTROIDS,), what), sub_dim


def _floats(reader: _Reader, shape: tuple[int, ...], what: str) -> Floats:
    return np.asanyarray(reader.array("<f4", shape, what), np.float32)


# -- classifiers


def is_classifier_file(path: Path) -> bool:
    """Whether a file begins as a supervised model of fastText does."""
    if not path.is_file():
        return False
    with open(path, "rb") as handle:
        head = handle.read(8 + _ARGS.size)
    magic = head[:4] == FASTTEXT_MAGIC.to_bytes(4, "little")
    return magic and len(head) == 8 + _ARGS.size and _ARGS.unpack_from(head, 8)[7] == 3


def read_classifier(path: Path) -> Classifier:
    """A supervised model, whole or quantised."""
    found = read_file(path)
    if not found.is_classifier:
        raise FirthError(f"{path}: word vectors ({MODELS[found.settings.model]}), no classifier; it has no labels")
    if not found.labels:
        raise FirthError(f"{path}: a classifier without labels; train it again")
    settings = found.settings
    config = ClassifierConfig.build(
        {
            "dim": settings.dim,
            "word_ngrams": max(settings.word_ngrams, 1),
            "min_count": max(settings.min_count, 1),
            "min_n": max(0, min(settings.minn, settings.maxn)),
            "max_n": max(settings.maxn, 0),
            "bucket": settings.bucket,
            "loss": _LOSSES[settings.loss],
            "negatives": max(settings.neg, 1),
            "epochs": max(settings.epoch, 1),
        },
        path,
    )
    labels = tuple(label.decode(*_ENCODING).removeprefix(LABEL_PREFIX) for label in found.labels)
    if len(set(labels)) != len(labels):
        raise FirthError(f"{path}: two of its labels are the same; train it again")
    matrices = (found.inputs, found.outputs, found.num_tokens)
    return Classifier(config, _features(found), found.counts, labels, found.label_counts, *matrices)


def _features(found: FastTextFile) -> Features:
    settings = found.settings
    lengths = (max(settings.word_ngrams, 1), max(settings.minn, 0), max(settings.maxn, 0), settings.bucket)
    if found.pruned is None:
        return Features(found.words, *lengths, BEHIND_WORDS)
    keys, rows = found.pruned[:, 0].astype(np.int64), found.pruned[:, 1] + np.int32(len(found.words))
    return Features(found.words, *lengths, DROPPED, keys, rows)


def write_classifier(classifier: Classifier, path: Path) -> None:
    """A whole ``.bin`` that the original reads."""
    config, features = classifier.config, classifier.features
    if not isinstance(classifier.inputs, DenseTable) or not isinstance(classifier.outputs, DenseTable):
        raise FirthError(f"{path}: a quantised classifier cannot be written as a whole one; copy its file")
    codes = {name: code for code, name in _LOSSES.items()}
    bucket = features.bucket
    settings = Settings(
        config.dim, 5, config.epochs, config.min_count, config.negatives, config.word_ngrams, codes[config.loss],
        3, bucket, config.min_n, config.max_n,
    )  # fmt: skip
    used = np.arange(bucket) if features.missing == BEHIND_WORDS else features.keys
    labels = [(LABEL_PREFIX + label).encode(*_ENCODING) for label in classifier.labels]
    entries = Entries(features.words, classifier.counts, labels, classifier.label_counts, classifier.num_tokens)
    write_file(path, settings, entries, classifier.inputs.matrix, used, classifier.outputs.matrix)


@dataclass(frozen=True)
class Entries:
    """The dictionary of a file."""

    words: Sequence[bytes]
    counts: NDArray[np.int64]
    labels: Sequence[bytes] = ()
    label_counts: NDArray[np.int64] | None = None
    num_tokens: int = 0


def write_file(
    path: Path, settings: Settings, entries: Entries, inputs: Floats, used: NDArray[np.int64], outputs: Floats
) -> None:
    """Version 12, whole. ``inputs`` has the words, then the buckets ``used``; all other buckets are zero and take no space
    on a disk that knows holes (the original has noise there)."""
    num_words, num_labels = len(entries.words), len(entries.labels)
    for word in (*entries.words, *entries.labels):
        if b"\0" in word:
            raise FirthError(f"{path}: the word {word!r} has a zero byte in it, which fastText's format cannot hold")
    with atomic_file(path) as handle:
        handle.write(struct.pack("<2i", FASTTEXT_MAGIC, FASTTEXT_VERSION))
        handle.write(_ARGS.pack(*vars(settings).values()))
        handle.write(_SIZES.pack(num_words + num_labels, num_words, num_labels, entries.num_tokens, -1))
        _write_entries(handle, zip(entries.words, entries.counts.tolist(), strict=True), 0)
        if entries.label_counts is not None:
            _write_entries(handle, zip(entries.labels, entries.label_counts.tolist(), strict=True), 1)
        handle.write(b"\0" + struct.pack("<2q", num_words + settings.bucket, settings.dim))
        handle.write(np.ascontiguousarray(inputs[:num_words], "<f4").data)
        _write_buckets(handle, settings, inputs[num_words:], used)
        handle.write(b"\0" + struct.pack("<2q", len(outputs), settings.dim))
        handle.write(np.ascontiguousarray(outputs, "<f4").data)


def _write_entries(handle: BinaryIO, entries: Iterable[tuple[bytes, int]], kind: int) -> None:
    for word, count in entries:
        handle.write(word + b"\0" + struct.pack("<qb", count, kind))


def _write_buckets(handle: BinaryIO, settings: Settings, rows: Floats, used: NDArray[np.int64]) -> None:
    """Stretches of neighbours at once, holes between them."""
    start, width = handle.tell(), settings.dim * 4
    breaks = np.flatnonzero(np.diff(used) != 1) + 1
    for some, part in zip(np.split(used, breaks), np.split(rows, breaks), strict=True):
        if len(some):
            handle.seek(start + int(some[0]) * width)
            handle.write(np.ascontiguousarray(part, "<f4").data)
    handle.seek(start + settings.bucket * width)
