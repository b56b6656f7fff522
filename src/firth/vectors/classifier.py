"""fastText's classifier (Joulin et al. 2016, "Bag of Tricks for Efficient Text Classification"): settings, the way from a
text to its rows, and its answers.

A text is the mean of the rows of its words, of their character n-grams and of its hashed word n-grams; one matrix gives
the labels. Everything that decides a number is as in the original: the hash (32-bit FNV-1a over signed bytes), the buckets
behind the words, ``</s>`` at the end of a text, the 1e-5 that is added to a probability, the sigmoid by a table of 512
steps.

N texts, K labels, D dimensions, R rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from firth.core.config import Config, Positive
from firth.core.errors import is_installed

LABEL_PREFIX = "__label__"
END_OF_TEXT = b"</s>"
EMPTY, DROPPED, BEHIND_WORDS = -1, -2, 0  # what a bucket without a row of its own gives; see ``line_kernels``
Floats = NDArray[np.float32]
Loss = Literal["softmax", "hierarchical", "negative", "one_vs_all"]
_STEPS, _SPAN = 512, 8.0  # of the original's sigmoid
ADDED = 1e-5  # what the original adds to a probability before it takes the logarithm
_MANY, _LARGEST = 64, 2**24  # texts that are worth a table from bucket to row, and buckets that it may have
_BLOCK = 4096  # labels that are scored at one time


class ClassifierConfig(Config):
    """Settings in the original's words, with its defaults."""

    dim: Annotated[int, Field(gt=0, le=10_000)] = 100  # dimensions of a vector
    word_ngrams: Annotated[int, Field(gt=0, le=20)] = 1  # longest n-gram of words; 1: words alone
    min_count: Positive = 1  # rarer words are left out
    min_count_label: Annotated[int, Field(ge=0)] = 0  # rarer labels are not learned
    min_n: Annotated[int, Field(ge=0, le=100)] = 0  # shortest n-gram, in characters
    max_n: Annotated[int, Field(ge=0, le=100)] = 0  # longest n-gram, in characters; 0: no n-grams of characters
    bucket: Annotated[int, Field(ge=0, lt=2**31)] = 2_000_000  # rows for n-grams, by hash
    loss: Loss = "softmax"  # how the scores of labels are learned
    negatives: Annotated[int, Field(gt=0, le=200)] = 5  # of loss=negative: noise labels for each text
    epochs: Annotated[int, Field(gt=0, le=1000)] = 5  # passes over the texts
    learning_rate: Annotated[float, Field(gt=0)] = 0.1  # at first
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # same seed, same result
    threads: Positive | None = None  # none: all cores; part of the result

    @model_validator(mode="after")
    def _lengths_in_order(self) -> "ClassifierConfig":
        if self.min_n > self.max_n:
            raise ValueError(f"min_n ({self.min_n}) must be at most max_n ({self.max_n})")
        return self

    @property
    def hashes(self) -> bool:
        """Whether there are n-grams at all."""
        return bool(self.bucket) and (self.word_ngrams > 1 or self.max_n > 0)


# -- texts to rows


@dataclass(frozen=True)
class Scan:
    """The words of many texts as numbers of types; type 0 ends a text."""

    data: bytes
    tokens: NDArray[np.int32]
    ends: NDArray[np.int64]  # [N+1], from 0
    begins: NDArray[np.int64]  # of each type
    sizes: NDArray[np.int32]
    hashes: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.ends) - 1

    @cached_property
    def spellings(self) -> list[bytes]:
        pairs = zip(self.begins.tolist(), self.sizes.tolist(), strict=True)
        return [self.data[begin : begin + size] for begin, size in pairs]

    @cached_property
    def is_word(self) -> NDArray[np.bool_]:
        """Not what begins like a label, which the original passes over."""
        prefix = LABEL_PREFIX.encode()
        return np.asarray([not spelling.startswith(prefix) for spelling in self.spellings], np.bool_)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        return np.bincount(self.tokens, minlength=len(self.begins)).astype(np.int64)


