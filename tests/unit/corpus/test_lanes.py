"""Lanes: every word once an epoch, windows that go on where the last one stopped."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from firth.corpus.format import Split
from firth.corpus.lanes import Lanes
from firth.corpus.word_view import Spellings


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Four documents of nine sentences; token number = its place."""
    lens = [3, 1, 4, 2, 5, 3, 1, 2, 6]
    np.arange(sum(lens), dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    np.concatenate(([0], np.cumsum(lens))).astype(np.int64).tofile(tmp_path / "sentences.bin")
    np.asarray([0, 2, 5, 6, 9], np.int64).tofile(tmp_path / "documents.bin")
    return Split(tmp_path, "uint16")


@pytest.mark.parametrize(("num_lanes", "seq_len"), [(1, 4), (3, 5), (5, 2), (50, 4)])
def test_every_place_once_an_epoch(split: Split, num_lanes: int, seq_len: int) -> None:
    lanes = Lanes(split, num_lanes, seq_len, seed=1)
    assert lanes.num_places == 27 + 9
    assert len(lanes) == lanes.num_windows * num_lanes
    for epoch in range(2):
        found = []
        for number in range(epoch * lanes.num_windows, (epoch + 1) * lanes.num_windows):
            window = lanes.window(number)
            assert window.opens == (number % lanes.num_windows == 0)
            found += list(zip(window.starts[window.live], window.places[window.live], strict=True))
            assert (window.places <= window.lens).all()
        borders = np.asarray(split.sentences)
        wanted = [(start, place) for start, end in itertools.pairwise(borders) for place in range(end - start + 1)]
        assert sorted(found) == sorted(wanted)


def test_a_lane_goes_on_in_the_next_window(split: Split) -> None:
    lanes, long = Lanes(split, 2, 4, seed=1), Lanes(split, 2, 18, seed=1)
    parts = [lanes.window(number) for number in range(lanes.num_windows)]
    for name in ("starts", "places"):
        joined = np.concatenate([getattr(part, name) for part in parts], axis=1)[:, :18]
        np.testing.assert_array_equal(joined, getattr(long.window(0), name))


def test_documents_stay_whole_and_change_places(split: Split) -> None:
    lanes = Lanes(split, 1, 36, seed=1)
    first, second = (lanes.window(number).starts[0] for number in range(2))
    assert not np.array_equal(first, second)
    again = Lanes(split, 1, 36, seed=1)
    again.window(7)
    np.testing.assert_array_equal(again.window(1).starts[0], second)
    order = list(dict.fromkeys(first.tolist()))
    starts = np.asarray(split.sentences)[:-1].tolist()
    documents = [starts[0:2], starts[2:5], starts[5:6], starts[6:9]]
    for document in documents:
        at = order.index(document[0])
        assert order[at : at + len(document)] == document


def test_spellings() -> None:
    words = Spellings(["the", "cat", "sat"], ["the", "cat"], 50)
    assert words.known_words == ["<S>", "</S>", "<UNK>", "the", "cat"]
    types = np.asarray([0, 1, 2, words.begin, words.end, words.unknown])
    known = words.known(types)
    assert known.tolist() == [3, 4, 2, 0, 1, 2]
    assert words.types(known).tolist() == [0, 1, words.unknown, words.begin, words.end, words.unknown]
    spelt = words.characters(types, widest=3)
    assert spelt.shape == (6, 7 + 3)  # <UNK> is the longest
    assert spelt[1, :5].tolist() == [259, 100, 98, 117, 260]
    assert spelt[3, :3].tolist() == [259, 257, 260]
    assert spelt[4, :3].tolist() == [259, 258, 260]
    assert spelt[5, 1:6].tolist() == [byte + 1 for byte in b"<UNK>"]


def test_a_softmax_may_know_words_that_the_corpus_lacks() -> None:
    words = Spellings(["the", "cat", "sat"], ["sat", "dog"], 50)
    assert words.known(np.asarray([0, 1, 2])).tolist() == [2, 2, 3]
    spelt = words.characters(words.types(np.asarray([4])), widest=1)
    assert spelt[0, 1:4].tolist() == [byte + 1 for byte in b"dog"]
