"""What is hidden as a whole: phrases that the corpus itself shows, and entities from a list (Sun et al. 2019).

Two neighbouring words belong together if they meet far more often than chance: by their normalised
pointwise mutual information, log(p(xy) / p(x)p(y)) / -log p(xy), which is 1 for words that are never
apart and 0 for strangers (Bouma 2009). A phrase is a chain of such pairs. Words are told by the word
bits of the corpus, so that in Chinese they are segmented words.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import hashed
from firth.corpus.format import Split


def word_hashes(ids: NDArray[np.int64], begins: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A number for each word, equal for equal words; ``begins`` marks the first token of each."""
    starts = np.flatnonzero(begins)
    if not len(starts):
        return np.zeros(0, np.uint64)
    inside = np.arange(len(ids)) - np.repeat(starts, np.diff(np.append(starts, len(ids))))
    with np.errstate(over="ignore"):
        sums: NDArray[np.uint64] = np.add.reduceat(hashed(ids, inside), starts)
    return sums


def pair_hashes(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return hashed(first, second)


def find_phrases(split: Split, sample_tokens: int, min_count: int, min_score: float) -> NDArray[np.uint64]:
    """The hashes, sorted, of all pairs of words that belong together, from the first tokens of a split."""
    size = min(sample_tokens, len(split.tokens))
    if not size:
        return np.zeros(0, np.uint64)
    begins = split.word_starts(0, size)
    borders = np.asarray(split.sentences)
    borders = borders[borders < size]
    begins[borders] = True
    begins[0] = True
    words = word_hashes(np.asarray(split.tokens[:size], np.int64), begins)
    opens = np.isin(np.flatnonzero(begins), borders)[1:]  # the second word begins a sentence: no pair
    first, second = words[:-1][~opens], words[1:][~opens]
    _, number, counts = np.unique(words, return_inverse=True, return_counts=True)
    pairs, at, pair_counts = np.unique(pair_hashes(first, second), return_index=True, return_counts=True)
    here = np.flatnonzero(~opens)[at]
    p_first = counts[number[:-1][here]] / len(words)
    p_second = counts[number[1:][here]] / len(words)
    p_pair = pair_counts / max(len(first), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.log(p_pair / (p_first * p_second)) / -np.log(p_pair)
    return pairs[(pair_counts >= min_count) & (scores >= min_score)]


def join_phrases(
    ids: NDArray[np.int64], units: NDArray[np.int64], phrases: NDArray[np.uint64], longest: int
) -> NDArray[np.int64]:
    """The units [T] of a row, words at first, with the words of a phrase as one; -1 stays what it was."""
    places = np.flatnonzero(units >= 0)
    if not len(places) or not len(phrases):
        return units
    inner, owner = ids[places], units[places]
    begins = np.append(True, owner[1:] != owner[:-1])
    starts = np.flatnonzero(begins)
    words = word_hashes(inner, begins)
    near = np.diff(places)[starts[1:] - 1] == 1  # nothing special between the two words
    keys = pair_hashes(words[:-1], words[1:])
    at = np.minimum(np.searchsorted(phrases, keys), len(phrases) - 1)
    together = (phrases[at] == keys) & near
    group = np.zeros(len(words), np.int64)
    length = 1
    for word in range(1, len(words)):
        length = length + 1 if together[word - 1] and length < longest else 1
        group[word] = group[word - 1] + (length == 1)
    out = units.copy()
    out[places] = group[np.cumsum(begins) - 1]
    return out


class Entities:
    """A list of names as token ids, found in rows, the longest first."""

    def __init__(self, names: Sequence[Sequence[int]], inner_ids: Sequence[int]) -> None:
        """``inner_ids`` are tokens that cannot begin a word: a name does not end before one."""
        self.by_first: dict[int, list[tuple[int, ...]]] = {}
        for name in sorted({tuple(name) for name in names if len(name)}, key=lambda name: (-len(name), name)):
            self.by_first.setdefault(name[0], []).append(name)
        self.inner = frozenset(inner_ids)

    def __len__(self) -> int:
        return sum(len(names) for names in self.by_first.values())

    def join(self, ids: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The units [T] of a row with each name as one unit of its own."""
        out = units.copy()
        row, able = ids.tolist(), (units >= 0).tolist()
        fresh = int(units.max()) + 1
        at = 0
        while at < len(row):
            size = self._match(row, able, at)
            if size:
                out[at : at + size] = fresh
                tail = at + size  # what is left of a word that the name cut through is another unit
                while tail < len(row) and able[tail] and units[tail] == units[at + size - 1]:
                    out[tail] = fresh + 1
                    tail += 1
                fresh += 2
            at += max(size, 1)
        return out

    def _match(self, row: list[int], able: list[bool], at: int) -> int:
        for name in self.by_first.get(row[at], ()) if able[at] else ():
            end = at + len(name)
            if tuple(row[at:end]) == name and all(able[at:end]) and (end == len(row) or row[end] not in self.inner):
                return len(name)
        return 0
