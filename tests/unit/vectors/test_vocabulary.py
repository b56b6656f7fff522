"""Views of the vocabulary, subsampling, noise, the tree, and n-grams."""

import heapq
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from vector_text import word_corpus

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.corpus.format import Corpus
from firth.corpus.prepare import prepare
from firth.vectors.learners import MAX_UNIT, Plan, unit_starts
from firth.vectors.vocabulary import (
    Bags,
    all_buckets,
    fnv1a,
    grow_vocabulary,
    huffman_paths,
    keep_probabilities,
    keep_table,
    noise_probabilities,
    noise_table,
    number_types,
    view_vocabulary,
    word_buckets,
    word_ngrams,
)


def test_views_are_taken_when_training(tmp_path: Path) -> None:
    corpus = word_corpus(tmp_path, ["b b b b a a a c c d"])
    assert view_vocabulary(corpus, 1, None).words == ["b", "a", "c", "d"]
    assert view_vocabulary(corpus, 2, None).words == ["b", "a", "c"]
    assert view_vocabulary(corpus, 2, 2).words == ["b", "a"]
    assert view_vocabulary(corpus, 2, None).counts.tolist() == [4, 3, 2]
    with pytest.raises(FirthError, match=r"no word occurs 5 times .the most frequent one 4 times.; lower min_count"):
        view_vocabulary(corpus, 5, None)


def piece_corpus(folder: Path, kind: str = "wordpiece") -> Corpus:
    (folder / "text.txt").write_text("some words and more words\n" * 50)
    tokens = TokensConfig.build({"kind": kind, "vocab_size": 300}, "test")
    prepare([str(folder / "text.txt")], folder / "pieces", tokens, heldout=0.0, workers=1)
    return Corpus.open(folder / "pieces")


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "characters"])
def test_pieces_by_falling_frequency(tmp_path: Path, kind: str) -> None:
    """Every ordinary piece that occurs, and which number each id of the corpus has."""
    corpus = piece_corpus(tmp_path, kind)
    vocabulary = view_vocabulary(corpus, 1, None)
    counts = Counter(np.asarray(corpus.train.tokens).tolist())
    names = {number: corpus.pieces.token(number) for number in counts}
    wanted = {names[number]: count for number, count in counts.items() if names[number].strip()}
    assert dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True)) == wanted
    assert vocabulary.counts.tolist() == sorted(vocabulary.counts.tolist(), reverse=True)
    remap = number_types(corpus, vocabulary)
    assert remap is not None
    for number, name in names.items():
        known = int(remap[number])
        assert vocabulary.words[known] == name if name.strip() else known == len(vocabulary)
    assert int(remap[corpus.pieces.special_ids[0]]) == len(vocabulary)


def test_words_keep_their_numbers(tmp_path: Path) -> None:
    corpus = word_corpus(tmp_path, ["b b a"])
    assert number_types(corpus, view_vocabulary(corpus, 1, None)) is None


def test_a_grown_vocabulary_adds_counts_and_numbers_the_types(tmp_path: Path) -> None:
    corpus = word_corpus(tmp_path, ["x x x old y"])
    grown, numbers = grow_vocabulary(corpus, 2, None, ["old", "gone"], np.asarray([5, 4]))
    assert grown.words == ["old", "gone", "x"]
    assert grown.counts.tolist() == [6, 4, 3]
    assert numbers.tolist() == [2, 0, 3]  # x, old, and y, which is too rare


def test_subsampling_is_the_published_formula() -> None:
    counts = np.asarray([900_000, 90_000, 10_000])
    t = 1e-3
    share = counts / counts.sum()
    expected = np.minimum(1, (np.sqrt(share / t) + 1) * t / share)  # word2vec.c
    np.testing.assert_allclose(keep_probabilities(counts, t), expected)
    assert keep_probabilities(counts, 0.0).tolist() == [1, 1, 1]
    assert keep_table(counts, t)[-1] == 0
    assert keep_table(np.asarray([1, 1]), 0.0)[0] == 2**32


