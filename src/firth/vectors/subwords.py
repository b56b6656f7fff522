"""Character n-grams and their buckets, as in fastText (Bojanowski et al. 2017, section 3.2).

A word is set between ``<`` and ``>``; its n-grams are counted in characters, hashed over their
UTF-8 bytes with 32-bit FNV-1a. The original reads each byte as a *signed* char before mixing it
in, so bytes from 0x80 on flip the upper 24 bits as well: kept, since every published model has it.
"""

import numpy as np
from numpy.typing import NDArray

_MASK = 0xFFFFFFFF
END_OF_SENTENCE = "</s>"


def fnv1a(data: bytes) -> int:
    """32-bit FNV-1a with fastText's sign extension of bytes from 0x80 on."""
    value = 2166136261
    for byte in data:
        value ^= byte if byte < 0x80 else byte | 0xFFFFFF00
        value = (value * 16777619) & _MASK
    return value


def word_ngrams(word: str, shortest: int, longest: int) -> list[str]:
    """The n-grams of ``<word>``, by place and then length, as the original lists them. A single
    boundary mark is none; ``</s>`` has none at all."""
    if word == END_OF_SENTENCE:
        return []
    marked = f"<{word}>"
    found = []
    for start in range(len(marked)):
        for size in range(1, min(longest, len(marked) - start) + 1):
            end = start + size
            if size >= shortest and not (size == 1 and (start == 0 or end == len(marked))):
                found.append(marked[start:end])
    return found


def word_buckets(word: str, shortest: int, longest: int, bucket: int) -> list[int]:
    """The bucket of each n-gram; an n-gram that occurs twice is listed twice, as in the original."""
    if not bucket:
        return []
    return [fnv1a(gram.encode()) % bucket for gram in word_ngrams(word, shortest, longest)]


class Bags:
    """The rows of every word: its own (its number), then its buckets.

    Of two million buckets a vocabulary reaches a part; only those get a row while training
    (``used``, by rising number), which keeps the table small and near. ``starts`` and ``rows`` list
    the rows of each word one after another.
    """

    def __init__(self, words: list[str], shortest: int, longest: int, bucket: int) -> None:
        buckets = [word_buckets(word, shortest, longest, bucket) for word in words]
        flat = np.fromiter((one for some in buckets for one in some), np.int64, sum(map(len, buckets)))
        self.used, place = np.unique(flat, return_inverse=True)
        lens = np.asarray([1 + len(some) for some in buckets], np.int64)
        self.starts: NDArray[np.int64] = np.concatenate((np.zeros(1, np.int64), np.cumsum(lens)))
        self.rows: NDArray[np.int32] = np.empty(int(self.starts[-1]), np.int32)
        own = np.zeros(len(self.rows), np.bool_)
        own[self.starts[:-1]] = True
        self.rows[own] = np.arange(len(words))
        self.rows[~own] = len(words) + place
        self.num_rows = len(words) + len(self.used)
