"""GloVe: exact counts in bounded memory, and a loss that goes where the closed form says."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from firth.corpus.format import Corpus
from firth.vectors.glove import (
    ONE,
    Counting,
    block_of,
    cell_weights,
    cells_of,
    distance_weights,
    glove_matrix,
    merge_runs,
    write_buckets,
)
from firth.vectors.glove_kernels import train_cells
from firth.vectors.learners import Plan, unit_starts
from firth.vectors.vocabulary import view_vocabulary


def test_a_pair_at_distance_d_counts_one_over_d() -> None:
    np.testing.assert_allclose(distance_weights(4)[1:] / ONE, [1, 1 / 2, 1 / 3, 1 / 4], rtol=1e-9)


def test_f_is_the_papers() -> None:
    found = cell_weights(np.asarray([1, 50, 100, 1000], np.float32), 100, 0.75)
    np.testing.assert_allclose(found, [0.01**0.75, 0.5**0.75, 1, 1], rtol=1e-6)


def counted(corpus: Corpus, folder: Path, threads: int, memory: int, symmetric: bool) -> np.ndarray:
    folder.mkdir()
    vocabulary = view_vocabulary(corpus, 1, None)
    plan = Plan(unit_starts(corpus.train, "document"), 512, threads, 1)
    counting = Counting(corpus.train.tokens, len(vocabulary), plan, 6, symmetric, memory, threads)
    paths = counting.write_runs(folder)
    table = np.zeros((len(vocabulary), len(vocabulary)))
    for part in merge_runs(paths, memory):
        cells = cells_of(part, symmetric)
        table[cells["row"], cells["column"]] += cells["count"]
    return table


@pytest.mark.parametrize("symmetric", [True, False])
def test_counts_are_the_same_however_they_are_spilled(words: Corpus, tmp_path: Path, symmetric: bool) -> None:
    expected = np.zeros((30, 30))
    starts = unit_starts(words.train, "document")
    for first, last in pairwise(starts):
        text = words.train.tokens[first:last].tolist()
        for place, word in enumerate(text):
            for distance in range(1, min(6, place) + 1):
                expected[text[place - distance], word] += 1 / distance
                if symmetric:
                    expected[word, text[place - distance]] += 1 / distance
    whole = counted(words, tmp_path / "whole", 1, 10_000_000, symmetric)
    np.testing.assert_allclose(whole[:30, :30], expected[: len(whole), : len(whole)], rtol=1e-6)
    np.testing.assert_array_equal(counted(words, tmp_path / "two", 2, 10_000_000, symmetric), whole)
    np.testing.assert_array_equal(counted(words, tmp_path / "small", 3, 1000, symmetric), whole)


def test_buckets_hold_every_cell_once_by_block(words: Corpus, tmp_path: Path) -> None:
    from firth.vectors.glove import CELL

    vocabulary = view_vocabulary(words, 1, None)
    plan = Plan(unit_starts(words.train, "document"), 512, 2, 1)
    counting = Counting(words.train.tokens, len(vocabulary), plan, 6, True, 100_000, 2)
    total = write_buckets(counting, tmp_path / "cells", 4, 0)
    parts = [np.fromfile(path, CELL) for path in sorted((tmp_path / "cells").glob("bucket-*"))]
    assert len(parts) >= 4
    assert sum(map(len, parts)) == total
    for part in parts:
        blocks = block_of(part, 2)
        assert (np.diff(blocks) >= 0).all()
        for round_ in range(2):
            one, other = part[blocks == 2 * round_], part[blocks == 2 * round_ + 1]
            assert not set(one["row"]) & set(other["row"])
            assert not set(one["column"]) & set(other["column"])
    cells = np.concatenate(parts)
    assert len({(row, column) for row, column, _ in cells.tolist()}) == total


def test_a_matrix_of_rank_d_is_recovered_exactly() -> None:
    """log X = A B' + a + b with d columns: the loss has a minimum of 0, and AdaGrad gets there."""
    random = np.random.default_rng(0)
    size, dim = 12, 3
    logs = random.normal(0, 0.7, (size, dim)) @ random.normal(0, 0.7, (dim, size))
    logs += random.normal(0, 0.5, (size, 1)) + random.normal(0, 0.5, (1, size)) + 3
    rows, columns = (part.ravel().astype(np.int32) for part in np.indices((size, size)))
    counts = np.exp(logs.ravel()).astype(np.float32)
    weights = cell_weights(counts, 100, 0.75)
    inputs, outputs = glove_matrix(size, dim, dim + 1, 0, 0), glove_matrix(size, dim, dim, 0, 1)
    losses = []
    for _ in range(6000):
        order = random.permutation(len(rows))
        losses.append(
            train_cells(rows[order], columns[order], np.log(counts[order]), weights[order], inputs, outputs, dim, 0.05)
        )
    assert losses[10] < losses[0]
    assert losses[-1] < 1e-5 * losses[0]
    half = dim + 2
    np.testing.assert_allclose(inputs[:, :half] @ outputs[:, :half].T, logs, atol=0.02)
