"""Training fastText's classifier: texts and labels in, a ``Classifier`` out; a pure function of them, the settings, the seed and
the number of threads.

Departures from the original: texts come in a new random order in every epoch (the original reads the file from top to
bottom, and learns badly from one that is sorted by label), only buckets that occur have a row (the others are zero;
the original has noise there), and threads do not overwrite one another.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from firth.core.config import usable_cores
from firth.core.errors import FirthError
from firth.core.types import generator, hashed
from firth.vectors.classifier import (
    EMPTY,
    Classifier,
    ClassifierConfig,
    DenseTable,
    Features,
    Floats,
    Scan,
    build_tree,
    type_buckets,
)
from firth.vectors.learners import padded
from firth.vectors.vocabulary import noise_table

_BLOCK_ROWS = 32_768  # that a thread reads on its own before what all have learned is put together
_LEAST_BLOCKS = 40  # an epoch of few texts is cut finer than that
_THREAD_ROWS = _LEAST_BLOCKS * _BLOCK_ROWS  # of an epoch: with fewer for each thread, fewer threads are faster
_SIX = 6
Result = TypeVar("Result")
Report = Callable[[int, float], None]  # texts read so far, mean loss


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with the numbers of their labels; labels by falling frequency."""

    scan: Scan
    labels: tuple[str, ...]
    label_counts: NDArray[np.int64]
    numbers: NDArray[np.int64]  # of all texts one after another
    ends: NDArray[np.int64]  # [N+1], from 0

    @cached_property
    def num_tokens(self) -> int:
        """As the original counts: words, ends of texts and labels."""
        return len(self.scan.tokens) + len(self.numbers)


def label_texts(scan: Scan, labels: Sequence[Sequence[str]], min_count: int = 0) -> LabelledTexts:
    """Labels that are rarer than ``min_count`` are passed over."""
    counts: dict[str, int] = {}
    for some in labels:
        for label in some:
            counts[label] = counts.get(label, 0) + 1
    kept = sorted((label for label in counts if counts[label] >= min_count), key=lambda label: -counts[label])
    number = {label: place for place, label in enumerate(kept)}
    lists = [[number[label] for label in some if label in number] for some in labels]
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(one) for one in lists], dtype=np.int64)))
    flat = np.fromiter((one for some in lists for one in some), np.int64, int(ends[-1]))
    return LabelledTexts(scan, tuple(kept), np.asarray([counts[label] for label in kept], np.int64), flat, ends)


class Vocabulary:
    """The words that occur often enough, by falling frequency, and those of pre-trained vectors."""

    def __init__(self, scan: Scan, min_count: int, more: Sequence[bytes] = ()) -> None:
        types = np.flatnonzero((scan.counts >= min_count) & scan.is_word)
        found = {scan.spellings[one]: int(scan.counts[one]) for one in types.tolist()}
        for word in more:
            found[word] = found.get(word, 0) + 1
        self.words = sorted(found, key=lambda word: -found[word])
        self.counts = np.asarray([found[word] for word in self.words], np.int64)


