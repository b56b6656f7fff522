"""Counts of n-grams: the same numbers as scikit-learn's."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from firth.core.errors import FirthError
from firth.models.counts import model as counts_file
from firth.models.counts.model import (
    CHINESE_WORDS_WEIGHT,
    VOCABULARY,
    WORDS_WEIGHT,
    CountsModel,
    chunk_ngrams,
    cut_text,
    word_ngrams,
)
from firth.tokenizers.words import has_han

TEXTS = [
    "The cat sat on the mat, the cat!",
    "A dog; isn't it? It is a dog.",
    "我们在图书馆看书，老师说了三个故事。",
    "iPhone手机很好用 and cheap",
    "cat",
]


def character_ngrams(text: str) -> list[str]:
    """Those of all chunks of a text."""
    return [ngram for chunk in cut_text(text)[1] for ngram in chunk_ngrams(chunk)]


def test_characters_of_words_are_those_of_scikit_learn() -> None:
    """A text without marks, since scikit-learn does not part them from words."""
    text = "the quick brown fox is a fox"
    analyse = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5)).build_analyzer()
    assert sorted(character_ngrams(text)) == sorted(analyse(text))


def test_characters_of_chinese_are_those_of_scikit_learn() -> None:
    """Of the whole text, across words, marks and spaces."""
    text = "老师看书，他用\t iPhone  很好。"
    assert "".join(cut_text(text)[0]) == "老师看书，他用iphone很好。"
    analyse = TfidfVectorizer(analyzer="char", ngram_range=(1, 2)).build_analyzer()
    assert sorted(character_ngrams(text)) == sorted(analyse(text))
    assert chunk_ngrams("老师看") == ["老", "师", "看", "老师", "师看"]
    assert chunk_ngrams("老") == ["老"]


def test_pairs_of_words() -> None:
    assert word_ngrams(["a", "b", "c"]) == ["a", "b", "c", "a b", "b c"]
    assert word_ngrams(["老师", "看书", "b"]) == ["老师", "看书", "b", "看书 b"]


def test_matrix_is_that_of_scikit_learn() -> None:
    model = CountsModel.of_texts(TEXTS)
    asked = [*TEXTS, "an unknown horse on the mat", "", "。"]
    found = model.matrix(asked).toarray()
    blocks = [(model.words, lambda text: word_ngrams(cut_text(text)[0])), (model.characters, character_ngrams)]
    expected = []
    words_weights = [[CHINESE_WORDS_WEIGHT if has_han(text) else WORDS_WEIGHT] for text in asked]
    for (block, analyse), weight in zip(blocks, (np.asarray(words_weights), 1.0), strict=True):
        vectorizer = TfidfVectorizer(analyzer=analyse, sublinear_tf=True, vocabulary=block.ngrams).fit(TEXTS)
        expected.append(weight * vectorizer.transform(asked).toarray())
    np.testing.assert_allclose(found, np.concatenate(expected, 1), atol=1e-12)
    np.testing.assert_allclose(model.matrix(asked[::-1]).toarray(), found[::-1])  # what was read before does not matter


def test_pairs_are_compared() -> None:
    model = CountsModel.of_texts(TEXTS)
    first, second = model.matrix(TEXTS).toarray(), model.matrix(TEXTS[::-1]).toarray()
    found = model.pair_matrix(TEXTS, TEXTS[::-1]).toarray()
    assert found.shape == (len(TEXTS), model.pair_dim)
    np.testing.assert_allclose(found[:, : model.dim], np.abs(first - second))
    np.testing.assert_allclose(found[:, model.dim : -2], first * second)
    border = len(model.words.ngrams)
    np.testing.assert_allclose(found[:, -1], 4 * (first * second)[:, border:].sum(1))
    np.testing.assert_allclose(found[2, -2:], [4 * CHINESE_WORDS_WEIGHT**2, 4])  # the middle text is beside itself


def test_rare_ngrams_of_many_texts_are_left_out() -> None:
    model = CountsModel.of_texts([f"word{number} common" for number in range(2001)])
    assert "common" in model.words.ngrams
    assert "word7" not in model.words.ngrams


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = CountsModel.of_texts(TEXTS)
    model.save(tmp_path)
    found = CountsModel.load(tmp_path)
    assert (found.matrix(TEXTS) != model.matrix(TEXTS)).nnz == 0
    assert "counts" in repr(found)
    (tmp_path / VOCABULARY).write_text('{"words": {"ngrams": ["a"], "counts": [], "num_texts": 1}, "characters": 3}')
    with pytest.raises(FirthError, match="not a list of n-grams"):
        CountsModel.load(tmp_path)
    model.save(tmp_path)
    text = (tmp_path / VOCABULARY).read_text().replace('"version": 2', '"version": 1')
    (tmp_path / VOCABULARY).write_text(text)
    with pytest.raises(FirthError, match="another version"):
        CountsModel.load(tmp_path)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the characters as well, so that long texts of another language do not fill the memory; answers stay the same."""
    model = CountsModel.of_texts(TEXTS)
    expected = model.matrix(TEXTS).toarray()
    monkeypatch.setattr(counts_file, "_MAX_CHARS", 1000)
    for number in range(50):
        model.matrix(["ж" * 300 + str(number)])
        assert sum(map(len, model._chunks.numbers)) <= 1000
    np.testing.assert_array_equal(model.matrix(TEXTS).toarray(), expected)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.matrix(TEXTS).toarray(), expected)