def test_noise_has_the_exact_probabilities() -> None:
    counts = np.asarray([1000, 300, 77, 5, 1])
    table = noise_table(counts, 0.75).astype(np.float64)
    share = table[:, 0] / 2**32
    found = share / 5
    for column in range(5):
        found[int(table[column, 1])] += (1 - share[column]) / 5
    np.testing.assert_allclose(found, noise_probabilities(counts, 0.75), atol=1e-9)
    np.testing.assert_allclose(noise_probabilities(counts, 0.75)[0], 1000**0.75 / (counts**0.75).sum())


def test_the_huffman_code_is_optimal_and_free_of_prefixes() -> None:
    counts = np.sort(np.random.default_rng(0).integers(1, 1000, 50))[::-1].copy()
    paths = huffman_paths(counts)
    lengths = np.diff(paths.starts)
    heap, best = [int(count) for count in counts], 0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        best += both
        heapq.heappush(heap, both)
    assert (lengths * counts).sum() == best
    assert sum(0.5**length for length in lengths.tolist()) == pytest.approx(1)
    codes = {tuple(paths.goals[a:b]) for a, b in zip(paths.starts[:-1], paths.starts[1:], strict=True)}
    assert len(codes) == 50
    assert not any(one != two and one == two[: len(one)] for one in codes for two in codes)
    assert (paths.nodes[paths.starts[:-1]] == 48).all()  # all begin at the root
    assert paths.nodes.max() == 48


def test_ngrams_are_those_of_the_paper() -> None:
    assert word_ngrams("where", 3, 3) == ["<wh", "whe", "her", "ere", "re>"]
    assert word_ngrams("a", 1, 3) == ["<a", "<a>", "a", "a>"]
    assert word_ngrams("中文", 3, 6) == ["<中文", "<中文>", "中文>"]
    assert word_ngrams("</s>", 3, 6) == []


def test_the_hash_is_fnv_with_signed_bytes() -> None:
    assert fnv1a(b"") == 2166136261
    assert fnv1a(b"a") == 0xE40C292C  # the published test vectors of FNV-1a
    assert fnv1a(b"foobar") == 0xBF9CF968
    assert fnv1a("é".encode()) != ((((2166136261 ^ 0xC3) * 16777619 % 2**32) ^ 0xA9) * 16777619 % 2**32)


def test_hashing_kernel_and_twin_agree() -> None:
    random = np.random.default_rng(0)
    letters = list("abcé中🙂-")
    words = ["".join(random.choice(letters, random.integers(1, 9))) for _ in range(1200)] + ["</s>", "ß"]
    for shortest, longest in ((3, 6), (1, 2), (2, 2)):
        flat, starts = all_buckets(words, shortest, longest, 777)
        for number, word in enumerate(words):
            expected = word_buckets(word, shortest, longest, 777)
            assert flat[starts[number] : starts[number + 1]].tolist() == expected
    assert all_buckets(words, 3, 0, 777)[0].size == 0


def test_bags_have_the_word_first_and_only_buckets_in_use() -> None:
    bags = Bags(["where", "here"], 3, 6, 1000)
    first = bags.rows[bags.starts[0] : bags.starts[1]]
    assert first[0] == 0
    assert bags.used[first[1:] - 2].tolist() == word_buckets("where", 3, 6, 1000)
    assert bags.num_rows == 2 + len(set(word_buckets("where", 3, 6, 1000) + word_buckets("here", 3, 6, 1000)))


def test_the_plan_covers_every_token_once(words: Corpus) -> None:
    starts = unit_starts(words.train, "sentence")
    assert starts[0] == 0
    assert starts[-1] == words.info.train.tokens
    plan = Plan(starts, 500, 3, 2)
    seen = np.zeros(len(starts) - 1, int)
    for step in range(plan.num_steps):
        _, chunks = plan.step(step)
        for chunk in chunks:
            seen[plan.borders[chunk] : plan.borders[chunk + 1]] += 1
    assert (seen == 2).all()
    before = [plan.tokens_before(step) for step in range(plan.num_steps + 1)]
    assert before == sorted(before)
    assert before[-1] == 2 * words.info.train.tokens


def test_a_long_document_is_cut(tmp_path: Path) -> None:
    corpus = word_corpus(tmp_path, ["w " * (2 * MAX_UNIT + 5), "short one"])
    assert unit_starts(corpus.train, "document").tolist() == [
        0,
        MAX_UNIT,
        2 * MAX_UNIT,
        2 * MAX_UNIT + 5,
        2 * MAX_UNIT + 7,
    ]
