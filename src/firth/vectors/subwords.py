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
    return [fnv1a(gram.encode("utf-8", "surrogateescape")) % bucket for gram in word_ngrams(word, shortest, longest)]


def all_buckets(
    words: list[str], shortest: int, longest: int, bucket: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The buckets of all words one after another, and [V+1] where each word's begin. A short list is
    not worth loading the compiler for."""
    if len(words) < 1000 or not bucket or not longest:
        some = [word_buckets(word, shortest, longest, bucket) for word in words]
        lens = np.asarray([len(one) for one in some], np.int64)
        flat = np.fromiter((number for one in some for number in one), np.int64, int(lens.sum()))
        return flat, np.concatenate((np.zeros(1, np.int64), np.cumsum(lens)))
    from firth.vectors.subword_kernels import hash_words

    marked = [
        b"" if word == END_OF_SENTENCE else b"<" + word.encode("utf-8", "surrogateescape") + b">" for word in words
    ]
    text = np.frombuffer(b"".join(marked), np.uint8)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(one) for one in marked], dtype=np.int64)))
    ends = np.empty(len(words), np.int64)
    count = hash_words(text, starts, shortest, longest, bucket, ends, np.empty(0, np.int64))
    found = np.empty(count, np.int64)
    hash_words(text, starts, shortest, longest, bucket, ends, found)
    return found, np.concatenate((np.zeros(1, np.int64), ends))


class Bags:
    """The rows of every word: its own (its number), then its buckets.

    Of two million buckets a vocabulary reaches a part; only those get a row while training
    (``used``, by rising number), which keeps the table small and near. ``starts`` and ``rows`` list
    the rows of each word one after another.
    """

    def __init__(self, words: list[str], shortest: int, longest: int, bucket: int) -> None:
        flat, starts = all_buckets(words, shortest, longest, bucket)
        self.used, place = np.unique(flat, return_inverse=True)
        self.starts: NDArray[np.int64] = starts + np.arange(len(starts))
        self.rows: NDArray[np.int32] = np.empty(int(self.starts[-1]), np.int32)
        own = np.zeros(len(self.rows), np.bool_)
        own[self.starts[:-1]] = True
        self.rows[own] = np.arange(len(words))
        self.rows[~own] = len(words) + place
        self.num_rows = len(words) + len(self.used)