def scan_texts(texts: Sequence[str]) -> Scan:
    """Cuts texts at white space; a line feed within a text is white space."""
    if is_installed("numba"):
        from firth.vectors.line_kernels import scan_lines
    else:
        from firth.vectors.plain import scan_lines

    lines = [text.replace("\n", " ") if "\n" in text else text for text in texts]
    data = END_OF_TEXT + b"\n" + "\n".join(lines).encode("utf-8", "replace") + (b"\n" if lines else b"")
    return Scan(data, *scan_lines(np.frombuffer(data, np.uint8)))


def type_buckets(
    spellings: Sequence[bytes], shortest: int, longest: int, bucket: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The buckets of the character n-grams of words one after another, and [V+1] where each word's begin."""
    if not is_installed("numba"):
        from firth.vectors.plain import buckets_of

        each = [[] if one == END_OF_TEXT else buckets_of(one, shortest, longest, bucket) for one in spellings]
        lens = np.cumsum([0, *map(len, each)], dtype=np.int64)
        return np.asarray([number for some in each for number in some], np.int64), lens
    from firth.vectors.kernels import hash_words

    marked = [b"" if spelling == END_OF_TEXT else b"<" + spelling + b">" for spelling in spellings]
    text = np.frombuffer(b"".join(marked), np.uint8)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(one) for one in marked], dtype=np.int64)))
    ends = np.empty(len(marked), np.int64)
    count = hash_words(text, starts, shortest, longest, bucket, ends, np.empty(0, np.int64))
    found = np.empty(count, np.int64)
    hash_words(text, starts, shortest, longest, bucket, ends, found)
    return found, np.concatenate((np.zeros(1, np.int64), ends))


@dataclass(frozen=True)
class Features:
    """Which rows a text has. ``keys`` are the buckets that have a row (``rows``), by rising number; any other bucket gives
    ``missing``: a row of zeros (EMPTY), nothing (DROPPED), or its own row right behind the words (BEHIND_WORDS)."""

    words: Sequence[bytes]
    word_ngrams: int
    min_n: int
    max_n: int
    bucket: int
    missing: int = BEHIND_WORDS
    keys: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        """The row of every bucket: faster than looking it up among the keys."""
        table = np.full(self.bucket, self.missing, np.int32)
        table[self.keys] = self.rows
        return table

    @cached_property
    def number(self) -> dict[bytes, int]:
        return {word: number for number, word in enumerate(self.words)}

    def of(self, scan: Scan, by_bucket: NDArray[np.int32] | None = None) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The rows of all texts one after another, and [N+1] where each text's end. ``by_bucket`` is a whole table of
        rows, for many texts."""
        if is_installed("numba"):
            from firth.vectors.line_kernels import line_rows
        else:
            from firth.vectors.plain import line_rows

        table = by_bucket
        if table is None:
            many = self.missing != BEHIND_WORDS and len(scan) >= _MANY and self.bucket <= _LARGEST
            table = self._table if many else np.zeros(0, np.int32)
        type_rows, type_ends = self.of_types(scan, table)
        settings = (self.word_ngrams, self.bucket, len(self.words), table, self.keys, self.rows, self.missing)
        return line_rows(scan.ends, scan.tokens, scan.is_word, scan.hashes, type_ends, type_rows, *settings)

    def of_types(
        self, scan: Scan, by_bucket: NDArray[np.int32] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The rows of each type: its own if it is known, then those of its character n-grams."""
        table = np.zeros(0, np.int32) if by_bucket is None else by_bucket
        number = self.number
        own = np.asarray([number.get(spelling, -1) for spelling in scan.spellings], np.int64)
        own[~scan.is_word] = -1
        known = own >= 0
        if not self.bucket or not self.max_n:
            return own[known].astype(np.int32), np.concatenate(([0], np.cumsum(known)))
        buckets, starts = type_buckets(scan.spellings, self.min_n, self.max_n, self.bucket)
        owner = np.repeat(np.arange(len(own)), np.diff(starts))
        rows = self._of_buckets(buckets, table)
        kept = (rows != DROPPED) & scan.is_word[owner]
        every = np.concatenate((own[known], rows[kept]))
        types = np.concatenate((np.flatnonzero(known), owner[kept]))
        order = np.argsort(types, kind="stable")
        counts = np.bincount(types, minlength=len(own))
        return every[order].astype(np.int32), np.concatenate(([0], np.cumsum(counts)))

    def _of_buckets(self, buckets: NDArray[np.int64], table: NDArray[np.int32]) -> NDArray[np.int64]:
        if len(table):
            return table[buckets].astype(np.int64)
        if self.missing == BEHIND_WORDS:
            return len(self.words) + buckets
        if not len(self.keys):
            return np.full(len(buckets), self.missing, np.int64)
        places = np.minimum(np.searchsorted(self.keys, buckets), len(self.keys) - 1)
        return np.where(self.keys[places] == buckets, self.rows[places], self.missing).astype(np.int64)


