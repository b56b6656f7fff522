"""Masked targets: a row by hand, what is hidden, who sees whom, what is cut."""

from pathlib import Path

import numpy as np
import pytest

from firth.core.errors import FirthError
from firth.core.model_configs import EncoderConfig
from firth.core.objective_configs import MaskedTargetsConfig
from firth.corpus.pairs import PairSplit
from firth.objectives.masked_targets import MaskedTargets, fit_lens
from firth.objectives.rows import Specials

PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB = 300


def build(folder: Path, pairs: list[tuple[list[int], list[int]]], **options: object) -> tuple[PairSplit, MaskedTargets]:
    for place, side in enumerate(("source", "target")):
        rows = [pair[place] for pair in pairs]
        np.asarray([token for row in rows for token in row], np.uint16).tofile(folder / f"{side}.bin")
        starts = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
        starts.tofile(folder / f"{side}_starts.bin")
    shape = EncoderConfig(vocab_size=VOCAB, hidden_dim=16, num_layers=1, num_heads=2, ffn_dim=32, num_segments=6)
    specials = Specials(CLS, SEP, MASK, PAD, np.arange(5, VOCAB))
    return PairSplit(folder, "uint16"), MaskedTargets(MaskedTargetsConfig.build(options, "test"), shape, specials)


def test_a_row_by_hand(tmp_path: Path) -> None:
    split, objective = build(tmp_path, [([11, 12, 13], [21, 22]), ([31], [41])], row_len=16)
    rows = objective.rows(split, 0)
    assert len(rows) == 1
    plain = objective._plain(split, rows, np.asarray([0]))
    assert plain.ids.tolist() == [[CLS, 11, 12, 13, SEP, 21, 22, SEP, CLS, 31, SEP, 41, SEP, PAD, PAD, PAD]]
    assert plain.blocks.tolist() == [[1] * 8 + [2] * 5 + [0] * 3]
    assert plain.segments.tolist() == [[0] * 5 + [1] * 3 + [0] * 3 + [1] * 2 + [0] * 3]
    assert (plain.units >= 0).tolist() == [[False] * 5 + [True] * 3 + [False] * 3 + [True] * 2 + [False] * 3]
    batch = objective.batch(split, rows, 0, 0, 1)
    assert batch.arrays["order"].tolist() == [[0] * 5 + [5, 6, 7] + [0] * 3 + [3, 4]]
    assert set(batch.arrays["segments"][0].tolist()) == {4, 5}
    assert batch.num_tokens == 13


def test_only_targets_are_hidden_and_their_end_too(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    pairs = [
        (
            random.integers(5, VOCAB, random.integers(1, 12)).tolist(),
            random.integers(5, VOCAB, random.integers(1, 9)).tolist(),
        )
        for _ in range(300)
    ]
    split, objective = build(tmp_path, pairs, row_len=32)
    rows = objective.rows(split, 0)
    batch = objective.batch(split, rows, 0, 0, len(rows))
    num_targets = sum(len(target) + 1 for _, target in pairs)
    assert abs(batch.counts["masked"] / num_targets - 0.7) < 0.03
    labels = batch.arrays["labels"]
    assert abs((labels == SEP).sum() / 300 - 0.7) < 0.1
    assert not np.isin(labels, (PAD, CLS, MASK)).any()
    width = batch.arrays["picks"].shape[1]
    row, column = batch.arrays["masked"] // width, batch.arrays["picks"].ravel()[batch.arrays["masked"]]
    assert (batch.arrays["segments"][row, column] == 5).all()
    again = objective.batch(split, rows, 0, 0, len(rows))
    assert all(np.array_equal(batch.arrays[name], again.arrays[name]) for name in batch.arrays)


def test_long_pairs_lose_the_end_of_the_source(tmp_path: Path) -> None:
    source, target = fit_lens(np.asarray([5, 30, 30, 3]), np.asarray([5, 4, 30, 40]), 20)
    assert source.tolist() == [5, 16, 10, 3]
    assert target.tolist() == [5, 4, 10, 17]
    split, objective = build(tmp_path, [(list(range(10, 60)), [70, 71])], row_len=16)
    plain = objective._plain(split, objective.rows(split, 0), np.asarray([0]))
    assert plain.ids.tolist() == [[CLS, *range(10, 21), SEP, 70, 71, SEP]]


def test_no_pairs_at_all(tmp_path: Path) -> None:
    split, objective = build(tmp_path, [])
    with pytest.raises(FirthError, match="no pairs to train on"):
        objective.rows(split, 0)
