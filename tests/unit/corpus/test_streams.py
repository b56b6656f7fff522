"""Text in streams: by hand, every token predicted once, a view of words by frequency."""

import numpy as np
import pytest
from corpus_text import build_documents, write_documents

from firth.core.configs import TokensConfig
from firth.core.errors import FirthError
from firth.corpus.format import Corpus, Split
from firth.corpus.prepare import prepare
from firth.corpus.streams import Streams, TokenSequence, random_len
from firth.corpus.word_view import TokenView, read_types, view_as, view_tokens
from firth.tokenizers.word_tokens import WordTokens

EOS = 1


class Plain:
    """Two documents of two and one sentences: 10 11 | 12, and 13 14 15."""

    tokens = np.asarray([10, 11, 12, 13, 14, 15])
    sentences = np.asarray([0, 2, 3, 6])
    documents = np.asarray([0, 2, 3])
    document_starts = sentences[documents]


def sequence(unit: str) -> TokenSequence:
    view = TokenView(None, None, EOS)  # type: ignore[arg-type]
    return TokenSequence(Plain(), view, unit)  # type: ignore[arg-type]


def test_ends_by_hand() -> None:
    by_document, by_sentence = sequence("document"), sequence("sentence")
    assert by_document.take(np.arange(-1, 8)).tolist() == [EOS, 10, 11, 12, EOS, 13, 14, 15, EOS]
    assert len(by_document) == 8
    assert by_sentence.take(np.arange(-1, 9)).tolist() == [EOS, 10, 11, EOS, 12, EOS, 13, 14, 15, EOS]


def test_windows_by_hand() -> None:
    """Eight places in three streams of three; windows of two, the last of one; the last stream is one short."""
    streams = Streams(sequence("document"), 3, 2)
    assert (streams.stream_len, streams.num_windows, len(streams)) == (3, 2, 6)
    first, second, third = (streams.window(number) for number in range(3))
    assert first.ids.tolist() == [[EOS, 10], [12, EOS], [14, 15]]
    assert first.labels.tolist() == [[10, 11], [EOS, 13], [15, EOS]]
    assert second.ids[:2].tolist() == [[11], [13]]
    assert second.labels.tolist() == [[12], [14], [-1]]
    assert (first.opens, second.opens, third.opens) == (True, False, True)
    np.testing.assert_array_equal(third.ids, first.ids)


@pytest.mark.parametrize(("num_streams", "seq_len"), [(1, 3), (4, 5), (7, 2), (20, 3)])
def test_every_token_is_predicted_once(num_streams: int, seq_len: int, corpus: Corpus) -> None:
    view = view_tokens(corpus, 1, None)
    whole = TokenSequence(corpus.heldout, view, "sentence")
    streams = Streams(whole, num_streams, seq_len)
    labels = np.concatenate([streams.window(number).labels for number in range(streams.num_windows)], 1)
    found = labels.reshape(-1)
    np.testing.assert_array_equal(found[found >= 0], whole.take(np.arange(len(whole))))
    assert len(whole) == corpus.info.heldout.tokens + corpus.info.heldout.sentences


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("words")
    source = write_documents(folder / "text.jsonl", build_documents(200))
    prepare([str(source)], folder / "c", TokensConfig(kind="words"), heldout=0.1, workers=1)
    return Corpus.open(folder / "c")


def all_ids(split: Split, view: TokenView) -> np.ndarray:
    return view.ids(split.tokens)


def test_words_are_a_view(words: Corpus) -> None:
    types = read_types(words)
    everything = view_tokens(words, 1, None)
    some = view_tokens(words, 1, 10)
    assert isinstance(some.tokens, WordTokens)
    assert some.tokens.tokens == ["<unk>", "<eos>", *types[:10]]
    whole, part = all_ids(words.train, everything), all_ids(words.train, some)
    np.testing.assert_array_equal(part, np.where(whole < 12, whole, 0))
    counted = np.bincount(part, minlength=12)
    counted[some.eos_id] += words.info.train.documents
    np.testing.assert_array_equal(some.counts(), counted)
    counted[some.eos_id] += words.info.train.sentences - words.info.train.documents
    np.testing.assert_array_equal(some.counts("sentence"), counted)
    often = view_tokens(words, 20, None)
    assert all(often.counts()[2:] >= 20)
    with pytest.raises(FirthError, match="no word occurs 1000000 times"):
        view_tokens(words, 1_000_000, None)


def test_another_list_of_words(words: Corpus) -> None:
    types = read_types(words)
    view = view_as(words, WordTokens([types[3], "nowhere"], True, False))
    assert sorted(set(all_ids(words.train, view).tolist())) == [0, 2]


def test_pieces_are_counted(corpus: Corpus) -> None:
    view = view_tokens(corpus, 1, None)
    assert view.counts().sum() == corpus.info.train.tokens + corpus.info.train.documents


def test_random_windows(corpus: Corpus) -> None:
    """Every token once an epoch, borders elsewhere in each, and a window is known by its number alone."""
    whole = TokenSequence(corpus.train, view_tokens(corpus, 1, None), "sentence")
    streams = Streams(whole, 3, 12, random_seed=7)
    wanted = whole.take(np.arange(len(whole)))
    first, borders = 0, []
    for _ in range(3):
        labels, lens = [], []
        while not labels or not streams.window(first).opens:
            labels.append(streams.window(first).labels)
            lens.append(labels[-1].shape[1])
            first += 1
        found = np.concatenate(labels, 1).reshape(-1)
        np.testing.assert_array_equal(found[found >= 0], wanted)
        borders.append(lens)
        assert min(lens[:-1]) >= 5
    assert len(streams) == 3 * len(borders[0])
    assert borders[0] != borders[1] != borders[2]
    again = Streams(whole, 3, 12, random_seed=7)
    np.testing.assert_array_equal(again.window(first - 2).ids, streams.window(first - 2).ids)  # without those before
    other = Streams(whole, 3, 12, random_seed=8)
    assert [other.window(number).ids.shape for number in range(9)] != [
        streams.window(number).ids.shape for number in range(9)
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
