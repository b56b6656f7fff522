"""Rows: every token of every document once, in rows that are nearly full."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.corpus.format import Corpus, PackedRows, Split, cut_documents, pack


def build_split(folder: Path, document_lens: list[int]) -> Split:
    """A split of the given documents, a sentence each; token i has id i % 1000."""
    lens = np.asarray(document_lens, np.int64)
    (np.arange(lens.sum()) % 1000).astype(np.uint16).tofile(folder / "tokens.bin")
    np.concatenate(([0], np.cumsum(lens))).tofile(folder / "sentences.bin")
    np.arange(len(lens) + 1).tofile(folder / "documents.bin")
    np.packbits(np.ones(lens.sum(), bool)).tofile(folder / "words.bin")
    return Split(folder, "uint16")


def test_cut_documents_by_hand() -> None:
    starts, lens = cut_documents(np.asarray([0, 3, 3, 13, 17]), 4)
    assert starts.tolist() == [0, 3, 7, 11, 13]
    assert lens.tolist() == [3, 4, 4, 2, 4]


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 12))
def test_cut_documents(document_lens: list[int], max_len: int) -> None:
    borders = np.concatenate(([0], np.cumsum(document_lens))).astype(np.int64)
    starts, lens = cut_documents(borders, max_len)
    assert (lens > 0).all()
    assert (lens <= max_len).all()
    covered = [place for start, length in zip(starts, lens, strict=True) for place in range(start, start + length)]
    assert covered == list(range(sum(document_lens)))
    for border in borders:  # no sequence runs over the end of a document
        assert not ((starts < border) & (starts + lens > border)).any()


def test_pack_by_hand() -> None:
    assert pack(np.asarray([10, 7, 7, 3, 3, 2, 1]), 10) == [([10], 1), ([7, 3], 2), ([2, 1], 1)]


@settings(max_examples=60)
@given(st.lists(st.integers(1, 32), min_size=1, max_size=200))
def test_pack_uses_every_length_once(lens: list[int]) -> None:
    rows = pack(np.asarray(lens), 32)
    assert all(sum(combination) <= 32 for combination, _ in rows)
    used = [length for combination, times in rows for length in combination * times]
    assert sorted(used) == sorted(lens)


@pytest.mark.parametrize("draw", ["uniform", "short", "long"])
def test_pack_fills(draw: str) -> None:
    random = np.random.default_rng(3)
    lens = {
        "uniform": random.integers(3, 129, 20_000),
        "short": np.minimum(3 + random.geometric(0.08, 20_000), 128),
        "long": np.where(random.random(20_000) < 0.6, 128, random.integers(3, 128, 20_000)),
    }[draw]
    num_rows = sum(times for _, times in pack(lens, 128))
    assert lens.sum() / (num_rows * 128) > 0.95


def test_every_sequence_is_in_one_row(tmp_path: Path) -> None:
    document_lens = np.random.default_rng(1).integers(1, 90, 500).tolist()
    rows = PackedRows.of_documents(build_split(tmp_path, document_lens), 32, 2, seed=5)
    assert sorted(rows.members.tolist()) == list(range(len(rows.starts)))
    for row in range(len(rows)):
        assert (rows.lens[rows.sequences(row)] + 2).sum() <= 32
    assert rows.lens.sum() == sum(document_lens)


def test_epochs_are_permutations(tmp_path: Path) -> None:
    rows = PackedRows.of_documents(build_split(tmp_path, [20] * 57), 32, 2, seed=5)
    assert len(rows) == 57
    numbers, epochs = rows.numbers(0, 3 * 57)
    assert epochs.tolist() == [0] * 57 + [1] * 57 + [2] * 57
    orders = [numbers[epochs == epoch].tolist() for epoch in range(3)]
    assert all(sorted(order) == list(range(57)) for order in orders)
    assert orders[0] != orders[1] != orders[2] != orders[0]
    far, _ = rows.numbers(1000 * 57 + 3, 5)  # any place at once, in any order, over the border of an epoch
    again = PackedRows.of_documents(build_split(tmp_path, [20] * 57), 32, 2, seed=5)
    assert again.numbers(1000 * 57 + 3, 5)[0].tolist() == far.tolist()
    assert again.numbers(50, 20)[0].tolist() == numbers[50:70].tolist()
    other = PackedRows.of_documents(build_split(tmp_path, [20] * 57), 32, 2, seed=6)
    assert other.numbers(0, 57)[0].tolist() != orders[0]


def test_a_real_corpus(corpus: Corpus) -> None:
    rows = PackedRows.of_documents(corpus.train, 32, 2, seed=0)
    assert rows.lens.sum() == corpus.info.train.tokens == len(corpus.train.tokens)
    assert (rows.lens + 2).sum() / (len(rows) * 32) > 0.9
