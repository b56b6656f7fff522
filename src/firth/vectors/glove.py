"""GloVe (Pennington et al. 2014): weighted least squares on log counts, biases learned.

J = sum over cells of f(X_ij) (w_i . c_j + b_i + b_j - log X_ij)^2, f(x) = min(1, (x / x_max)^alpha).

``GloveLearner`` trains two matrices [V, 2 P] (see ``glove_matrix``) on the cells (row, column, count) of the
co-occurrence matrix. ``Counting`` and what follows it count them: pairs of words go into a hash table, full tables
to disk as sorted runs; the runs are merged, and the cells scattered at random over buckets on disk. Cells are
trained in random order; threads take blocks with no row or column in common, so that the result does not depend on
timing.
"""

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import disk_errors, read_json, write_json
from firth.core.types import Array, Arrays, generator, hashed
from firth.corpus.format import Corpus
from firth.vectors.configs import GloveConfig, VectorsConfig
from firth.vectors.learners import Matrix, Plan, kept_matrix, padded, unit_starts
from firth.vectors.vocabulary import Vocabulary, number_types

_STEPS = 10  # per epoch
_CHUNK = 65_536
ONE = 2**32  # counts are whole numbers of 2^-32
_FULLNESS = 0.7  # of a hash table
_MOST_SLOTS = 1 << 22
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]  # sorted keys (row << 32 | column), values
CELL = np.dtype([("row", "<i4"), ("column", "<i4"), ("count", "<f4")])
Cells = NDArray[np.void]  # of CELL


def cell_weights(counts: NDArray[np.float32], x_max: float, alpha: float) -> NDArray[np.float32]:
    """f(x) of the paper, equation 9."""
    return np.asarray(np.minimum(1.0, (counts / np.float32(x_max)) ** np.float32(alpha)), np.float32)


def glove_matrix(size: int, dim: int, ones_at: int, seed: int, number: int) -> NDArray[np.float32]:
    """[size, 2 P]: vector and bias uniform in +-1/(2 dim), the constant 1, padding, then sums of squares
    that begin at 1."""
    half = (dim + 2 + 7) // 8 * 8
    matrix = padded(size, 2 * half)
    matrix[:, : dim + 2] = (generator(seed, 3, number).random((size, dim + 2), np.float32) - 0.5) / dim
    matrix[:, ones_at] = 1
    matrix[:, half:] = 1
    return matrix


