"""Files and hashes of the original programs, and what gensim and fastText make of ours."""

from pathlib import Path
from typing import Any

import fasttext
import gensim
import numpy as np
import pytest

from firth.core.registry import TokensConfig
from firth.corpus.format import Corpus
from firth.corpus.prepare import prepare
from firth.evaluation.words import score_analogies, score_similarity
from firth.vectors.configs import FastTextConfig, Word2VecConfig
from firth.vectors.formats import load_vectors, save_vectors
from firth.vectors.trainer import train_vectors
from firth.vectors.vocabulary import fnv1a, word_buckets, word_ngrams
from firth.vectors.word_vectors import WordVectors

DATA = Path(gensim.__file__).parent / "test" / "test_data"
STRANGE = ["kingdomish", "naïveté", "中文词", "日本", "a", "ab", "ｆｕｌｌ", "🙂x", "-", "x" * 60]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("lee")
    prepare(
        [str(DATA / "lee_background.cor")],
        folder / "corpus",
        TokensConfig(kind="words", word_split="whitespace"),
        heldout=0.0,
        workers=1,
    )
    return Corpus.open(folder / "corpus")


@pytest.mark.parametrize("word", ["where", "naïve", "中文", "ß", "🙂"])
def test_hashes_are_the_originals(word: str) -> None:
    from gensim.models.fasttext_inner import compute_ngrams, ft_hash_bytes

    assert fnv1a(word.encode()) == ft_hash_bytes(word.encode())
    assert sorted(word_ngrams(word, 3, 6)) == sorted(compute_ngrams(word, 3, 6))


@pytest.mark.parametrize("name", ["lee_fasttext_new.bin", "crime-and-punishment.bin", "toy-model.bin"])
def test_models_of_the_original_answer_the_same(name: str) -> None:
    theirs = fasttext.load_model(str(DATA / name))
    ours = load_vectors(DATA / name)
    assert list(ours.words) == theirs.get_words()
    some = list(ours.words)[:200]
    np.testing.assert_allclose(ours.vectors(some), [theirs.get_word_vector(word) for word in some], atol=1e-5)
    strange = [word for word in STRANGE if word not in ours and word_ngrams(word, 3, 6)]
    made = [theirs.get_word_vector(word) for word in strange]
    np.testing.assert_allclose(ours.vectors(strange), made, atol=1e-5)
    for word in ("where", "中文词", "naïve"):
        numbers = theirs.get_subwords(word)[1]
        known = len(theirs.get_words())
        buckets = [int(number) - known for number in numbers if number >= known]
        assert ours.subwords is not None
        assert buckets == word_buckets(word, ours.subwords.shortest, ours.subwords.longest, ours.subwords.bucket)


@pytest.mark.parametrize("name", ["lee_fasttext.vec", "crime-and-punishment.vec", "toy-model.vec"])
def test_text_vectors_of_the_original(name: str) -> None:
    from gensim.models import KeyedVectors

    theirs = KeyedVectors.load_word2vec_format(str(DATA / name))
    ours = load_vectors(DATA / name)
    assert list(ours.words) == theirs.index_to_key
    np.testing.assert_allclose(ours.matrix, theirs.vectors, atol=1e-6)


def test_glove_text() -> None:
    ours = load_vectors(DATA / "test_glove.txt")
    assert ours.dim == 50
    assert len(ours) > 5


def test_word2vec_files_of_gensim_and_the_reverse(tmp_path: Path) -> None:
    from gensim.models import KeyedVectors

    random = np.random.default_rng(0)
    words = ["the", "naïve", "中文", "a\xa0b", "x" * 100]
    theirs = KeyedVectors(7)
    theirs.add_vectors(words, random.normal(size=(5, 7)).astype(np.float32))
    for binary, name in ((True, "t.bin"), (False, "t.txt")):
        theirs.save_word2vec_format(str(tmp_path / name), binary=binary)
        ours = load_vectors(tmp_path / name)
        assert list(ours.words) == words
        np.testing.assert_allclose(ours.matrix, theirs.vectors, rtol=1e-6)
        save_vectors(ours, tmp_path / f"back-{name}", "word2vec" if binary else "text")
        back = KeyedVectors.load_word2vec_format(str(tmp_path / f"back-{name}"), binary=binary)
        assert back.index_to_key == words
        np.testing.assert_allclose(back.vectors, theirs.vectors, rtol=1e-6)


