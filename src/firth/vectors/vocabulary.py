"""What training takes from the words and their counts: the vocabulary, the subsampling table, the noise table, the
Huffman tree, and the character n-grams of fastText (hashes, buckets, the rows of every word).
"""

import heapq
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, is_installed
from firth.corpus.format import Corpus

_FULL = 2**32 - 1
_COUNTED = 1 << 24  # tokens at a time
_MASK = 0xFFFFFFFF
END_OF_SENTENCE = "</s>"


@dataclass(frozen=True)
class Vocabulary:
    """Words by falling frequency, so that a known word has id < len(words)."""

    words: list[str]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.words)


def read_words(path: Path) -> list[str]:
    """``words.txt``: one word per line; only a line feed ends one (others occur within words)."""
    return path.read_bytes().decode().split("\n")[:-1]


def count_types(corpus: Corpus) -> tuple[list[str], NDArray[np.int64]]:
    """The tokens of a corpus by their ids, words or pieces, and how often each occurs in its training text. Special tokens, and
    pieces that files of vectors cannot hold (white space), count as absent."""
    if corpus.info.tokens.kind == "words":
        counts = np.fromfile(corpus.folder / "tokenizer" / "counts.bin", np.int64)
        return read_words(corpus.folder / "tokenizer" / "words.txt"), counts
    pieces, tokens = corpus.pieces, corpus.train.tokens
    names = [pieces.token(number) for number in range(corpus.info.vocab_size)]
    counts = np.zeros(len(names), np.int64)
    for first in range(0, len(tokens), _COUNTED):
        counts += np.bincount(tokens[first : first + _COUNTED], minlength=len(names))
    counts[pieces.special_ids] = 0
    counts[[not name or any(mark in name for mark in " \n\t\r") for name in names]] = 0
    return names, counts


def view_vocabulary(corpus: Corpus, min_count: int, max_vocab: int | None) -> Vocabulary:
    """The words or pieces seen often enough, by falling frequency."""
    names, counts = count_types(corpus)
    order = np.argsort(-counts, kind="stable")  # a corpus of words is in this order already
    size = int(np.searchsorted(-counts[order], -min_count, side="right"))
    if max_vocab is not None:
        size = min(size, max_vocab)
    if not size:
        most = int(counts.max()) if len(counts) else 0
        raise FirthError(
            f"{corpus.folder}: no word occurs {min_count} times (the most frequent one {most} times); lower min_count or give more text"
        )
    return Vocabulary([names[number] for number in order[:size].tolist()], counts[order[:size]])


def number_types(corpus: Corpus, vocabulary: Vocabulary) -> NDArray[np.int32] | None:
    """For each type of the corpus its number in the vocabulary (the size means unknown). None: the same numbers, as of a corpus of
    words, of which a vocabulary is the beginning."""
    if corpus.info.tokens.kind == "words":
        return None
    place = {word: number for number, word in enumerate(vocabulary.words)}
    names, _ = count_types(corpus)
    return np.asarray([place.get(name, len(vocabulary)) for name in names], np.int32)


def grow_vocabulary(
    corpus: Corpus, min_count: int, max_vocab: int | None, words: list[str], counts: NDArray[np.int64]
) -> tuple[Vocabulary, NDArray[np.int32]]:
    """All old words, and the words of the corpus seen often enough (at most ``max_vocab`` in all),
    with added counts; and for each type of the corpus its number (the size means unknown)."""
    types, here = count_types(corpus)
    place = {word: number for number, word in enumerate(words)}
    often = view_vocabulary(corpus, min_count, None)
    room = max(0, max_vocab - len(words)) if max_vocab is not None else len(often)
    fresh = [word for word in often.words if word not in place][:room]
    known = words + fresh
    place |= {word: len(words) + number for number, word in enumerate(fresh)}
    number_of = np.fromiter((place.get(word, -1) for word in types), np.int64, len(types))
    total = np.concatenate((counts, np.zeros(len(fresh), np.int64)))
    np.add.at(total, number_of[number_of >= 0], here[number_of >= 0])
    order = np.argsort(-total, kind="stable")
    rank = np.empty(len(order) + 1, np.int32)
    rank[order] = np.arange(len(order))
    rank[-1] = len(order)
    return Vocabulary([known[number] for number in order], total[order]), rank[number_of]