class GloveLearner:
    """The counts (on disk, in the run folder until training ends) and the two matrices."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, config: GloveConfig, threads: int, out: Path) -> None:
        self.config, self.vocabulary, self.threads = config, vocabulary, threads
        self.folder = out / "cooccurrence"
        plan = Plan(unit_starts(corpus.train, config.unit), _CHUNK, threads, 1)
        remap = number_types(corpus, vocabulary)
        self.counting = Counting(
            corpus.train.tokens if remap is None else remap[corpus.train.tokens],
            len(vocabulary),
            plan,
            config.window,
            config.symmetric,
            config.memory_mb * 1_000_000,
            threads,
        )
        self.num_steps = _STEPS * config.epochs
        self.corpus_tokens = plan.num_tokens
        self.num_tokens = plan.num_tokens * config.epochs
        size, dim = len(vocabulary), config.dim
        self.inputs = glove_matrix(size, dim, dim + 1, config.seed, 0)
        self.outputs = glove_matrix(size, dim, dim, config.seed, 1)
        self._buckets: list[Path] | None = None

    @classmethod
    def build(
        cls,
        corpus: Corpus,
        vocabulary: Vocabulary,
        config: VectorsConfig,
        threads: int,
        folder: Path,
        remap: NDArray[np.int32] | None = None,
    ) -> "GloveLearner":
        assert isinstance(config, GloveConfig)
        return cls(corpus, vocabulary, config, threads, folder)

    def tokens_before(self, step: int) -> int:
        return self.corpus_tokens * step // _STEPS

    def learning_rate(self, step: int) -> float:
        return self.config.learning_rate

    @property
    def buckets(self) -> list[Path]:
        """The shuffled cells; counted on first use, unless an earlier run did."""
        if self._buckets is None:
            done = self.folder / "counted.json"
            if not done.is_file():
                shutil.rmtree(self.folder, ignore_errors=True)
                cells = write_buckets(self.counting, self.folder, _STEPS, self.config.seed)
                if not cells:
                    raise FirthError(
                        f"{self.folder.parent}: no two known words stand near each other in this text; lower min_count"
                    )
                write_json(done, {"cells": cells})
            self.num_cells = int(read_json(done)["cells"])
            self._buckets = sorted(self.folder.glob("bucket-*"), key=lambda path: int(path.name.partition("-")[2]))
        return self._buckets

    def run_step(self, number: int, pool: ThreadPoolExecutor) -> tuple[float, int]:
        place = number % _STEPS
        first, last = (len(self.buckets) * one // _STEPS for one in (place, place + 1))
        loss, count = 0.0, 0
        for path in self.buckets[first:last]:
            cells = np.memmap(path, CELL, "r") if path.stat().st_size else np.zeros(0, CELL)
            loss += self._train(cells, pool)
            count += len(cells)
        return loss, count

    def _train(self, cells: Cells, pool: ThreadPoolExecutor) -> float:
        """Round by round; in each the threads have disjoint rows and columns."""
        from firth.vectors.glove_kernels import train_cells

        config, threads = self.config, self.threads
        borders = np.searchsorted(block_of(cells, threads), np.arange(threads * threads + 1))

        def work(block: int) -> float:
            some = cells[borders[block] : borders[block + 1]]
            counts = np.ascontiguousarray(some["count"])
            rows, columns = np.ascontiguousarray(some["row"]), np.ascontiguousarray(some["column"])
            weights = cell_weights(counts, config.x_max, config.alpha)
            return train_cells(
                rows, columns, np.log(counts), weights, self.inputs, self.outputs, config.dim, config.learning_rate
            )

        loss = 0.0
        for first in range(0, threads * threads, threads):
            loss += sum(pool.map(work, range(first, first + threads)))
        return loss

    def arrays(self) -> Arrays:
        dim, half = self.config.dim, self.inputs.shape[1] // 2
        squares = slice(half, half + dim + 2)
        return {
            "input": self.inputs[:, :dim],
            "output": self.outputs[:, :dim],
            "input_bias": self.inputs[:, dim],
            "output_bias": self.outputs[:, dim + 1],
            "input_squares": self.inputs[:, squares],
            "output_squares": self.outputs[:, squares],
            "counts": self.vocabulary.counts,
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        dim, half = self.config.dim, self.inputs.shape[1] // 2
        self.inputs[:, :dim], self.outputs[:, :dim] = arrays["input"], arrays["output"]
        self.inputs[:, dim], self.outputs[:, dim + 1] = arrays["input_bias"], arrays["output_bias"]
        self.inputs[:, half : half + dim + 2] = arrays["input_squares"]
        self.outputs[:, half : half + dim + 2] = arrays["output_squares"]

    def inherit(self, words: list[str], arrays: Mapping[str, Array]) -> None:
        raise NotImplementedError  # what it learns from are counts of the whole text

    def result(self) -> Matrix:
        return kept_matrix(self.arrays(), self.config.result)

    def save(self, folder: Path) -> None:
        """The vectors are all that it has."""

    def close(self) -> None:
        """Removes the counts."""
        shutil.rmtree(self.folder, ignore_errors=True)


def distance_weights(window: int) -> NDArray[np.int64]:
    """1/d for d = 1.. in 2^-32; entry 0 is not used."""
    return np.rint(ONE / np.maximum(np.arange(window + 1), 1)).astype(np.int64)


@dataclass(frozen=True)
class Counting:
    """What is counted and how much memory that may take."""

    tokens: NDArray[np.integer]
    size: int
    plan: Plan
    window: int
    symmetric: bool
    memory_bytes: int
    threads: int

    @property
    def slots(self) -> int:
        """Of one table: the largest power of two that fits a thread's share; at least 1024, and at most
        four million, since a larger one costs more in memory traffic than spilling does."""
        share = max(self.memory_bytes // (self.threads * 16), 1024)
        return int(min(1 << (share.bit_length() - 1), _MOST_SLOTS))

    def write_runs(self, folder: Path) -> list[Path]:
        """Counts everything; sorted runs on disk."""
        with ThreadPoolExecutor(self.threads) as pool:
            found = list(pool.map(lambda thread: self._count(folder, thread), range(self.threads)))
        return [path for paths in found for path in paths]

    def _count(self, folder: Path, thread: int) -> list[Path]:
        from firth.vectors.glove_kernels import count_pairs

        table = np.full((self.slots, 2), -1, np.int64)
        weights = distance_weights(self.window)
        limit = int(self.slots * _FULLNESS)
        paths: list[Path] = []
        used = 0
        for chunk in range(thread, self.plan.num_chunks, self.threads):
            first, last = self.plan.borders[chunk : chunk + 2]
            starts = self.plan.starts[first : last + 1]
            ids = self.tokens[int(starts[0]) : int(starts[-1])].astype(np.int32)
            starts = starts - starts[0]
            token = 0
            while token < starts[-1]:
                token, used = count_pairs(ids, starts, token, self.size, weights, self.symmetric, table, used, limit)
                if used >= limit:
                    paths.append(self._spill(folder, f"run-{thread}-{len(paths)}", table))
                    table.fill(-1)
                    used = 0
        if used:
            paths.append(self._spill(folder, f"run-{thread}-{len(paths)}", table))
        return paths

    def _spill(self, folder: Path, name: str, table: NDArray[np.int64]) -> Path:
        full = table[table[:, 0] >= 0]
        path = folder / name
        np.ascontiguousarray(full[np.argsort(full[:, 0])].T).tofile(path)
        return path


def _open_run(path: Path) -> Counts:
    both = np.memmap(path, np.int64, "r").reshape(2, -1)
    return both[0], both[1]


def merge_runs(paths: list[Path], memory_bytes: int) -> Iterator[Counts]:
    """All counts by rising key, in parts that fit into memory. Keys are cut where the runs together
    hold about as much as a part may."""
    runs = [_open_run(path) for path in paths]
    total = sum(len(keys) for keys, _ in runs)
    parts = max(1, -(-total * 64 // memory_bytes))
    samples = np.sort(np.concatenate([keys[:: max(1, len(keys) // (64 * parts))] for keys, _ in runs]))
    borders = samples[np.linspace(0, len(samples), parts + 1).astype(np.int64)[1:-1]]
    cuts = np.asarray([np.searchsorted(keys, borders) for keys, _ in runs]).reshape(len(runs), -1)
    ends = np.asarray([[len(keys)] for keys, _ in runs])
    cuts = np.concatenate((np.zeros((len(runs), 1), np.int64), cuts, ends), axis=1)
    for part in range(cuts.shape[1] - 1):
        slices = [slice(cut[part], cut[part + 1]) for cut in cuts]
        keys = np.concatenate([run[0][some] for run, some in zip(runs, slices, strict=True)])
        values = np.concatenate([run[1][some] for run, some in zip(runs, slices, strict=True)])
        if not len(keys):
            continue
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        yield keys[first], np.add.reduceat(values, first)


def cells_of(counts: Counts, symmetric: bool) -> Cells:
    """(row, column, count). A symmetric table was counted for row <= column only; two of the same word are near each
    other from both sides, so they count twice, as in the published program."""
    keys, values = counts
    cells = np.empty(len(keys), CELL)
    cells["row"], cells["column"] = keys >> 32, keys & 0xFFFFFFFF
    cells["count"] = values.astype(np.float64) / ONE
    if not symmetric:
        return cells
    other = cells[cells["row"] != cells["column"]]
    cells["count"][cells["row"] == cells["column"]] *= 2
    other["row"], other["column"] = other["column"], other["row"].copy()
    return np.concatenate((cells, other))


def write_buckets(counting: Counting, folder: Path, num_least: int, seed: int) -> int:
    """Counts, merges and shuffles into ``folder/bucket-N``; returns the number of cells.

    Within a bucket, cells are ordered by block (see ``block_of``) and then at random.
    """
    with disk_errors(folder):
        runs = folder / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        runs.mkdir(parents=True)
        paths = counting.write_runs(runs)
        total = 2 * sum(path.stat().st_size // 16 for path in paths)
        num_buckets = max(num_least, -(-total * CELL.itemsize * 8 // counting.memory_bytes))
        written = 0
        with _Buckets(folder, num_buckets) as buckets:
            for part in merge_runs(paths, counting.memory_bytes):
                cells = cells_of(part, counting.symmetric)
                written += len(cells)
                buckets.add(cells, seed)
        shutil.rmtree(runs)
        with ThreadPoolExecutor(counting.threads) as pool:
            files = [folder / f"bucket-{number}" for number in range(num_buckets)]
            list(pool.map(lambda path: _shuffle(path, counting.threads, seed), files))
    return written


def _shuffle(path: Path, threads: int, seed: int) -> None:
    """Orders the cells of a bucket by block and at random within; both in one number to sort by."""
    cells = np.fromfile(path, CELL)
    bits = np.uint64((threads * threads).bit_length())
    order = hashed(seed, cells["row"].astype(np.int64) << 32 | cells["column"]) >> bits
    order |= block_of(cells, threads).astype(np.uint64) << (np.uint64(64) - bits)
    cells[np.argsort(order)].tofile(path)


def block_of(cells: Cells, threads: int) -> NDArray[np.int64]:
    """round * threads + thread, so that within a round no two threads share a row or a column."""
    row, column = cells["row"] % threads, cells["column"] % threads
    return np.asarray((column - row) % threads * threads + row, np.int64)


class _Buckets:
    """Files that cells are scattered into."""

    def __init__(self, folder: Path, count: int) -> None:
        self.files = [open(folder / f"bucket-{number}", "wb") for number in range(count)]

    def __enter__(self) -> "_Buckets":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()

    def add(self, cells: Cells, seed: int) -> None:
        place = hashed(seed + 1, cells["row"].astype(np.int64) << 32 | cells["column"]) % np.uint64(len(self.files))
        place = place.astype(np.int16 if len(self.files) < 2**15 else np.int64)  # few values sort faster when short
        order = np.argsort(place, kind="stable")
        borders = np.searchsorted(place[order], np.arange(len(self.files) + 1))
        for number, file in enumerate(self.files):
            cells[order[borders[number] : borders[number + 1]]].tofile(file)
