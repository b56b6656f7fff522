"""Questions to vectors, one by one and in batches, in float32 and int8."""

import numpy as np
import pytest

from firth.core.errors import FirthError
from firth.vectors import word_vectors as search
from firth.vectors.vocabulary import word_buckets
from firth.vectors.word_vectors import Subwords, WordVectors


@pytest.fixture(scope="module")
def family() -> WordVectors:
    """Royal and sex as two directions."""
    rows = {"man": [1, 0, 0.1], "woman": [0, 1, 0.1], "king": [1, 0, 1], "queen": [0, 1, 1], "apple": [-1, -1, 0.2]}
    return WordVectors(list(rows), np.asarray(list(rows.values()), np.float32))


@pytest.fixture(scope="module")
def many() -> WordVectors:
    random = np.random.default_rng(0)
    return WordVectors([f"w{number}" for number in range(3000)], random.normal(size=(3000, 24)).astype(np.float32))


def test_analogies(family: WordVectors) -> None:
    for method in ("add", "mul"):
        assert family.analogy("man", "king", "woman", top=1, method=method)[0][0] == "queen"  # type: ignore[arg-type]
    both = family.analogies([("man", "king", "woman"), ("woman", "queen", "man")], top=2)
    assert [some[0][0] for some in both] == ["queen", "king"]
    with pytest.raises(FirthError, match="choose add"):
        family.analogy("man", "king", "woman", method="sub")  # type: ignore[arg-type]


def test_similarity_and_the_odd_one_out(family: WordVectors) -> None:
    assert family.similarity("man", "man") == pytest.approx(1)
    assert family.similarity("man", "woman") == pytest.approx(0.01 / 1.01)
    np.testing.assert_allclose(family.similarity(["man", "king"], ["man", "king"]), [1, 1], rtol=1e-6)
    assert family.doesnt_match(["king", "queen", "apple"]) == "apple"
    with pytest.raises(FirthError, match="at least three"):
        family.doesnt_match(["king", "queen"])


def test_blocks_and_batches_find_what_a_sort_finds(many: WordVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BLOCK", 700)
    monkeypatch.setattr(search, "_QUERIES", 3)
    queries = [f"w{number}" for number in (0, 5, 700, 1400, 2999)]
    units = many.matrix / np.linalg.norm(many.matrix, axis=1, keepdims=True)
    for query, found in zip(queries, many.nearest(queries, top=7), strict=True):
        cosines = units @ units[many.index[query]]
        cosines[many.index[query]] = -2
        best = np.argsort(-cosines, kind="stable")[:7]
        assert [word for word, _ in found] == [f"w{number}" for number in best]
        np.testing.assert_allclose([score for _, score in found], cosines[best], rtol=1e-5)
    assert many.nearest(many.matrix[:2], top=1)[1][0][0] == "w1"
    assert {int(word[1:]) for word, _ in many.nearest("w5", top=50, limit=100)} <= set(range(100))
    assert len(many.nearest("w5", top=5000)) == 2999


def test_products_are_those_of_the_formula(many: WordVectors) -> None:
    units = many.matrix / np.linalg.norm(many.matrix, axis=1, keepdims=True)
    a, b, c = ((units @ units[number] + 1) / 2 for number in (1, 2, 3))
    scores = b * c / (a + 0.001)
    scores[[1, 2, 3]] = -1
    word, score = many.analogy("w1", "w2", "w3", top=1, method="mul")[0]
    assert word == f"w{scores.argmax()}"
    assert score == pytest.approx(scores.max(), rel=1e-5)


def test_int8_costs_little(many: WordVectors) -> None:
    small = many.quantized()
    assert small.matrix.dtype == np.int8
    pairs = [f"w{number}" for number in range(0, 2000, 2)], [f"w{number}" for number in range(1, 2000, 2)]
    assert np.abs(small.similarity(*pairs) - many.similarity(*pairs)).max() < 0.01
    same = [
        one[0][0] == two[0][0] for one, two in zip(small.nearest(pairs[0], 1), many.nearest(pairs[0], 1), strict=True)
    ]
    assert np.mean(same) > 0.95


def test_an_unknown_word_is_told_with_near_spellings(family: WordVectors) -> None:
    with pytest.raises(FirthError, match="'quen' is not among the 5 words: did you mean 'queen'") as caught:
        family.nearest("quen")
    assert "\n" not in str(caught.value)
    with pytest.raises(FirthError, match="did you mean 'king'"):
        family.similarity("King", "man")
    with pytest.raises(FirthError, match="no known word is near it"):
        family["xyzzy"]


def test_unknown_words_are_made_of_ngrams(family: WordVectors) -> None:
    rows = np.random.default_rng(0).random((50, 3)).astype(np.float32)
    vectors = WordVectors(family.words, family.matrix, None, Subwords(rows, 3, 6, 50))
    np.testing.assert_allclose(vectors["kings"], rows[word_buckets("kings", 3, 6, 50)].mean(0), rtol=1e-6)
    assert vectors.nearest("kings", top=1)
    assert "kings" not in vectors


def test_a_word_of_zeros_is_near_to_nothing() -> None:
    vectors = WordVectors(["a", "zero"], np.asarray([[1, 0], [0, 0]], np.float32))
    assert vectors.nearest("a") == [("zero", 0.0)]
