"""Static vectors as a representation: a table has one layer, and a text is the words in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.representations.base import Found, Representation, TextLayers
from firth.text.words import split_words
from firth.vectors.word_vectors import WordVectors

_POOLS = ("mean", "max")


class StaticRepresentation(Representation):
    """What ``firth.load`` gives for word2vec, fastText, GloVe and files of vectors."""

    kind = "static vectors"

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors
        self.dim = vectors.dim

    @property
    def num_parameters(self) -> int:
        return len(self.vectors) * self.vectors.dim

    def _row(self, word: str) -> NDArray[np.float32] | None:
        """The word's vector as it is written, else in lower case, else made of its n-grams."""
        for form in (word, word.lower()):
            if form in self.vectors:
                return self.vectors[form]
        return self.vectors[word] if self.vectors.subwords is not None else None

    def layers(self, text: str | list[str]) -> TextLayers:
        """One layer; zeros for words that nobody knows."""
        if isinstance(text, list):
            words = text
            ends = np.cumsum([len(word) + 1 for word in words]) - 1
            offsets = np.stack((ends - [len(word) for word in words], ends), axis=1) if words else np.zeros((0, 2))
        else:
            spans = split_words(text)
            words = [text[start:end] for start, end in spans]
            offsets = np.asarray(spans).reshape(-1, 2)
        hidden = np.zeros((1, len(words), self.dim), np.float32)
        for place, word in enumerate(words):
            row = self._row(word)
            if row is not None:
                hidden[0, place] = row
        return TextLayers(words, offsets.astype(np.int64), np.arange(len(words)), hidden)

    def encode(self, texts: str | Sequence[str], layer: int = -1, pool: str = "mean") -> NDArray[np.float32]:
        """The mean (or largest) of the vectors of the known words of each text."""
        if pool not in _POOLS:
            raise FirthError(f"unknown pool '{pool}' for static vectors: choose {' or '.join(_POOLS)}")
        if layer not in (-1, 0):
            raise FirthError(f"layer {layer} does not exist: static vectors have layer 0 only")
        texts = [texts] if isinstance(texts, str) else list(texts)
        found = np.zeros((len(texts), self.dim), np.float32)
        for place, text in enumerate(texts):
            rows = [row for start, end in split_words(text) if (row := self._row(text[start:end])) is not None]
            if rows:
                found[place] = np.mean(rows, axis=0) if pool == "mean" else np.max(rows, axis=0)
        return found

    def nearest(self, word: str, top: int = 10) -> list[Found]:
        return self.vectors.nearest(word, top)

    def similarity(self, first: str, second: str) -> float:
        return self.vectors.similarity(first, second)

    def analogy(self, first: str, second: str, third: str, top: int = 10, method: Any = "add") -> list[Found]:
        return self.vectors.analogy(first, second, third, top, method)
