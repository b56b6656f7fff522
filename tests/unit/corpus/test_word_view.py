"""Tokens as a model numbers them: words by frequency, other lists of words, spellings."""

import numpy as np
import pytest
from corpus_text import build_documents, write_documents

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.corpus.format import Corpus, Split
from firth.corpus.prepare import prepare
from firth.corpus.streams import Spellings, TokenView, read_types, view_as, view_tokens
from firth.tokenizers.word_tokens import WordTokens


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