# -- rows to vectors


class Table(Protocol):
    """A matrix [R, D], whole or quantised."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def add_means(self, rows: NDArray[np.int32], ends: NDArray[np.int64], hidden: Floats) -> None:
        """``hidden`` [N, D], zeros, becomes the mean of each text's rows."""
        ...

    def part(self, first: int, last: int) -> Floats:
        """Some rows."""
        ...


@dataclass(frozen=True)
class DenseTable:
    matrix: Floats

    @property
    def shape(self) -> tuple[int, int]:
        rows, dim = self.matrix.shape
        return rows, dim

    def add_means(self, rows: NDArray[np.int32], ends: NDArray[np.int64], hidden: Floats) -> None:
        if is_installed("numba"):
            from firth.vectors.classifier_kernels import hidden_of_texts
        else:
            from firth.vectors.plain import hidden_of_texts

        hidden_of_texts(rows, ends, self.matrix, hidden)

    def part(self, first: int, last: int) -> Floats:
        return np.asarray(self.matrix[first:last], np.float32)


@dataclass(frozen=True)
class QuantizedTable:
    """A product quantiser (Jégou et al. 2011; Joulin et al. 2016b): a byte for each piece of a row."""

    codes: NDArray[np.uint8]  # [R, pieces]
    centroids: Floats  # flat: 256 for each piece
    norms: Floats  # [R], or empty where rows keep their length
    dim: int
    sub_dim: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.codes), self.dim

    def add_means(self, rows: NDArray[np.int32], ends: NDArray[np.int64], hidden: Floats) -> None:
        if is_installed("numba"):
            from firth.vectors.classifier_kernels import hidden_of_codes
        else:
            from firth.vectors.plain import hidden_of_codes

        hidden_of_codes(rows, ends, self.codes, self.centroids, self.norms, self.sub_dim, hidden)

    def part(self, first: int, last: int) -> Floats:
        rows = np.arange(first, min(last, len(self.codes)), dtype=np.int32)
        found = np.zeros((len(rows), self.dim), np.float32)
        self.add_means(rows, np.arange(len(rows) + 1, dtype=np.int64), found)
        return found


# -- labels


@dataclass(frozen=True)
class Tree:
    """The original's Huffman tree: node K + i has children ``left[i]`` and ``right[i]``, the root is the last."""

    left: NDArray[np.int64]  # [K-1]
    right: NDArray[np.int64]
    path_ends: NDArray[np.int64]  # [K+1]
    path_nodes: NDArray[np.int32]  # from each leaf to the root, less K
    path_goals: Floats  # 1 where the path comes from the right


