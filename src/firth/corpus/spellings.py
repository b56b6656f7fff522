"""The types of a word corpus as numbers for a model of characters: which are known, how each is spelt.

Types are numbered by frequency; behind them stand the begin and the end of a sentence, and "unknown". The
*known* ones are what a softmax can predict: these three marks, then words by frequency (the order of
published vocabulary files).

N words, M characters.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from firth.text.character_ids import border_ids, character_ids, trimmed

MARKS = ["<S>", "</S>", "<UNK>"]


class Spellings:
    """All types of a corpus, and the words that a softmax knows (most of them types, but not all need be)."""

    def __init__(self, words: list[str], known: list[str], max_chars: int) -> None:
        """``known`` is without the marks."""
        self.max_chars = max_chars
        self.known_words = MARKS + known
        place = {word: number for number, word in enumerate(words)}
        more = [word for word in known if word not in place]
        self.words = words + more
        place |= {word: len(words) + number for number, word in enumerate(more)}
        self.begin, self.end, self.unknown = range(len(self.words), len(self.words) + 3)
        self._type_of = np.asarray([self.begin, self.end, self.unknown, *(place[word] for word in known)], np.int64)
        self._known_of = np.full(len(self.words) + 3, 2, np.int64)
        self._known_of[self._type_of] = np.arange(len(self._type_of))

    @property
    def num_known(self) -> int:
        return len(self.known_words)

    def known(self, types: NDArray[np.int64]) -> NDArray[np.int64]:
        """Types to what a softmax predicts."""
        return self._known_of[types]

    def types(self, known: NDArray[np.int64]) -> NDArray[np.int64]:
        """And back."""
        return self._type_of[known]

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
