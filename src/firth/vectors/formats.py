"""Reads and writes files of vectors; the format is recognised by content.

| format | first bytes | words |
| --- | --- | --- |
| ``word2vec`` | "count dim", then bytes | before each vector |
| ``text`` (word2vec text, fastText .vec) | "count dim", then lines | first field |
| ``glove`` | a word and numbers | first field |
| ``fasttext`` | fastText's magic number | dictionary; n-grams for unknown words |
| ``projector`` | numbers with tabs | in a second file (``metadata_path``) |
| ``safetensors`` | length and JSON | array ``words`` |
"""

import re
from pathlib import Path

from firth.core.errors import FirthError, nearest
from firth.core.files import foreign_errors
from firth.vectors.binary_formats import (
    is_arrays,
    read_fasttext,
    read_safetensors,
    read_word2vec,
    write_safetensors,
    write_word2vec,
)
from firth.vectors.fasttext_format import FASTTEXT_MAGIC
from firth.vectors.text_formats import read_projector, read_text, write_projector, write_text
from firth.vectors.word_vectors import WordVectors

_READERS = {
    "word2vec": read_word2vec,
    "text": lambda path: read_text(path, header=True),
    "glove": lambda path: read_text(path, header=False),
    "fasttext": read_fasttext,
    "projector": read_projector,
    "safetensors": read_safetensors,
}
_WRITERS = {
    "word2vec": write_word2vec,
    "text": lambda vectors, path: write_text(vectors, path, header=True),
    "glove": lambda vectors, path: write_text(vectors, path, header=False),
    "projector": write_projector,
    "safetensors": write_safetensors,
}
_BY_NAME = {".bin": "word2vec", ".vec": "text", ".txt": "text", ".tsv": "projector", ".safetensors": "safetensors"}


def sniff_format(path: Path) -> str:
    """The name of the format, from the first bytes of the file."""
    try:
        with open(path, "rb") as handle:
            head = handle.read(65_536)
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise FirthError(f"{path}: a folder, not a file of vectors") from None
    if not head:
        raise FirthError(f"{path}: empty; no vectors in it")
    if head[:4] == FASTTEXT_MAGIC.to_bytes(4, "little"):
        return "fasttext"
    if is_arrays(path):
        return "safetensors"
    first, _, rest = head.partition(b"\n")
    if re.fullmatch(rb"\s*\d+\s+\d+\s*", first):
        return "text" if _is_text(rest, int(first.split()[1])) else "word2vec"
    fields = first.rstrip(b"\r ").split(b"\t")
    if len(fields) > 1 and all(_is_number(field) for field in fields):
        return "projector"
    fields = first.rstrip(b"\r ").split(b" ")
    if len(fields) > 2 and all(_is_number(field) for field in fields[-2:]):
        return "glove"
    raise FirthError(
        f"{path}, line 1: neither a header 'words dimensions' nor a word with its numbers; no known format of vectors begins so"
    )


def _is_text(rest: bytes, dim: int) -> bool:
    """Whether the second line is a word and numbers; floats as bytes never look like that."""
    line = rest.partition(b"\n")[0].rstrip(b"\r ")
    fields = line.split(b" ")[1:]
    return bool(fields) and all(_is_number(field) for field in fields[: dim if dim > 0 else None])


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return field.isascii()


def load_vectors(path: str | Path) -> WordVectors:
    """Reads a file of vectors in one of the known formats."""
    path = Path(path)
    with foreign_errors(path, "a file of vectors that can be read"):
        return _READERS[sniff_format(path)](path)


def save_vectors(vectors: WordVectors, path: str | Path, format: str | None = None) -> None:
    """Writes ``path``; the format is that of its suffix where none is given (.bin .vec .txt .tsv
    .safetensors). A fastText model is more than its vectors: training writes it."""
    path = Path(path)
    format = format or _BY_NAME.get(path.suffix)
    if format is None:
        raise FirthError(f"{path}: its ending says no format; name one of {', '.join(_WRITERS)}")
    if format not in _WRITERS:
        raise FirthError(f"unknown format '{format}': {nearest(format, list(_WRITERS))}")
    path.parent.mkdir(parents=True, exist_ok=True)
    _WRITERS[format](vectors, path)
