"""Vectors as text: word2vec (and fastText .vec) with a first line "count dim", GloVe without, and the
pair of TSV files of TensorBoard's projector. An error names file and line."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from firth.core.config import show_count
from firth.core.errors import FirthError
from firth.core.files import atomic_file
from firth.vectors.word_vectors import WordVectors

_BLOCK = 4096  # lines


def check_words(words: Sequence[str], path: Path) -> None:
    """Text formats cannot hold every word; nor can word2vec's binary one."""
    for word in words:
        if not word or any(mark in word for mark in " \n\t\r"):
            raise FirthError(
                f"{path}: the word {word!r} is empty or has white space in it, which this format cannot hold; write safetensors instead"
            )
        if not word.isascii():
            try:
                word.encode()
            except UnicodeEncodeError:
                raise FirthError(f"{path}: the word {word!r} is not Unicode text and cannot be written") from None


def check_rows(path: Path, words: Sequence[str], matrix: NDArray[np.floating], first_line: int | None) -> None:
    """No word twice, no number that is not finite; an error names the line, or the number of the word."""

    def place(number: int) -> str:
        return f"{path}, line {number + first_line}" if first_line else f"{path}, word {number + 1}"

    for first in range(0, len(matrix), 65_536):
        bad = np.flatnonzero(~np.isfinite(matrix[first : first + 65_536]).all(1))
        if len(bad):
            number = first + int(bad[0])
            raise FirthError(
                f"{place(number)}: the vector of '{words[number]}' has NaN or infinity in it; train or export the vectors again"
            )
    if len(set(words)) < len(words):
        seen: dict[str, int] = {}
        for number, word in enumerate(words):
            if word in seen:
                raise FirthError(
                    f"{place(number)}: the word '{word}' is there twice (first as number {seen[word] + 1}); remove one of them"
                )
            seen[word] = number


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Lines from 1 on; only a line feed ends one, since words may have other separators in them."""
    with open(path, encoding="utf-8", newline="\n") as handle:
        try:
            for number, line in enumerate(handle, 1):
                yield number, line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise FirthError(f"{path}: not UTF-8 text (byte {error.start} of a line); convert it first") from None


def _row_error(path: Path, number: int, line: str, dim: int) -> FirthError:
    word, *fields = line.rstrip(" ").split(" ")
    if len(fields) < dim:
        return FirthError(
            f"{path}, line {number}: the row of '{word}' is short: {len(fields)} numbers where {dim} are expected; the file is cut or damaged"
        )
    if len(fields) > dim:
        return FirthError(
            f"{path}, line {number}: {len(fields)} fields after '{word}' where {dim} are expected: a word with spaces, or a row that is too long; fix or remove the line"
        )
    return FirthError(f"{path}, line {number}: the row of '{word}' has something in it that is not a number")


def _parse_block(path: Path, lines: list[tuple[int, str]], dim: int, separator: str) -> NDArray[np.float32]:
    """[lines, dim]; parsed at once, and line by line only to find out which one is wrong."""
    rows = np.empty((len(lines), dim), np.float32)
    for place, (number, line) in enumerate(lines):
        fields = line.rstrip(" ").split(separator)[-dim:] if separator == "\t" else line.rstrip(" ").split(" ")[1:]
        try:
            if len(fields) != dim:
                raise ValueError
            rows[place] = fields
        except ValueError:
            raise _row_error(path, number, line, dim) from None
    return rows


def read_text(path: Path, header: bool) -> WordVectors:
    """word2vec or fastText text (``header``), or GloVe text."""
    lines = _numbered(path)
    count = dim = None
    words: list[str] = []
    blocks: list[NDArray[np.float32]] = []
    held: list[tuple[int, str]] = []
    if header:
        first = next(lines)[1]
        try:
            count, dim = (int(part) for part in first.split())
        except ValueError:
            raise FirthError(
                f"{path}, line 1: '{first[:40]}' is not a header of two numbers, words and dimensions"
            ) from None
        if count < 1 or dim < 1:
            raise FirthError(
                f"{path}, line 1: the header says {count} words of {dim} dimensions; both must be positive"
            )
        if count * dim > path.stat().st_size:  # a number takes a digit and a space
            raise FirthError(
                f"{path}, line 1: the header says {show_count(count)} words of {show_count(dim)} dimensions, more than the file holds; it is cut or its header wrong"
            )
    for number, line in lines:
        if not line.strip():
            continue
        if dim is None:
            dim = len(line.rstrip(" ").split(" ")) - 1
            if dim < 1:
                raise FirthError(f"{path}, line {number}: no numbers behind the word '{line[:40]}'")
        words.append(line[: line.find(" ")])
        held.append((number, line))
        if len(held) == _BLOCK:
            blocks.append(_parse_block(path, held, dim, " "))
            held = []
    if dim is None or not words:
        raise FirthError(f"{path}: no word vector in it")
    blocks.append(_parse_block(path, held, dim, " "))
    if count is not None and count != len(words):
        raise FirthError(
            f"{path}, line 1: the header says {count} words, but {len(words)} follow; the file is cut or its header wrong"
        )
    matrix = np.concatenate(blocks)
    check_rows(path, words, matrix, 2 if header else 1)
    return WordVectors(words, matrix)


def write_text(vectors: WordVectors, path: Path, header: bool) -> None:
    """Nine digits, which give the same float32 back."""
    check_words(vectors.words, path)
    with atomic_file(path) as handle:
        if header:
            handle.write(f"{len(vectors)} {vectors.dim}\n".encode())
        _write_rows(vectors, handle, " ", with_words=True)


def _write_rows(vectors: WordVectors, handle: BinaryIO, separator: str, with_words: bool) -> None:
    form = separator.join(["%.9g"] * vectors.dim) + "\n"
    for first in range(0, len(vectors), _BLOCK):
        for place, row in enumerate(vectors.rows(first, first + _BLOCK).tolist()):
            name = vectors.words[first + place] + separator if with_words else ""
            handle.write((name + form % tuple(row)).encode())


def metadata_path(path: Path) -> Path:
    """The file of the words next to a projector's file of numbers: vectors.tsv -> metadata.tsv, any
    other x.tsv -> x_metadata.tsv."""
    if path.stem in ("vectors", "tensors"):
        return path.with_name("metadata.tsv")
    return path.with_name(f"{path.stem}_metadata.tsv")


def read_projector(path: Path) -> WordVectors:
    labels = metadata_path(path)
    if not labels.is_file():
        raise FirthError(f"{labels}: missing; the projector's {path.name} needs its words in the same folder")
    words = [line.split("\t")[0] for _, line in _numbered(labels)]
    lines = [(number, line) for number, line in _numbered(path) if line]
    if len(words) == len(lines) + 1 and "\t" in next(_numbered(labels))[1]:
        words = words[1:]  # several columns have names
    if len(words) != len(lines):
        raise FirthError(f"{labels}: {len(words)} words, but {path.name} has {len(lines)} rows; they belong together")
    dim = lines[0][1].count("\t") + 1
    for number, line in lines:
        if line.count("\t") + 1 != dim:
            raise FirthError(
                f"{path}, line {number}: the row is short or long: {line.count(chr(9)) + 1} numbers where {dim} are expected"
            )
    matrix = _parse_block(path, lines, dim, "\t")
    check_rows(path, words, matrix, 1)
    return WordVectors(words, matrix)


def write_projector(vectors: WordVectors, path: Path) -> None:
    check_words(vectors.words, path)
    if metadata_path(path).exists():
        raise FirthError(
            f"{metadata_path(path)}: exists already, and the words would be written there; choose another name"
        )
    with atomic_file(metadata_path(path)) as handle:
        handle.write("".join(f"{word}\n" for word in vectors.words).encode())
    with atomic_file(path) as handle:
        _write_rows(vectors, handle, "\t", with_words=False)