class ClassifierTraining:
    """The two matrices and what they learn from."""

    def __init__(
        self, texts: LabelledTexts, config: ClassifierConfig, vectors: Mapping[str, Floats] | None = None
    ) -> None:
        self.texts, self.config = texts, config
        if not texts.labels:
            raise FirthError(f"no label occurs {config.min_count_label} times: lower min_count_label")
        if config.loss == "negative" and len(texts.labels) < 2:
            raise FirthError("negative sampling needs two labels at least: choose loss=softmax")
        more = [word.encode() for word in vectors] if vectors else []
        self.vocabulary = Vocabulary(texts.scan, config.min_count, more)
        if not self.vocabulary.words:
            raise FirthError(f"no word occurs {config.min_count} times: lower min_count or give more text")
        self.features, by_bucket = self._features()
        self.rows, self.row_ends = self.features.of(texts.scan, by_bucket)
        self.sizes = np.diff(self.row_ends)
        self.threads = max(1, min(config.threads or usable_cores(), len(self.rows) // _THREAD_ROWS))
        self._build_matrices(vectors)

    def _features(self) -> tuple[Features, NDArray[np.int32]]:
        """The buckets that occur get rows; with them a table from bucket to row."""
        config, scan, words = self.config, self.texts.scan, self.vocabulary.words
        bucket = config.bucket if config.hashes else 0
        marks = np.zeros(bucket, np.int32)
        if bucket and config.word_ngrams > 1:
            from firth.vectors.line_kernels import mark_ngrams

            mark_ngrams(scan.ends, scan.tokens, scan.is_word, scan.hashes, config.word_ngrams, bucket, marks)
        if bucket and config.max_n:
            spellings = [word for word, is_word in zip(scan.spellings, scan.is_word.tolist(), strict=True) if is_word]
            marks[type_buckets(spellings, config.min_n, config.max_n, bucket)[0]] = 1
        keys = np.flatnonzero(marks)
        rows = (len(words) + np.arange(len(keys))).astype(np.int32)
        by_bucket = np.full(bucket, EMPTY, np.int32)
        by_bucket[keys] = rows
        lengths = (config.word_ngrams, config.min_n, config.max_n, bucket)
        return Features(words, *lengths, EMPTY, keys, rows), by_bucket

    def _build_matrices(self, vectors: Mapping[str, Floats] | None) -> None:
        """Inputs uniform in +-1/dim, or what is known of a word; outputs zero."""
        words, dim = self.vocabulary.words, self.config.dim
        self.num_rows = len(words) + len(self.features.keys)
        self.longest = int(self.sizes.max(initial=1))
        self.room = 0
        if self.threads > 1:
            self.room = min(self.num_rows, self._block_rows() + self.longest)
        self.inputs = padded(self.num_rows + self.threads * self.room, dim)
        random, width = generator(self.config.seed, 1), np.float32(2.0 / dim)
        for first in range(0, self.num_rows, 65_536):
            part = self.inputs[first : min(first + 65_536, self.num_rows), :dim]
            part[:] = (random.random(part.shape, np.float32) - np.float32(0.5)) * width
        for word, row in (vectors or {}).items():
            self.inputs[self.features.number[word.encode()], :dim] = row
        num_outputs = -(-len(self.texts.labels) // _SIX) * _SIX
        self.outputs = padded(num_outputs, dim)

    def _block_rows(self) -> int:
        return max(64, min(_BLOCK_ROWS, len(self.rows) // (_LEAST_BLOCKS * self.threads)))

    # -- learning

    def run(self, report: Report | None = None) -> float:
        """All epochs; returns the mean loss of the last one. ``report`` is called between blocks."""
        from firth.vectors.classifier_kernels import Output, Texts

        texts, config = self.texts, self.config
        kinds = ("softmax", "hierarchical", "negative", "one_vs_all")
        tree = build_tree(texts.label_counts.tolist() if config.loss == "hierarchical" else [1])
        most = max(int(np.diff(tree.path_ends).max(initial=0)), config.negatives + 1, len(texts.labels))
        noise = noise_table(texts.label_counts, 0.5)
        sizes = (kinds.index(config.loss), len(texts.labels), noise, config.negatives)
        self.output = Output(*sizes, tree.path_ends, tree.path_nodes, tree.path_goals, most + _SIX)
        self.kernel_texts = Texts(self.rows, self.row_ends, texts.numbers, texts.ends)
        loss = 0.0
        with ThreadPoolExecutor(self.threads) as pool:
            for epoch in range(config.epochs):
                loss = self._run_epoch(epoch, pool, report)
        return loss

    def _run_epoch(self, epoch: int, pool: ThreadPoolExecutor, report: Report | None) -> float:
        order = generator(self.config.seed, 2, epoch).permutation(len(self.texts.scan))
        rates = self.rates(epoch, order)
        row_sums = np.cumsum(self.sizes[order])
        share = self._block_rows() * self.threads if self.threads > 1 else _BLOCK_ROWS * 8
        wanted = np.arange(share, int(row_sums[-1]), share) if len(row_sums) else np.zeros(0, np.int64)
        blocks = np.unique(np.concatenate(([0], np.searchsorted(row_sums, wanted), [len(order)])))
        key = np.uint64(int(hashed(self.config.seed, 3, epoch)))
        block = self._alone if self.threads == 1 else _Together(self, pool).run
        total, count = 0.0, 0
        for first, last in zip(blocks[:-1].tolist(), blocks[1:].tolist(), strict=True):
            found, watched = block(order[first:last], rates[first:last], key)
            total, count = total + found, count + watched
            if report is not None:
                report(epoch * len(order) + last, total / max(count, 1))
        return total / max(count, 1)

    def rates(self, epoch: int, order: NDArray[np.int64]) -> Floats:
        """Linear decay by tokens: (1 - those read so far / those of all epochs)."""
        sizes = np.diff(self.texts.scan.ends)[order] + np.diff(self.texts.ends)[order]
        before = epoch * self.texts.num_tokens + np.cumsum(sizes) - sizes
        progress = before / max(1, self.texts.num_tokens * self.config.epochs)
        return (self.config.learning_rate * (1.0 - progress)).astype(np.float32)

    def _alone(self, order: NDArray[np.int64], rates: Floats, key: np.uint64) -> tuple[float, int]:
        return self.part(order, rates, key, np.zeros(0, np.int32), 0, self.outputs)

    def part(
        self,
        order: NDArray[np.int64],
        rates: Floats,
        key: np.uint64,
        slots: NDArray[np.int32],
        own: int,
        outputs: Floats,
    ) -> tuple[float, int]:
        """What one thread does."""
        from firth.vectors.classifier_kernels import train_texts

        matrices = (self.inputs.reshape(-1), outputs.reshape(-1))
        return train_texts(
            self.kernel_texts, order, rates, slots, own, *matrices, self.output, self.inputs.shape[1], self.longest, key
        )

    def classifier(self) -> Classifier:
        """What was learned."""
        dim, texts = self.config.dim, self.texts
        inputs = DenseTable(np.ascontiguousarray(self.inputs[: self.num_rows, :dim]))
        outputs = DenseTable(np.ascontiguousarray(self.outputs[: len(texts.labels), :dim]))
        counts = (self.vocabulary.counts, texts.labels, texts.label_counts)
        return Classifier(self.config, self.features, *counts, inputs, outputs, texts.num_tokens)


class _Together:
    """The blocks of an epoch by several threads."""

    def __init__(self, training: ClassifierTraining, pool: ThreadPoolExecutor) -> None:
        self.training, self.pool, self.threads = training, pool, training.threads
        self.marks = np.full(training.num_rows, -1, np.int64)
        self.slots = np.full(training.num_rows, -1, np.int32)
        self.shared = np.empty(training.room, np.int64)
        self.copies = np.stack([training.outputs] * self.threads)
        self.stamp = 0

    def _each(self, work: Callable[[int], Result]) -> list[Result]:
        """The work of every thread, the first one's in this one."""
        others = [self.pool.submit(work, one) for one in range(1, self.threads)]
        return [work(0), *(other.result() for other in others)]

    def run(self, order: NDArray[np.int64], rates: Floats, key: np.uint64) -> tuple[float, int]:
        from firth.vectors.classifier_kernels import copy_shared, merge_outputs, merge_shared, plan_block

        training, threads = self.training, self.threads
        inputs, dim = training.inputs.reshape(-1), training.inputs.shape[1]
        sums = np.cumsum(training.sizes[order])
        wanted = sums[-1] * np.arange(1, threads) / threads
        borders = np.concatenate(([0], np.searchsorted(sums, wanted), [len(order)])).astype(np.int64)
        num = plan_block(training.kernel_texts, order, borders, self.marks, self.stamp, self.slots, self.shared)
        self.stamp += threads
        places = (training.num_rows, training.room, threads, dim)
        copy_shared(inputs, self.shared, num, *places)

        def work(one: int) -> tuple[float, int]:
            part, own = slice(borders[one], borders[one + 1]), training.num_rows + one * training.room
            return training.part(order[part], rates[part], key, self.slots, own, self.copies[one])

        found = self._each(work)
        self._each(
            lambda one: merge_shared(
                inputs, self.shared, num * one // threads, num * (one + 1) // threads, self.slots, *places
            )
        )
        merge_outputs(training.outputs.reshape(-1), self.copies.reshape(-1), threads, dim)
        return sum(loss for loss, _ in found), sum(count for _, count in found)


def train_classifier(
    texts: LabelledTexts,
    config: ClassifierConfig,
    report: Report | None = None,
    vectors: Mapping[str, Floats] | None = None,
) -> tuple[Classifier, float]:
    """The classifier, and the mean loss of the last epoch."""
    training = ClassifierTraining(texts, config, vectors)
    loss = training.run(report)
    return training.classifier(), loss


_GOOD: tuple[Mapping[str, object], ...] = (
    {},
    {"word_ngrams": 2, "min_n": 0, "max_n": 0, "learning_rate": 0.5, "dim": 50},
    {"word_ngrams": 2, "min_n": 2, "max_n": 5, "learning_rate": 0.25, "dim": 50},
    {"word_ngrams": 1, "min_n": 0, "max_n": 0, "learning_rate": 0.25, "dim": 50},
    {"word_ngrams": 2, "min_n": 1, "max_n": 3, "learning_rate": 0.5, "dim": 50},
)
"""Where a search begins; the first are the settings that it was given."""
_LENGTHS = ((0, 0), (1, 3), (2, 5), (3, 6))  # of character n-grams
_STREAM = 0xA070


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and what came of them."""

    config: ClassifierConfig
    score: float
    seconds: float


@dataclass
class Search:
    """``ask`` for settings, ``tell`` how they did; what is ``fixed`` stays as it was given."""

    start: ClassifierConfig
    fixed: Set[str]
    trials: list[Trial] = field(default_factory=list)

    @property
    def best(self) -> Trial | None:
        """The first of the highest."""
        return max(self.trials, key=lambda trial: trial.score, default=None)

    def tell(self, trial: Trial) -> None:
        self.trials.append(trial)

    def ask(self, progress: float) -> ClassifierConfig:
        """The next settings; ``progress`` is the part of the time that is gone. The same trials and progress
        give the same settings."""
        number = len(self.trials)
        if number < len(_GOOD):
            return self._with(self.start, dict(_GOOD[number]))
        assert self.best is not None
        return self._step(self.best.config, number, progress)

    def _with(self, config: ClassifierConfig, changes: dict[str, object]) -> ClassifierConfig:
        lengths = {"min_n", "max_n"}
        fixed = set(self.fixed) | (lengths if self.fixed & lengths else set())
        return config.replace(**{name: value for name, value in changes.items() if name not in fixed})

    def _step(self, best: ClassifierConfig, number: int, progress: float) -> ClassifierConfig:
        random = generator(self.start.seed, _STREAM, number)
        part = 2.0 * min(0.5, max(progress - 0.25, 0.0))  # from 0 to 1 between a quarter and three quarters of the time

        def near(value: float, low: float, high: float, first: float, last: float, linear: bool = False) -> float:
            move = float(random.normal(0.0, first - (first - last) * part))
            return min(high, max(low, value + move if linear else value * 2.0**move))

        place = _LENGTHS.index((best.min_n, best.max_n)) if (best.min_n, best.max_n) in _LENGTHS else 0
        min_n, max_n = _LENGTHS[round(near(place, 0, len(_LENGTHS) - 1, 2.0, 0.7, linear=True))]
        changes: dict[str, object] = {
            "epochs": round(near(best.epochs, 1, 100, 1.4, 0.7)),
            "learning_rate": near(best.learning_rate, 0.01, 5.0, 1.4, 0.7),
            "dim": round(near(best.dim, 2, 500, 1.4, 0.3)),
            "word_ngrams": round(near(best.word_ngrams, 1, 5, 1.5, 0.7, linear=True)),
            "min_n": min_n,
            "max_n": max_n,
        }
        return self._with(best, changes)
