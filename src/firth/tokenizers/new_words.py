"""Words that a text has and the segmenter's dictionary lacks: sequences of ideographs that keep together and stand in many
surroundings.

A sequence keeps together (cohesion) if it is more frequent than its two parts would make it, wherever it is parted: the least
of log p(ab) / (p(a) p(b)). It is free if many characters stand before and behind it: the lesser of the two entropies of its
neighbours (Sproat & Shih 1990; Jin & Tanaka-Ishii 2006 for the entropy of borders).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import regex
from numpy.typing import NDArray

from firth.tokenizers.segmentation import Segmentation

_RUN = regex.compile(r"\p{Han}+")
_MAX_CHARS = 20_000_000
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NewWord:
    """A proposed word: how often it stands in the text, its cohesion (nats), the entropies of its neighbours (nats)."""

    word: str
    count: int
    cohesion: float
    left_entropy: float
    right_entropy: float

    @property
    def score(self) -> float:
        return self.cohesion + min(self.left_entropy, self.right_entropy)


def propose_words(
    texts: Iterable[str],
    segmentation: Segmentation,
    min_count: int = 5,
    max_len: int = 4,
    min_cohesion: float = 3.0,
    min_entropy: float = 1.0,
) -> list[NewWord]:
    """The best first; those that the segmenter keeps whole already are left out."""
    codes = _codes(texts)
    found: list[NewWord] = []
    levels = list(_levels(codes, min_count, max_len))
    for length, level in enumerate(levels[1:], 2):
        cohesion = _cohesion(levels, length, int((codes > 0).sum()))
        before, behind = (_entropies(level, codes, place) for place in (-1, length))
        kept = (cohesion >= min_cohesion) & (np.minimum(before, behind) >= min_entropy)
        for number in np.flatnonzero(kept).tolist():
            place = int(level.first[number])
            word = "".join(map(chr, codes[place : place + length].tolist()))
            values = (float(cohesion[number]), float(before[number]), float(behind[number]))
            found.append(NewWord(word, int(level.counts[number]), *values))
    found = [one for one in found if len(segmentation.cut(one.word)) > 1]
    return sorted(found, key=lambda one: (-one.score, one.word))


def _codes(texts: Iterable[str]) -> Ints:
    """The ideographs of all texts as code points, with a 0 around every run of them."""
    parts: list[str] = ["\0"]
    size = 0
    for text in texts:
        for run in _RUN.findall(text):
            parts += run, "\0"
            size += len(run) + 1
        if size > _MAX_CHARS:
            break
    return np.frombuffer("".join(parts).encode("utf-32-le"), np.uint32).astype(np.int64)


@dataclass(frozen=True)
class _Level:
    """The frequent sequences of one length: which of them begins at each place (-1: none), their counts, and where each
    stands first."""

    at: Ints
    counts: Ints
    first: Ints


def _levels(codes: Ints, min_count: int, max_len: int) -> Iterator[_Level]:
    """One for each length from 1 on. A frequent sequence begins with a frequent one, so only those are gone on with."""
    at = np.where(codes > 0, codes, -1)
    for length in range(1, max_len + 1):
        if length > 1:
            following = np.zeros_like(codes)
            following[: -(length - 1)] = codes[length - 1 :]
            at = np.where((at >= 0) & (following > 0), at * (1 << 21) + following, -1)
        keys, first, number, counts = np.unique(at, return_index=True, return_inverse=True, return_counts=True)
        wanted = (keys >= 0) & (counts >= (min_count if length > 1 else 1))
        rank = np.where(wanted, np.cumsum(wanted) - 1, -1)
        at = rank[number].astype(np.int64)
        yield _Level(at, counts[wanted].astype(np.int64), first[wanted].astype(np.int64))


def _cohesion(levels: list[_Level], length: int, total: int) -> NDArray[np.float64]:
    """The least log p(ab) / (p(a) p(b)) of all ways to part each sequence of this length."""
    level = levels[length - 1]
    whole = np.log(level.counts / total)
    least = np.full(len(whole), np.inf)
    for cut in range(1, length):
        head, tail = levels[cut - 1], levels[length - cut - 1]
        parts = np.log(head.counts[head.at[level.first]] / total) + np.log(
            tail.counts[tail.at[level.first + cut]] / total
        )
        least = np.minimum(least, whole - parts)
    return least


def _entropies(level: _Level, codes: Ints, place: int) -> NDArray[np.float64]:
    """Of the characters at ``place`` from where each sequence begins; the border of a run is one of them."""
    where = np.flatnonzero(level.at >= 0)
    if not len(where):
        return np.zeros(0)
    pairs = level.at[where] * (1 << 21) + codes[np.minimum(where + place, len(codes) - 1)]
    keys, counts = np.unique(pairs, return_counts=True)
    owner = keys >> 21
    shares = counts / level.counts[owner]
    found: NDArray[np.float64] = np.bincount(owner, -shares * np.log(shares), minlength=len(level.counts)).astype(float)
    return found
