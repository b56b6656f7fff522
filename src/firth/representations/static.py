"""Static vectors as a representation: a table has one layer, and a text is the words in it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.text_reader import TextReader
from firth.core.types import Encoding
from firth.representations.base import Found, Representation, TextLayers
from firth.representations.checks import require_pool
from firth.text.word_tokens import white_spans
from firth.text.words import split_words
from firth.vectors.word_vectors import WordVectors

_POOLS = ("mean", "max")


def words_of(text: str | list[str], whitespace_only: bool = False) -> tuple[list[str], NDArray[np.int64]]:
    """The words of a text (or those given) with their characters in it; given ones as if a space stood between."""
    if not isinstance(text, list):
        spans = white_spans(text) if whitespace_only else split_words(text)
        return [text[start:end] for start, end in spans], np.asarray(spans, np.int64).reshape(-1, 2)
    ends = np.cumsum([len(word) + 1 for word in text]) - 1 if text else np.zeros(0, np.int64)
    starts = ends - np.asarray([len(word) for word in text], np.int64)
    return text, np.stack((starts, ends), axis=1).astype(np.int64)


class StaticRepresentation(Representation):
    """What ``firth.load`` gives for word2vec, fastText, GloVe and files of vectors."""

    kind = "static vectors"

    def __init__(self, vectors: WordVectors, whitespace_only: bool = False) -> None:
        """``whitespace_only``: texts are parted as those that the vectors were learned from."""
        self.vectors, self.whitespace_only = vectors, whitespace_only
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
        words, offsets = words_of(text, self.whitespace_only)
        hidden = np.zeros((1, len(words), self.dim), np.float32)
        for place, word in enumerate(words):
            row = self._row(word)
            if row is not None:
                hidden[0, place] = row
        return TextLayers(words, offsets, np.arange(len(words)), hidden)

    def reader(self) -> TextReader:
        """The table for a task. Words that the table lacks but n-grams can spell get rows as they are met."""
        from firth.models.lookup import Lookup

        known = self.vectors
        table = np.zeros((len(known) + 2, self.dim), np.float32)
        table[2:] = known.rows(0, len(known))
        module = Lookup(table)
        numbers = {word: place + 2 for place, word in enumerate(known.words)}

        def number_of(word: str) -> int:
            for form in (word, word.lower()):
                if form in numbers:
                    return numbers[form]
            if known.subwords is None:
                return 1
            numbers[word] = module.add(known[word])
            return numbers[word]

        def tokenize(text: str | list[str]) -> Encoding:
            words, offsets = words_of(text, self.whitespace_only)
            ids = np.asarray([number_of(word) for word in words], np.int64)
            return Encoding(ids, offsets, np.arange(len(words)), words, np.zeros(len(words), np.int64))

        return TextReader(self.kind, module, tokenize, self.dim, num_layers=1, max_len=None)

    def encode(self, texts: str | Sequence[str], layer: int = -1, pool: str = "mean") -> NDArray[np.float32]:
        """The mean (or largest) of the vectors of the known words of each text."""
        require_pool(pool, _POOLS)
        if layer not in (-1, 0):
            raise FirthError(f"layer {layer} does not exist: static vectors have layer 0 only")
        texts = [texts] if isinstance(texts, str) else list(texts)
        found = np.zeros((len(texts), self.dim), np.float32)
        for place, text in enumerate(texts):
            words, _ = words_of(text, self.whitespace_only)
            rows = [row for word in words if (row := self._row(word)) is not None]
            if rows:
                found[place] = np.mean(rows, axis=0) if pool == "mean" else np.max(rows, axis=0)
        return found

    def nearest(self, word: str, top: int = 10) -> list[Found]:
        return self.vectors.nearest(word, top)

    def similarity(self, first: str, second: str) -> float:
        return self.vectors.similarity(first, second)

    def analogy(self, first: str, second: str, third: str, top: int = 10, method: Any = "add") -> list[Found]:
        return self.vectors.analogy(first, second, third, top, method)
