"""Token streams: by hand, every token once an epoch, parts that go on where they stopped, forward and backward."""

import itertools
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from firth.core.types import generator
from firth.corpus.format import Corpus, Split
from firth.corpus.streams import RandomStreams, StreamRows, Streams, TokenStream, cut_equally, cut_evenly, random_len

EOS, SEP, CLS = 1, 3, 2
SENTENCE_LENS = [3, 1, 4, 2, 5, 3, 1, 2, 6]
DOCUMENTS = [0, 2, 5, 6, 9]  # in sentences


def write_split(folder: Path, lens: list[int], documents: list[int], first: int) -> Split:
    np.arange(first, first + sum(lens), dtype=np.uint16).tofile(folder / "tokens.bin")
    np.cumsum([0, *lens]).astype(np.int64).tofile(folder / "sentences.bin")
    np.asarray(documents, np.int64).tofile(folder / "documents.bin")
    return Split(folder, "uint16")


@pytest.fixture
def small(tmp_path: Path) -> Split:
    """Two documents of two and one sentences: 10 11 | 12, and 13 14 15."""
    return write_split(tmp_path, [2, 1, 3], [0, 2, 3], 10)


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Four documents of nine sentences; tokens count from 100."""
    return write_split(tmp_path, SENTENCE_LENS, DOCUMENTS, 100)


def whole(text: TokenStream, epoch: int = 0) -> list[int]:
    return text.read(np.arange(len(text)), epoch).tolist()


# -- the stream


def test_ends_by_hand(small: Split) -> None:
    by_document, by_sentence = TokenStream(small, (EOS,)), TokenStream(small, (EOS,), "sentence")
    assert by_document.read(np.arange(-1, 8)).tolist() == [EOS, 10, 11, 12, EOS, 13, 14, 15, EOS]
    assert len(by_document) == 8
    assert by_sentence.read(np.arange(-1, 9)).tolist() == [EOS, 10, 11, EOS, 12, EOS, 13, 14, 15, EOS]
    two = TokenStream(small, (SEP, CLS))
    assert two.read(np.arange(-1, 10)).tolist() == [CLS, 10, 11, 12, SEP, CLS, 13, 14, 15, SEP, CLS]
    assert two.borders().tolist() == [0, 5, 10]
    assert two.read(np.asarray([[4, 5], [-1, 3]])).tolist() == [[CLS, 13], [CLS, SEP]]


def test_tokens_as_the_model_numbers_them(small: Split) -> None:
    """The ends are the model's own already."""
    lookup = np.arange(16) * 100
    assert whole(TokenStream(small, (EOS,), lookup=lookup)) == [1000, 1100, 1200, EOS, 1300, 1400, 1500, EOS]


def test_documents_without_tokens(tmp_path: Path) -> None:
    assert whole(TokenStream(write_split(tmp_path, [0, 0], [0, 1, 2], 0), (EOS,))) == [EOS, EOS]
    (tmp_path / "none").mkdir()
    assert len(TokenStream(write_split(tmp_path / "none", [], [0], 0), (EOS,))) == 0