def keep_probabilities(counts: NDArray[np.int64], sample: float) -> NDArray[np.float64]:
    """The probability that subsampling keeps each word: sqrt(t/f) + t/f, as word2vec.c has it (the paper's
    formula, section 2.3 of Mikolov et al. 2013b, lacks the second term). 0 keeps every word."""
    if not sample:
        return np.ones(len(counts))
    ratio = sample * counts.sum() / np.maximum(counts, 1)
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


def keep_table(counts: NDArray[np.int64], sample: float) -> NDArray[np.uint64]:
    """The same in 2^-32, with a 0 at the end for words that are not in the vocabulary."""
    kept = np.round(keep_probabilities(counts, sample) * 2.0**32).astype(np.uint64)
    return np.append(kept, np.uint64(0))


def noise_probabilities(counts: NDArray[np.int64], power: float) -> NDArray[np.float64]:
    weights = counts.astype(np.float64) ** power
    return np.asarray(weights / weights.sum())


def noise_table(counts: NDArray[np.int64], power: float) -> NDArray[np.uint32]:
    """Walker's alias table [V, 2]: exact probabilities in one look-up, 8 bytes per word."""
    shares = noise_probabilities(counts, power) * len(counts)
    table = np.empty((len(counts), 2), np.uint32)
    table[:, 0] = _FULL
    table[:, 1] = np.arange(len(counts))
    order = np.arange(len(counts))
    small, large = order[shares < 1].tolist(), order[shares >= 1].tolist()
    left = shares.tolist()
    while small and large:
        low, high = small.pop(), large[-1]
        table[low] = min(int(left[low] * 2.0**32), _FULL), high
        left[high] -= 1 - left[low]
        if left[high] < 1:
            small.append(large.pop())
    return table


@dataclass(frozen=True)
class Paths:
    """For each word the inner nodes from the root to it, and the goal at each: 1 to go left."""

    starts: NDArray[np.int64]  # [V+1]
    nodes: NDArray[np.int32]
    goals: NDArray[np.float32]


def no_paths() -> Paths:
    return Paths(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


def huffman_paths(counts: NDArray[np.int64]) -> Paths:
    """The Huffman tree over words (hierarchical softmax, Morin and Bengio 2005 with Mikolov's
    coding): V-1 inner nodes, the root last; frequent words have short paths."""
    size = len(counts)
    heap = [(int(count), -number) for number, count in enumerate(counts)]
    heapq.heapify(heap)
    parent = np.zeros(2 * size, np.int64)
    branch = np.zeros(2 * size, np.int8)
    for inner in range(size, 2 * size - 1):
        count_left, left = heapq.heappop(heap)
        count_right, right = heapq.heappop(heap)
        parent[-left] = parent[-right] = inner
        branch[-right] = 1
        heapq.heappush(heap, (count_left + count_right, -inner))
    root = 2 * size - 2
    nodes: list[int] = []
    goals: list[float] = []
    starts = np.zeros(size + 1, np.int64)
    parents, branches = parent.tolist(), branch.tolist()
    for word in range(size):
        path, place = [], word
        while place != root:
            path.append((parents[place] - size, 1.0 - branches[place]))
            place = parents[place]
        for node, goal in reversed(path):
            nodes.append(node)
            goals.append(goal)
        starts[word + 1] = len(nodes)
    return Paths(starts, np.asarray(nodes, np.int32), np.asarray(goals, np.float32))


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
    """The buckets of all words concatenated, and [V+1] where each word's begin. A short list is
    hashed without loading Numba."""
    if len(words) < 1000 or not bucket or not longest or not is_installed("numba"):
        some = [word_buckets(word, shortest, longest, bucket) for word in words]
        lens = np.asarray([len(one) for one in some], np.int64)
        flat = np.fromiter((number for one in some for number in one), np.int64, int(lens.sum()))
        return flat, np.concatenate((np.zeros(1, np.int64), np.cumsum(lens)))
    from firth.vectors.kernels import hash_words

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

    A vocabulary uses a part of the two million buckets; only those get a row in training
    (``used``, by rising number), which keeps the table small. ``starts`` and ``rows`` list
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
