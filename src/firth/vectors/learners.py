"""What the trainer of static vectors drives: how a text is cut into training steps (``Plan``), the ``Learner``
protocol, and the learner of word2vec and fastText.

A *unit* (document or sentence) is what a window does not reach beyond; a *chunk* is some whole units that one
thread takes; a *step* is some chunks, and a checkpoint may be written after each. All of it is a pure function of
the corpus and the settings.

V words, R input rows (words and n-grams), D dimensions padded to a multiple of eight: inputs [R, D], outputs [V,
D]; with a copy for each thread [threads, R, D] and [threads, V, D].
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from firth.core.types import Array, Arrays, generator, hashed
from firth.corpus.format import Corpus
from firth.vectors.binary_formats import write_fasttext
from firth.vectors.configs import FastTextConfig, VectorsConfig, Word2VecConfig
from firth.vectors.vocabulary import (
    Bags,
    Vocabulary,
    huffman_paths,
    keep_table,
    no_paths,
    noise_table,
    number_types,
)

MAX_UNIT = 10_000  # tokens; a longer document is cut, as gensim does
Matrix = NDArray[np.float32]
Loss = tuple[float, int]
_FREE_CHUNK = 131_072  # tokens that a thread takes at a time where threads share one matrix
_FREE_STEP = 8  # chunks per thread and step
_OWN_STEP = 49_152  # tokens that all threads together read on their own copies before these are merged
_LEAST_STEPS = 40  # an epoch of a small text is cut finer than that


class Text(Protocol):
    """Token ids, and where documents and sentences begin among them: a split of a corpus, or a sample of one."""

    @property
    def tokens(self) -> NDArray[np.integer]: ...
    @property
    def document_starts(self) -> NDArray[np.int64]: ...
    @property
    def sentences(self) -> NDArray[np.int64]: ...


def unit_starts(text: Text, unit: str) -> NDArray[np.int64]:
    """Where each document or sentence begins among the tokens, long ones cut; the end comes last."""
    starts = np.asarray(text.document_starts if unit == "document" else text.sentences, np.int64)
    long = np.flatnonzero(np.diff(starts) > MAX_UNIT)
    cuts = [np.arange(starts[one] + MAX_UNIT, starts[one + 1], MAX_UNIT) for one in long]
    return np.unique(np.concatenate([starts, *cuts])) if cuts else np.unique(starts)


@dataclass(frozen=True)
class Plan:
    """Chunks of whole units, about equal in tokens, grouped into steps, the same in every epoch."""

    starts: NDArray[np.int64]
    chunk_tokens: int
    chunks_per_step: int
    epochs: int

    @cached_property
    def borders(self) -> NDArray[np.int64]:
        """[chunks+1] the unit each chunk begins with."""
        tokens = int(self.starts[-1])
        wanted = np.arange(0, tokens, max(self.chunk_tokens, 1))
        first = np.unique(np.searchsorted(self.starts, wanted))
        first = first[first < len(self.starts) - 1]
        return np.append(first, len(self.starts) - 1)

    @property
    def num_tokens(self) -> int:
        return int(self.starts[-1])

    @property
    def num_chunks(self) -> int:
        return len(self.borders) - 1

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.num_chunks // self.chunks_per_step)

    @property
    def num_steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def step(self, number: int) -> tuple[int, range]:
        """The epoch of a step and its chunks."""
        epoch, place = divmod(number, self.steps_per_epoch)
        first = place * self.chunks_per_step
        return epoch, range(first, min(first + self.chunks_per_step, self.num_chunks))

    def tokens_before(self, number: int) -> int:
        """How many tokens all steps before this one read."""
        epoch, place = divmod(number, self.steps_per_epoch)
        return epoch * self.num_tokens + int(self.starts[self.borders[place * self.chunks_per_step]])


class Learner(Protocol):
    """What the trainer drives. All state is in ``arrays()``; a step is a pure function of it."""

    num_steps: int
    num_tokens: int  # of all steps

    def tokens_before(self, step: int) -> int: ...

    def learning_rate(self, step: int) -> float: ...

    def run_step(self, number: int, pool: ThreadPoolExecutor) -> Loss:
        """Trains; returns the sum of the losses that were measured and their number."""
        ...

    def arrays(self) -> Arrays: ...

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continues from what ``arrays`` returned."""
        ...

    def inherit(self, words: list[str], arrays: Mapping[str, Array]) -> None:
        """Takes over what an earlier model knew of these words; not asked of one that counts first."""
        ...

    def result(self) -> Matrix:
        """The vectors of the words, [V, D]."""
        ...

    def save(self, folder: Path) -> None:
        """Writes the files that only this kind of vectors has."""
        ...

    def close(self) -> None:
        """Removes what it kept while it learned."""
        ...


class BuildLearner(Protocol):
    """How a ``ModelSpec`` of static vectors makes its learner."""

    def __call__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        config: VectorsConfig,
        threads: int,
        folder: Path,
        remap: NDArray[np.int32] | None = None,
    ) -> Learner:
        """``remap``: from the words of the corpus to those of the vocabulary, where it has grown."""
        ...


