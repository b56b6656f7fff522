"""The types of a word corpus as numbers for a model of characters: which are known, how each is spelt.

Types are numbered by frequency; behind them stand the begin and the end of a sentence, and "unknown". The
*known* ones are what a softmax can predict: these three marks, then the most frequent types (the order of
published vocabulary files).

N words, M characters.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from firth.text.character_ids import border_ids, character_ids, trimmed

MARKS = ["<S>", "</S>", "<UNK>"]


class Spellings:
    """All types of a corpus; the first ``num_types`` of them are known."""

    def __init__(self, words: list[str], num_types: int, max_chars: int) -> None:
        self.words = words
        self.num_types = num_types
        self.max_chars = max_chars
        self.begin, self.end, self.unknown = range(len(words), len(words) + 3)

    @property
    def num_known(self) -> int:
        return self.num_types + len(MARKS)

    @property
    def known_words(self) -> list[str]:
        """The lines of a vocabulary file."""
        return MARKS + self.words[: self.num_types]

    def known(self, types: NDArray[np.int64]) -> NDArray[np.int64]:
        """Types to what a softmax predicts."""
        found = np.where(types < self.num_types, types + len(MARKS), 2)
        return np.where(types == self.begin, 0, np.where(types == self.end, 1, found))

    def types(self, known: NDArray[np.int64]) -> NDArray[np.int64]:
        """And back."""
        return np.where(known < len(MARKS), known + len(self.words), known - len(MARKS))

    @cached_property
    def _table(self) -> NDArray[np.uint16]:
        spelt = np.empty((len(self.words) + 3, self.max_chars), np.uint16)
        for start in range(0, len(self.words), 65536):
            some = self.words[start : start + 65536]
            spelt[start : start + len(some)] = character_ids(some, self.max_chars)
        spelt[self.begin : self.unknown] = border_ids(self.max_chars)
        spelt[self.unknown] = character_ids([MARKS[2]], self.max_chars)[0]
        return spelt

    def characters(self, types: NDArray[np.int64], widest: int) -> NDArray[np.int64]:
        """[N, M] as published, with no more padding than a convolution of that width can tell apart."""
        return trimmed(self._table[types], widest).astype(np.int64)
