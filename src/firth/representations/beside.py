"""Word vectors beside any representation, as tasks with ELMo have them (Peters et al. 2018, §3.3: ``[x; ELMo]``)."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.core.text_reader import TextReader
from firth.core.types import Encoding
from firth.models.beside import Beside, join_ids
from firth.models.lookup import Lookup
from firth.representations.static import StaticRepresentation


class WordsBeside(NamedTuple):
    """Word vectors, and where they were read from."""

    vectors: StaticRepresentation
    path: Path


def read_beside(reader: TextReader, vectors: StaticRepresentation) -> TextReader:
    """The reader with a word's vector for each of its tokens; the vectors do not learn."""
    words = vectors.reader()
    assert isinstance(words.module, Lookup)

    def tokenize(text: str | list[str]) -> Encoding:
        found = reader.tokenize(text)
        spelt = words.tokenize(_spelt(found, text)).ids
        return replace(found, ids=join_ids(found.ids, spelt[np.cumsum(_first(found.words)) - 1]))

    module = Beside(reader.module, words.module)
    return replace(reader, module=module, tokenize=tokenize, pooler=None, beside_dim=vectors.dim)


def _first(words_T: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a word begins."""
    found = np.ones(len(words_T), np.bool_)
    found[1:] = words_T[1:] != words_T[:-1]
    return found


def _spelt(encoding: Encoding, text: str | list[str]) -> list[str]:
    """The words that tokens belong to, as they stand in the text."""
    starts = np.flatnonzero(_first(encoding.words)).tolist()
    if isinstance(text, list):
        return [text[int(encoding.words[start])] for start in starts]
    ends = [*starts[1:], len(encoding.words)] if starts else []
    return [
        text[int(encoding.offsets[start, 0]) : int(encoding.offsets[end - 1, 1])].strip()
        for start, end in zip(starts, ends, strict=True)
    ]