def test_what_a_position_is(split: Split) -> None:
    text = TokenStream(split, (SEP, CLS), shuffle_key=(0, 3))
    for begin in range(0, 20, 7):
        at = text.locate(np.arange(begin, begin + 15), 2)
        ids = text.read(np.arange(begin, begin + 15), 2)
        assert np.array_equal(at.is_end, np.isin(ids, (SEP, CLS)))
        assert np.array_equal(ids[~at.is_end], (100 + at.start + at.offset)[~at.is_end])
        changes = np.concatenate(([0], ids[:-1] == CLS))
        assert np.array_equal(at.unit - at.unit[0], np.cumsum(changes))
        assert (at.offset < at.len + 2).all()


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_documents_stay_whole_and_change_places(split: Split, unit: Literal["document", "sentence"]) -> None:
    """The same text in another order of documents, the same order whenever it is asked for."""
    plain = whole(TokenStream(split, (EOS,), unit))
    assert plain == whole(TokenStream(split, (EOS,), unit), epoch=5)
    text = TokenStream(split, (EOS,), unit, shuffle_key=(1, 31))
    epochs = [whole(text, epoch) for epoch in range(5)]
    assert len({tuple(epoch) for epoch in epochs}) > 1
    again = TokenStream(split, (EOS,), unit, shuffle_key=(1, 31))
    assert whole(again, 4) == epochs[4]
    starts = np.asarray(split.document_starts) + 100
    for epoch, found in enumerate(epochs):
        order = generator(1, 31, epoch).permutation(4)
        assert [token for token in found if token != EOS] == [
            token for document in order for token in range(starts[document], starts[document + 1])
        ]
        assert sorted(found) == sorted(plain)
        assert sorted(text.borders(epoch).tolist()) == text.borders(epoch).tolist()


# -- streams side by side


def test_windows_by_hand(small: Split) -> None:
    """Eight positions in three streams of three; windows of two; the last stream is one short."""
    text = TokenStream(small, (EOS,))
    streams = Streams(text, cut_equally(8, 3), 2)
    assert (streams.longest, streams.num_windows, len(streams)) == (3, 2, 6)
    first, second, third = (streams.window(number) for number in range(3))
    assert text.read(first.positions).tolist() == [[10, 11], [EOS, 13], [15, EOS]]
    assert first.inside.all()
    assert second.inside.tolist() == [[True, False], [True, False], [False, False]]
    assert text.read(second.positions)[:2, 0].tolist() == [12, 14]
    assert [(window.epoch, window.number) for window in (first, second, third)] == [(0, 0), (0, 1), (1, 0)]
    np.testing.assert_array_equal(third.positions, first.positions)


def test_borders_by_hand() -> None:
    assert cut_evenly(10, 4).tolist() == [0, 2, 5, 7, 10]
    assert cut_equally(10, 4).tolist() == [0, 3, 6, 9, 10]
    assert cut_equally(10, 4, multiple_of=2).tolist() == [0, 4, 8, 10, 10]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("num_streams", "seq_len"), [(1, 4), (3, 5), (5, 2), (7, 36), (50, 4)])
def test_every_position_once_an_epoch(split: Split, num_streams: int, seq_len: int, backward: bool) -> None:
    """However the text is cut; and each stream in order, from its beginning or from its end."""
    text = TokenStream(split, (EOS,), "sentence", shuffle_key=(1, 31))
    assert len(text) == 27 + 9
    for borders in (
        cut_evenly(36, num_streams),
        cut_equally(36, num_streams),
        cut_equally(36, num_streams, multiple_of=seq_len),
    ):
        streams = Streams(text, borders, seq_len)
        assert len(streams) == streams.num_windows * num_streams
        for epoch in range(2):
            numbers = range(epoch * streams.num_windows, (epoch + 1) * streams.num_windows)
            windows = [streams.window(number, backward=backward) for number in numbers]
            assert [(window.epoch, window.number) for window in windows] == [
                (epoch, number) for number in range(streams.num_windows)
            ]
            for stream, (start, end) in enumerate(itertools.pairwise(borders.tolist())):
                found = np.concatenate([window.positions[stream][window.inside[stream]] for window in windows])
                assert (found[::-1] if backward else found).tolist() == list(range(start, end))


def test_some_streams_of_a_window(split: Split) -> None:
    streams = Streams(TokenStream(split, (EOS,)), cut_equally(31, 4), 5)
    for backward in (False, True):
        every, some = (streams.window(1, part, backward) for part in (slice(None), slice(1, 3)))
        np.testing.assert_array_equal(every.positions[1:3], some.positions)
        np.testing.assert_array_equal(every.inside[1:3], some.inside)


