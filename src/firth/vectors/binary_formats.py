"""Vectors in binary files: word2vec's ``.bin``, safetensors, fastText's ``.bin``.

The safetensors part writes a stream and reads memory maps, since the safetensors library copies everything both
ways. The format: the length of a JSON header in 8 bytes, the header, the arrays end to end.

V words, D dimensions, K buckets: a matrix is [V, D], that of fastText [V + K, D].
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import atomic_file, foreign_errors, parse_json
from firth.core.types import Array, Arrays
from firth.vectors.classifier import DenseTable
from firth.vectors.fasttext_format import Entries, Settings, read_file, write_file
from firth.vectors.text_formats import check_rows, check_words
from firth.vectors.vocabulary import all_buckets
from firth.vectors.word_vectors import Matrix, Subwords, WordVectors

_TYPES = {"F32": "<f4", "F64": "<f8", "I8": "i1", "U8": "u1", "I32": "<i4", "I64": "<i8"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_Natural = Annotated[int, Field(ge=0, lt=1 << 62)]
_MAX_NGRAM = 100  # letters of an n-gram; fastText's are 3 to 6
_COPY_BYTES = 1 << 24
_BLOCK = 16_384


class _Entry(Config):
    """One array in the header of a safetensors file."""

    dtype: str
    shape: tuple[_Natural, ...]
    data_offsets: tuple[_Natural, _Natural]


def save_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Writes the file whole or not at all; the widest dtypes first, so that all are aligned."""
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.size * array.dtype.itemsize
        header[name] = {
            "dtype": _NAMES[array.dtype.newbyteorder("<")],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as handle:
        handle.write(len(text).to_bytes(8, "little"))
        handle.write(text)
        for name in names:
            array = arrays[name]
            step = max(1, _COPY_BYTES // max(1, array[:1].nbytes))
            for first in range(0, len(array), step):
                handle.write(np.ascontiguousarray(array[first : first + step]).data)


def is_arrays(path: Path) -> bool:
    """Whether the file begins like safetensors."""
    with open(path, "rb") as handle:
        head = handle.read(9)
    return len(head) == 9 and head[8:] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size


def map_arrays(path: Path) -> tuple[Arrays, dict[str, str]]:
    """The arrays as read-only memory maps, and the metadata."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            if not 0 < length <= size - 8:
                raise ValueError("its header is cut off")
            header = parse_json(handle.read(length), path, "copy it again")
        if not isinstance(header, dict):
            raise ValueError("its header is no object with names")
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict):
            raise ValueError("its metadata are no object with names")
        found = {name: _mapped(path, 8 + length, size, entry) for name, entry in header.items()}
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FirthError(f"{path}: not a whole safetensors file ({error}); copy it again") from None
    return found, {name: str(value) for name, value in metadata.items()}


def _mapped(path: Path, start: int, size: int, entry: object) -> Array:
    found = _Entry.build(entry, path)
    begin, end = found.data_offsets
    if found.dtype not in _TYPES:
        raise ValueError(f"its type {found.dtype[:20]} is not one of {', '.join(_TYPES)}")
    dtype, shape = np.dtype(_TYPES[found.dtype]), found.shape
    if begin > end or start + end > size or math.prod(shape) * dtype.itemsize != end - begin:
        raise ValueError("its arrays are cut off")
    if begin == end:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start + begin, shape)


# -- word2vec: "count dim\n", then for each word: its bytes, a space, the floats, perhaps a line feed


def read_word2vec(path: Path) -> WordVectors:
    data = np.memmap(path, np.uint8, "r")
    head = data[:100].tobytes().partition(b"\n")[0]
    try:
        count, dim = (int(part) for part in head.split())
    except ValueError:
        raise FirthError(f"{path}, line 1: not a header of two numbers, words and dimensions") from None
    if count < 1 or dim < 1:
        raise FirthError(f"{path}, line 1: the header says {count} words of {dim} dimensions; both must be positive")
    if len(data) < count * (dim * 4 + 2):
        raise FirthError(
            f"{path}, line 1: the header says {count} words of {dim} dimensions, more than the file holds; it is cut or its header wrong"
        )
    words, offsets = _scan_words(path, data, len(head) + 1, count, dim * 4)
    # One element per vector, at any byte: NumPy copies each whole, whatever its alignment.
    records = np.ndarray((len(data) - dim * 4 + 1,), f"V{dim * 4}", data, strides=(1,))
    matrix = records[offsets].view("<f4").reshape(count, dim)
    check_rows(path, words, matrix, None)
    return WordVectors(words, matrix)


def _scan_words(
    path: Path, data: NDArray[np.uint8], start: int, count: int, width: int
) -> tuple[list[str], NDArray[np.int64]]:
    import mmap

    offsets = np.empty(count, np.int64)
    spellings: list[bytes] = []
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as view:
        size, place = len(view), start
        for number in range(count):
            end = view.find(b" ", place, place + 10_000)
            if end < 0 or end + 1 + width > size:
                raise FirthError(
                    f"{path}, word {number + 1}: its row is short or missing; the file is cut or its header wrong"
                )
            spellings.append(view[place:end])
            offsets[number] = end + 1
            place = end + 1 + width
        rest = view[place : place + 2]
    if rest.strip(b"\n"):
        raise FirthError(f"{path}, line 1: more follows after the {count} words that the header says; it is wrong")
    words = [spelling.lstrip(b"\n").decode("utf-8", "replace") for spelling in spellings]
    for number, word in enumerate(words):
        if not word:
            raise FirthError(f"{path}, word {number + 1}: an empty word, or one with spaces; the file is damaged")
    return words, offsets


def write_word2vec(vectors: WordVectors, path: Path) -> None:
    check_words(vectors.words, path)
    with atomic_file(path) as handle:
        handle.write(f"{len(vectors)} {vectors.dim}\n".encode())
        for first in range(0, len(vectors), _BLOCK):
            rows = np.ascontiguousarray(vectors.rows(first, first + _BLOCK), "<f4")
            width, raw = vectors.dim * 4, rows.tobytes()
            handle.writelines(
                vectors.words[first + place].encode() + b" " + raw[place * width : (place + 1) * width] + b"\n"
                for place in range(len(rows))
            )


# -- safetensors


def read_safetensors(path: Path) -> WordVectors:
    """Memory-mapped: only the words are read at once."""
    arrays, metadata = map_arrays(path)
    if "vectors" not in arrays or "words" not in arrays:
        raise FirthError(f"{path}: no word vectors in it (an array 'vectors' and an array 'words' are needed)")
    with foreign_errors(path, "word vectors (their words are no UTF-8)"):
        words = arrays["words"].tobytes().decode().split("\n")
    matrix = arrays["vectors"]
    if matrix.ndim != 2 or len(words) != len(matrix):
        raise FirthError(f"{path}: {len(words)} words, but vectors of shape {list(matrix.shape)}; the file is damaged")
    subwords = None
    if "ngrams" in arrays:
        with foreign_errors(path, "word vectors with n-grams (min_n and max_n in the metadata)"):
            shortest, longest = int(metadata["min_n"]), int(metadata["max_n"])
            _check_ngrams(shortest, longest, arrays["ngrams"].shape, matrix.shape[1])
        subwords = Subwords(arrays["ngrams"], shortest, longest, len(arrays["ngrams"]))
    for name in ("scales", "counts"):
        if name in arrays and arrays[name].shape[:1] != (len(words),):
            raise FirthError(f"{path}: '{name}' has not a number for each word; the file is damaged")
    return WordVectors(words, matrix, arrays.get("scales"), subwords, arrays.get("counts"))


def _check_ngrams(shortest: int, longest: int, shape: tuple[int, ...], dim: int) -> None:
    if not 0 < shortest <= longest <= _MAX_NGRAM or len(shape) != 2 or shape[1] != dim or not shape[0]:
        raise ValueError(f"n-grams of {shortest} to {longest} letters in a table of {list(shape)}")


def write_safetensors(vectors: WordVectors, path: Path) -> None:
    for word in vectors.words:
        if "\n" in word:
            raise FirthError(f"{path}: the word {word!r} has a line feed in it, which no vector format can hold")
    try:
        spelled = "\n".join(vectors.words).encode()
    except UnicodeEncodeError:  # of a fastText file, which may hold any bytes
        raise FirthError(f"{path}: a word is not Unicode text and cannot be written") from None
    arrays: Arrays = {"vectors": vectors.matrix, "words": np.frombuffer(spelled, np.uint8)}
    metadata = {"format": "firth-vectors"}
    if vectors.scales is not None:
        arrays["scales"] = vectors.scales
    if vectors.counts is not None:
        arrays["counts"] = vectors.counts
    if vectors.subwords is not None:
        arrays["ngrams"] = vectors.subwords.rows
        metadata |= {"min_n": str(vectors.subwords.shortest), "max_n": str(vectors.subwords.longest)}
    save_arrays(path, arrays, metadata)


# -- fastText's model of words; the file itself is read and written by ``fasttext_format``


def read_fasttext(path: Path) -> WordVectors:
    """Words get the mean of their rows, as the original answers; buckets stay memory-mapped."""
    found = read_file(path, with_outputs=False)
    if not isinstance(found.inputs, DenseTable):
        raise FirthError(f"{path}: a quantized fastText model; of word vectors only whole ones (.bin) can be read")
    settings, table = found.settings, found.inputs.matrix
    words = [word.decode("utf-8", "surrogateescape") for word in found.words]
    subwords = None
    if settings.maxn and len(table) > len(words):
        subwords = Subwords(table[len(words) :], settings.minn, settings.maxn, settings.bucket)
    matrix = _word_means(words, table, subwords)
    check_rows(path, words, matrix, None)
    return WordVectors(words, matrix, None, subwords, found.counts)


def _word_means(words: list[str], table: Matrix, subwords: Subwords | None) -> NDArray[np.float32]:
    if subwords is None:
        return np.asarray(table[: len(words)], np.float32)
    buckets, starts = all_buckets(words, subwords.shortest, subwords.longest, subwords.bucket)
    matrix = np.array(table[: len(words)], np.float32)
    for first in range(0, len(words), _BLOCK):
        last = min(first + _BLOCK, len(words))
        rows = np.asarray(subwords.rows[buckets[starts[first] : starts[last]]], np.float32)
        some = starts[first:last] - starts[first]
        full = np.diff(starts[first : last + 1]) > 0
        if full.any():
            matrix[first:last][full] += np.add.reduceat(rows, some[full], axis=0)
        matrix[first:last] /= (1 + np.diff(starts[first : last + 1])).astype(np.float32)[:, None]
    return matrix


def write_fasttext(
    path: Path,
    words: list[str],
    counts: NDArray[np.int64],
    inputs: NDArray[np.float32],
    used: NDArray[np.int64],
    outputs: NDArray[np.float32],
    settings: dict[str, Any],
) -> None:
    """The published .bin (version 12) of word vectors; see ``write_file``."""
    check_words(words, path)
    given = Settings(
        dim=inputs.shape[1],
        ws=settings["window"],
        epoch=settings["epochs"],
        min_count=settings["min_count"],
        neg=settings["negatives"],
        word_ngrams=1,
        loss={"hierarchical": 1, "negative": 2}[settings["loss"]],
        model={"cbow": 1, "skipgram": 2}[settings["architecture"]],
        bucket=settings["bucket"],
        minn=settings["min_n"],
        maxn=settings["max_n"],
        t=settings["sample"],
    )
    spellings = [word.encode("utf-8", "surrogateescape") for word in words]
    write_file(path, given, Entries(spellings, counts, num_tokens=int(counts.sum())), inputs, used, outputs)