def kept_matrix(arrays: Mapping[str, Array], which: str) -> Matrix:
    """The input rows, the output rows, or their mean or sum."""
    if which in ("input", "output"):
        return arrays[which]
    total = arrays["input"] + arrays["output"]
    return np.asarray(total / 2 if which == "mean" else total, np.float32)


def padded(rows: int, dim: int) -> Matrix:
    """Zeros [rows, dim rounded up to 8], at the start of a cache line."""
    width = (dim + 7) // 8 * 8
    raw = np.zeros(rows * width + 16, np.float32)
    skip = (-raw.ctypes.data % 64) // 4
    return raw[skip : skip + rows * width].reshape(rows, width)


class WordLearner:
    """The two matrices of word2vec or fastText and the text they learn from.

    ``remap`` maps the word ids of the corpus to those of the vocabulary where this is not a prefix of them.
    """

    def __init__(
        self,
        text: Text,
        vocabulary: Vocabulary,
        config: Word2VecConfig | FastTextConfig,
        threads: int,
        remap: NDArray[np.int32] | None = None,
    ) -> None:
        self.config, self.vocabulary, self.threads, self.remap = config, vocabulary, threads, remap
        self.tokens = text.tokens
        self.apart = config.reproducible and threads > 1
        starts = unit_starts(text, config.unit)
        most = max(1, int(starts[-1]) // (_LEAST_STEPS * threads))
        self.plan = (
            Plan(starts, min(_OWN_STEP // threads, most), threads, config.epochs)
            if self.apart
            else Plan(starts, min(_FREE_CHUNK, most), _FREE_STEP * threads, config.epochs)
        )
        self.num_steps, self.num_tokens = self.plan.num_steps, self.plan.num_tokens * config.epochs
        # Subsampling uses the counts of this text alone, noise all counts so far.
        here = vocabulary.counts if remap is None else self._counts_here(starts)
        self.keep = keep_table(here, config.sample)
        self.noise = noise_table(vocabulary.counts, config.noise_power)
        tree = config.loss == "hierarchical"
        self.paths = huffman_paths(vocabulary.counts) if tree else no_paths()
        self.negatives = 0 if tree else config.negatives
        self.bags = None if config.ngrams is None else Bags(vocabulary.words, *config.ngrams)
        self._build_matrices()

    @classmethod
    def build(
        cls,
        corpus: Corpus,
        vocabulary: Vocabulary,
        config: VectorsConfig,
        threads: int,
        folder: Path,
        remap: NDArray[np.int32] | None = None,
    ) -> "WordLearner":
        assert isinstance(config, Word2VecConfig | FastTextConfig)
        remap = number_types(corpus, vocabulary) if remap is None else remap
        return cls(corpus.train, vocabulary, config, threads, remap)

    def _counts_here(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        assert self.remap is not None
        counts = np.zeros(len(self.vocabulary) + 1, np.int64)
        for first in range(0, int(starts[-1]), 1 << 22):
            part = self.remap[self.tokens[first : min(first + (1 << 22), int(starts[-1]))]]
            counts += np.bincount(part, minlength=len(counts))
        return counts[:-1]

    def _build_matrices(self) -> None:
        """Inputs uniform in +-1/dim (fastText and gensim; word2vec.c begins with half that and learns a
        little later), outputs zero."""
        size, dim = len(self.vocabulary), self.config.dim
        rows = self.bags.num_rows if self.bags else size
        self.inputs, self.outputs = padded(rows, dim), padded(size, dim)
        width = 2.0 / dim
        random = generator(self.config.seed, 1)
        for first in range(0, rows, 65_536):
            part = self.inputs[first : first + 65_536, :dim]
            part[:] = (random.random(part.shape, np.float32) - np.float32(0.5)) * np.float32(width)
        if self.apart:
            self.input_copies = np.stack([self.inputs] * self.threads)
            self.output_copies = np.stack([self.outputs] * self.threads)
            self.touched_inputs = np.zeros((self.threads, rows), np.uint8)
            self.touched_outputs = np.zeros((self.threads, size), np.uint8)

    def tokens_before(self, step: int) -> int:
        return self.plan.tokens_before(step)

    def learning_rate(self, step: int) -> float:
        return self._rate(self.tokens_before(step))

    def _rate(self, tokens: int) -> float:
        """Linear decay to 0, never below a ten-thousandth (word2vec.c)."""
        return max(self.config.rate * (1 - tokens / self.num_tokens), self.config.rate * 1e-4)

    def run_step(self, number: int, pool: ThreadPoolExecutor) -> Loss:
        epoch, chunks = self.plan.step(number)
        if self.apart:
            jobs = [(epoch, chunk, self.input_copies[one], self.output_copies[one]) for one, chunk in enumerate(chunks)]
            marks = list(zip(self.touched_inputs, self.touched_outputs, strict=True))[: len(jobs)]
            losses = list(pool.map(lambda job, mark: self._chunk(*job, *mark), jobs, marks))
            self._merge(pool)
        else:
            none = np.zeros(0, np.uint8)
            losses = list(
                pool.map(lambda chunk: self._chunk(epoch, chunk, self.inputs, self.outputs, none, none), chunks)
            )
        return sum(loss for loss, _ in losses), sum(count for _, count in losses)

    def _chunk(
        self,
        epoch: int,
        chunk: int,
        inputs: Matrix,
        outputs: Matrix,
        in_marks: NDArray[np.uint8],
        out_marks: NDArray[np.uint8],
    ) -> Loss:
        first, last = self.plan.borders[chunk : chunk + 2]
        starts = self.plan.starts[first : last + 1]
        begin = int(starts[0])
        tokens = self.tokens[begin : int(starts[-1])]
        ids = tokens.astype(np.int32) if self.remap is None else self.remap[tokens]
        paths, key = self.paths, int(hashed(self.config.seed, 2, epoch, chunk))
        before = epoch * self.plan.num_tokens + begin
        rate, slope = self._rate(before), self.config.rate / self.num_tokens
        tables = (ids, starts - begin, self.keep, self.noise, paths.starts, paths.nodes, paths.goals)
        matrices = (inputs, outputs, in_marks, out_marks)
        cbow = self.config.architecture == "cbow"
        settings: tuple[Any, ...] = (
            self.config.window,
            self.negatives,
            cbow,
            rate,
            slope,
            self.config.rate * 1e-4,
            np.uint64(key),
        )
        if self.bags:
            from firth.vectors.kernels import train_subwords

            return train_subwords(*tables, self.bags.starts, self.bags.rows, *matrices, *settings)
        from firth.vectors.kernels import train_words

        return train_words(*tables, *matrices, *settings)

    def _merge(self, pool: ThreadPoolExecutor) -> None:
        from firth.vectors.merging import merge_rows

        jobs = []
        for base, copies, touched in (
            (self.inputs, self.input_copies, self.touched_inputs),
            (self.outputs, self.output_copies, self.touched_outputs),
        ):
            borders = np.linspace(0, len(base), 4 * self.threads + 1).astype(np.int64)
            jobs += [(base, copies, touched, *borders[one : one + 2]) for one in range(len(borders) - 1)]
        list(pool.map(lambda job: merge_rows(*job), jobs))

    def arrays(self) -> Arrays:
        dim = self.config.dim
        found: Arrays = {
            "input": self.inputs[:, :dim],
            "output": self.outputs[:, :dim],
            "counts": self.vocabulary.counts,
        }
        return found | ({"buckets": self.bags.used} if self.bags else {})

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continues from what ``arrays`` returned."""
        self.inputs[:, : self.config.dim] = arrays["input"]
        self.outputs[:, : self.config.dim] = arrays["output"]
        self._equal_copies()

    def inherit(self, words: list[str], arrays: Mapping[str, Array]) -> None:
        """Takes over the rows of words (and buckets) that an earlier model had. A tree's inner nodes
        mean something else in another tree, so they start from zero."""
        dim = self.config.dim
        place = {word: number for number, word in enumerate(words)}
        known = np.asarray([place.get(word, -1) for word in self.vocabulary.words], np.int64)
        ours = np.flatnonzero(known >= 0)
        self.inputs[ours, :dim] = arrays["input"][known[ours]]
        if self.negatives:
            self.outputs[ours, :dim] = arrays["output"][known[ours]]
        if self.bags:
            _, here, there = np.intersect1d(self.bags.used, arrays["buckets"], return_indices=True)
            self.inputs[len(self.vocabulary) + here, :dim] = arrays["input"][len(words) + there]
        self._equal_copies()

    def result(self) -> Matrix:
        """fastText's vector of a word is the mean of its bag."""
        arrays, bags = self.arrays(), self.bags
        if bags is None:
            return kept_matrix(arrays, self.config.result)
        matrix = np.empty((len(bags.starts) - 1, self.config.dim), np.float32)
        for first in range(0, len(matrix), 16_384):
            starts = bags.starts[first : first + 16_385]
            sums = np.add.reduceat(arrays["input"][bags.rows[starts[0] : starts[-1]]], starts[:-1] - starts[0], axis=0)
            matrix[first : first + 16_384] = sums / np.diff(starts)[:, None].astype(np.float32)
        return matrix

    def save(self, folder: Path) -> None:
        """fastText's own format, with the n-grams."""
        if self.bags is None:
            return
        arrays, vocabulary = self.arrays(), self.vocabulary
        write_fasttext(
            folder / "model.bin",
            vocabulary.words,
            vocabulary.counts,
            arrays["input"],
            arrays["buckets"],
            arrays["output"],
            self.config.model_dump(),
        )

    def close(self) -> None:
        """Nothing is kept."""

    def _equal_copies(self) -> None:
        if self.apart:
            self.input_copies[:] = self.inputs
            self.output_copies[:] = self.outputs