@pytest.mark.parametrize("num_streams", [1, 4, 20])
def test_windows_of_a_corpus(num_streams: int, corpus: Corpus) -> None:
    text = TokenStream(corpus.heldout, (EOS,), "sentence")
    assert len(text) == corpus.info.heldout.tokens + corpus.info.heldout.sentences
    streams = Streams(text, cut_equally(len(text), num_streams), 5)
    windows = [streams.window(number) for number in range(streams.num_windows)]
    ids = np.concatenate([text.read(window.positions) for window in windows], 1)
    inside = np.concatenate([window.inside for window in windows], 1)
    assert ids[inside].tolist() == whole(text)


# -- windows of random lengths


def test_random_windows(corpus: Corpus) -> None:
    """Every token once an epoch, borders elsewhere in each, and a window is known by its number alone."""
    text = TokenStream(corpus.train, (EOS,), "sentence")
    borders = cut_equally(len(text), 3)
    streams = RandomStreams(text, borders, 12, seed=7)
    first, lens_of = 0, []
    for epoch in range(3):
        windows = []
        while streams.window(first).epoch == epoch:
            windows.append(streams.window(first))
            first += 1
        assert [window.number for window in windows] == list(range(len(windows)))
        positions = np.concatenate([window.positions for window in windows], 1)
        inside = np.concatenate([window.inside for window in windows], 1)
        assert positions[inside].tolist() == list(range(len(text)))
        lens_of.append([window.positions.shape[1] for window in windows])
        assert min(lens_of[-1][:-1]) >= 5
    assert len(streams) == 3 * len(lens_of[0])
    assert lens_of[0] != lens_of[1] != lens_of[2]
    again = RandomStreams(text, borders, 12, seed=7)  # without the windows before
    np.testing.assert_array_equal(again.window(first - 2).positions, streams.window(first - 2).positions)
    other = RandomStreams(text, borders, 12, seed=8)
    assert [other.window(number).positions.shape for number in range(9)] != [
        streams.window(number).positions.shape for number in range(9)
    ]


def test_random_lengths_are_as_published() -> None:
    """70 ± 5, one in twenty about 35, cut to whole numbers, never below 5."""
    lens = random_len(70, 3, 1, np.arange(40_000))
    short = lens < 52
    assert short.mean() == pytest.approx(0.05, abs=0.005)
    assert lens[~short].mean() == pytest.approx(69.5, abs=0.1)
    assert lens[~short].std() == pytest.approx(5, abs=0.1)
    assert lens[short].mean() == pytest.approx(34.5, abs=0.5)
    assert random_len(6, 3, 1, np.arange(1000)).min() == 5
    assert random_len(2, 3, 1, np.arange(1000)).min() == 2


# -- single rows


def test_rows_of_a_stream(small: Split) -> None:
    text = TokenStream(small, (EOS,))
    rows = StreamRows(text, 3, 0)
    assert len(rows) == 1
    assert rows.positions(0, 1).tolist() == [[0, 1, 2]]
    assert {int(rows.positions(epoch, 1)[0, 0]) for epoch in range(60)} == set(range(4))
    short = StreamRows(text, 6, 0)  # less than two rows are one row, which moves from the second epoch on
    assert (len(short), short.positions(0, 1).tolist()) == (1, [[0, 1, 2, 3, 4, 5]])
    assert {int(short.positions(epoch, 1)[0, 0]) for epoch in range(60)} == set(range(3))
    assert StreamRows(text, 50, 0).positions(0, 9).tolist() == [list(range(8))] * 9


def test_an_order_of_rows_is_drawn_once_an_epoch(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def noted(*key: int) -> np.random.Generator:
        drawn.append(key)
        return generator(*key)

    monkeypatch.setattr("firth.corpus.streams.generator", noted)
    rows = StreamRows(TokenStream(corpus.train, (2,)), 16, 0)
    for first in range(0, len(rows) + 8, 8):
        rows.positions(first, 8)
    assert len(drawn) == 2
    assert sorted(rows.positions(0, len(rows))[:, 0].tolist()) == list(range(0, 16 * len(rows), 16))