def test_word2vec_binary_without_line_feeds(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "v.bin").write_bytes(b"2 3\na " + rows[0].tobytes() + b"b " + rows[1].tobytes())
    np.testing.assert_array_equal(load_vectors(tmp_path / "v.bin").matrix, rows)


def test_a_run_opens_in_gensim_and_fasttext(corpus: Corpus, tmp_path: Path) -> None:
    from gensim.models import KeyedVectors
    from gensim.models.fasttext import load_facebook_model

    config = FastTextConfig(dim=12, epochs=2, bucket=5000, threads=1, min_count=3)
    ours = train_vectors(corpus, config, tmp_path / "run")
    keyed = KeyedVectors.load_word2vec_format(str(tmp_path / "run" / "vectors.bin"), binary=True)
    np.testing.assert_allclose(keyed.vectors, ours.matrix, atol=1e-6)
    model: Any = fasttext.load_model(str(tmp_path / "run" / "model.bin"))
    assert model.get_words() == list(ours.words)
    other = load_facebook_model(str(tmp_path / "run" / "model.bin"))
    for word in [*list(ours.words)[:50], *STRANGE]:
        if not word_ngrams(word, 3, 6):
            continue
        np.testing.assert_allclose(ours[word], model.get_word_vector(word), atol=1e-5)
        if len(word) > 2:
            np.testing.assert_allclose(ours[word], other.wv[word], atol=1e-5)


def test_questions_are_answered_like_gensims(corpus: Corpus, tmp_path: Path) -> None:
    from gensim.models import KeyedVectors

    ours = train_vectors(corpus, Word2VecConfig(dim=20, epochs=5, threads=1), tmp_path / "run")
    theirs = KeyedVectors.load_word2vec_format(str(tmp_path / "run" / "vectors.bin"), binary=True)
    for word in ("government", "police", "the"):
        found, expected = ours.nearest(word), theirs.most_similar(word)
        assert [one for one, _ in found] == [one for one, _ in expected]
        np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], atol=1e-5)
    add = ours.analogy("man", "people", "police", top=3)
    assert [one for one, _ in add] == [one for one, _ in theirs.most_similar(["people", "police"], ["man"], topn=3)]
    mul = ours.analogy("man", "people", "police", top=3, method="mul")
    cosmul = theirs.most_similar_cosmul(["people", "police"], ["man"], topn=3)
    assert [one for one, _ in mul] == [one for one, _ in cosmul]
    words = ["monday", "government", "police", "minister"]
    assert ours.doesnt_match(words) == theirs.doesnt_match(words)


def test_scores_are_gensims(tmp_path: Path) -> None:
    """On random vectors of the words of the files themselves."""
    from gensim.models import KeyedVectors

    words: dict[str, None] = {}
    for name in ("wordsim353.tsv", "questions-words.txt"):
        for line in (DATA / name).read_text().split("\n")[:900]:
            words |= dict.fromkeys(line.lower().split()[: 2 if "353" in name else 4])
    random = np.random.default_rng(0)
    ours = WordVectors(list(words), random.normal(size=(len(words), 10)).astype(np.float32))
    theirs = KeyedVectors(10)
    theirs.add_vectors(list(words), ours.matrix)
    _, spearman, unknown = theirs.evaluate_word_pairs(str(DATA / "wordsim353.tsv"))
    found = score_similarity(ours, DATA / "wordsim353.tsv")
    assert found.spearman == pytest.approx(spearman[0], abs=1e-6)
    assert 100 * (1 - found.coverage) == pytest.approx(unknown)
    accuracy, sections = theirs.evaluate_word_analogies(str(DATA / "questions-words.txt"), restrict_vocab=500)
    ours_found = score_analogies(ours, DATA / "questions-words.txt", limit=500)
    assert ours_found.total.accuracy == pytest.approx(accuracy)
    assert ours_found.total.known == len(sections[-1]["correct"]) + len(sections[-1]["incorrect"])
