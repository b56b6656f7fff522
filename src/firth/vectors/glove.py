"""GloVe (Pennington et al. 2014): weighted least squares on log counts, biases learned.

J = sum over cells of f(X_ij) (w_i . c_j + b_i + b_j - log X_ij)^2, f(x) = min(1, (x / x_max)^alpha).
Cells go in random order; threads take blocks with no row or column in common, so that many threads
give the same result every time.
"""

import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.seeds import generator
from firth.corpus.format import Corpus
from firth.vectors.configs import GloveConfig
from firth.vectors.cooccurrence import CELL, Counting, block_of, write_buckets
from firth.vectors.plan import Plan, unit_starts
from firth.vectors.vocabulary import Vocabulary

_LEGS = 10  # an epoch
_CHUNK = 65_536


def cell_weights(counts: NDArray[np.float32], x_max: float, alpha: float) -> NDArray[np.float32]:
    """f(x) of the paper, equation 9."""
    return np.asarray(np.minimum(1.0, (counts / np.float32(x_max)) ** np.float32(alpha)), np.float32)


def glove_matrix(size: int, dim: int, ones_at: int, seed: int, number: int) -> NDArray[np.float32]:
    """[size, 2 P]: vector and bias uniform in +-1/(2 dim), the constant 1, padding, then sums of squares
    that begin at 1."""
    from firth.vectors.learners import padded

    half = (dim + 2 + 7) // 8 * 8
    matrix = padded(size, 2 * half)
    matrix[:, : dim + 2] = (generator(seed, 3, number).random((size, dim + 2), np.float32) - 0.5) / dim
    matrix[:, ones_at] = 1
    matrix[:, half:] = 1
    return matrix


class GloveLearner:
    """The counts (on disk, beside the run until it is finished) and the two matrices."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, config: GloveConfig, threads: int, out: Path) -> None:
        self.config, self.vocabulary, self.threads = config, vocabulary, threads
        self.folder = out / "cooccurrence"
        plan = Plan(unit_starts(corpus, config.unit), _CHUNK, threads, 1)
        self.counting = Counting(
            corpus.train.tokens,
            len(vocabulary),
            plan,
            config.window,
            config.symmetric,
            config.memory_mb * 1_000_000,
            threads,
        )
        self.num_legs = _LEGS * config.epochs
        self.corpus_tokens = plan.num_tokens
        self.num_tokens = plan.num_tokens * config.epochs
        size, dim = len(vocabulary), config.dim
        self.inputs = glove_matrix(size, dim, dim + 1, config.seed, 0)
        self.outputs = glove_matrix(size, dim, dim, config.seed, 1)
        self._buckets: list[Path] | None = None

    def tokens_before(self, leg: int) -> int:
        return self.corpus_tokens * leg // _LEGS

    def learning_rate(self, leg: int) -> float:
        return self.config.learning_rate

    @property
    def buckets(self) -> list[Path]:
        """The shuffled cells; counted on first use unless an earlier try did."""
        if self._buckets is None:
            done = self.folder / "counted.json"
            if not done.is_file():
                shutil.rmtree(self.folder, ignore_errors=True)
                cells = write_buckets(self.counting, self.folder, _LEGS, self.config.seed)
                if not cells:
                    raise FirthError(
                        f"{self.folder.parent}: no two known words stand near each other in this text; lower min_count"
                    )
                write_json(done, {"cells": cells})
            self.num_cells = int(read_json(done)["cells"])
            self._buckets = sorted(self.folder.glob("bucket-*"), key=lambda path: int(path.name.partition("-")[2]))
        return self._buckets

    def run_leg(self, number: int, pool: ThreadPoolExecutor) -> tuple[float, int]:
        place = number % _LEGS
        first, last = (len(self.buckets) * one // _LEGS for one in (place, place + 1))
        loss, count = 0.0, 0
        for path in self.buckets[first:last]:
            cells = np.memmap(path, CELL, "r") if path.stat().st_size else np.zeros(0, CELL)
            loss += self._train(cells, pool)
            count += len(cells)
        return loss, count

    def _train(self, cells: NDArray[Any], pool: ThreadPoolExecutor) -> float:
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

    def arrays(self) -> dict[str, NDArray[Any]]:
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

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        dim, half = self.config.dim, self.inputs.shape[1] // 2
        self.inputs[:, :dim], self.outputs[:, :dim] = arrays["input"], arrays["output"]
        self.inputs[:, dim], self.outputs[:, dim + 1] = arrays["input_bias"], arrays["output_bias"]
        self.inputs[:, half : half + dim + 2] = arrays["input_squares"]
        self.outputs[:, half : half + dim + 2] = arrays["output_squares"]

    def close(self) -> None:
        """Removes the counts."""
        shutil.rmtree(self.folder, ignore_errors=True)