def build_tree(counts: Sequence[int]) -> Tree:
    """As ``HierarchicalSoftmaxLoss::buildTree``: two queues, leaves from the rarest on and inner nodes by age."""
    size = len(counts)
    weights = [int(count) for count in counts] + [10**15] * (size - 1)
    left, right = np.zeros(max(size - 1, 0), np.int64), np.zeros(max(size - 1, 0), np.int64)
    parent, goal = [-1] * (2 * size - 1), [0.0] * (2 * size - 1)
    leaf, node = size - 1, size
    for inner in range(size, 2 * size - 1):
        children = []
        for _ in range(2):
            if leaf >= 0 and weights[leaf] < weights[node]:
                children.append(leaf)
                leaf -= 1
            else:
                children.append(node)
                node += 1
        left[inner - size], right[inner - size] = children
        weights[inner] = weights[children[0]] + weights[children[1]]
        parent[children[0]] = parent[children[1]] = inner
        goal[children[1]] = 1.0
    ends, nodes, goals = [0], list[int](), list[float]()
    for label in range(size):
        place = label
        while parent[place] >= 0:
            nodes.append(parent[place] - size)
            goals.append(goal[place])
            place = parent[place]
        ends.append(len(nodes))
    return Tree(left, right, np.asarray(ends, np.int64), np.asarray(nodes, np.int32), np.asarray(goals, np.float32))


def sigmoid_by_table(scores: Floats) -> Floats:
    """The original's sigmoid: 512 steps between -8 and 8, 0 and 1 beyond."""
    steps = np.arange(_STEPS + 1, dtype=np.float32) * np.float32(2 * _SPAN) / np.float32(_STEPS) - np.float32(_SPAN)
    table = (1.0 / (1.0 + np.exp(-steps.astype(np.float64)))).astype(np.float32)
    inside = np.clip(scores, -_SPAN, _SPAN)
    found = table[
        ((inside + np.float32(_SPAN)) * np.float32(_STEPS) / np.float32(_SPAN) / np.float32(2)).astype(np.int64)
    ]
    return np.where(scores < -_SPAN, 0.0, np.where(scores > _SPAN, 1.0, found)).astype(np.float32)


@dataclass(frozen=True)
class Classifier:
    """A trained one, from a run or from a file of the original."""

    config: ClassifierConfig
    features: Features
    counts: NDArray[np.int64]  # of the words
    labels: tuple[str, ...]  # by falling frequency
    label_counts: NDArray[np.int64]
    inputs: Table
    outputs: Table
    num_tokens: int = 0  # that it was taught with

    @cached_property
    def tree(self) -> Tree:
        return build_tree(self.label_counts.tolist())

    def vectors(self, texts: Sequence[str]) -> Floats:
        """The mean of each text's rows, [N, D]."""
        return self.vectors_of(scan_texts(texts))

    def vectors_of(self, scan: Scan) -> Floats:
        rows, ends = self.features.of(scan)
        hidden = np.zeros((len(scan), self.config.dim), np.float32)
        self.inputs.add_means(rows, ends, hidden)
        return hidden

    def word_vectors(self, words: Sequence[str]) -> Floats:
        """The mean of each word's own row and those of its character n-grams, [N, D]."""
        scan = scan_texts(words)
        hidden = np.zeros((len(scan.begins), self.config.dim), np.float32)
        self.inputs.add_means(*self.features.of_types(scan), hidden)
        return np.asarray(hidden[scan.tokens[scan.ends[:-1]]])

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """[N, K], as the original gives them: 1e-5 more than they are."""
        return self.scores(self.vectors(texts), ADDED)

    def scores(self, hidden: Floats, added: float = 0.0) -> Floats:
        """Probabilities for the vectors of texts, with something added to each."""
        parts = [hidden @ self.outputs.part(first, first + _BLOCK).T for first in range(0, len(self.labels), _BLOCK)]
        scores = np.concatenate(parts, axis=1)[:, : len(self.labels)]
        if self.config.loss == "softmax":
            scores = np.exp(scores - scores.max(1, keepdims=True))
            return np.asarray(scores / scores.sum(1, keepdims=True) + np.float32(added), np.float32)
        if self.config.loss == "hierarchical":
            if is_installed("numba"):
                from firth.vectors.classifier_kernels import tree_scores
            else:
                from firth.vectors.plain import tree_scores

            chances = (1.0 / (1.0 + np.exp(-scores[:, :-1]))).astype(np.float32)
            found = np.empty_like(scores)
            tree_scores(chances, self.tree.left, self.tree.right, added, found)
            return np.exp(found)
        return sigmoid_by_table(scores) + np.float32(added)
