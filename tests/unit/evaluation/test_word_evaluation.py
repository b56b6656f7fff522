"""Similarity and analogy files, English and Chinese."""

from pathlib import Path

import numpy as np
import pytest

from firth.core.errors import FirthError
from firth.evaluation.words import score_analogies, score_similarity
from firth.vectors.word_vectors import WordVectors


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    rows = {
        "man": [1, 0, 0.1], "woman": [0, 1, 0.1], "king": [1, 0, 1], "queen": [0, 1, 1], "apple": [-1, -1, 0.2],
        "李白": [1, 0, 0], "诗": [0.9, 0.1, 0], "网页": [0, 1, 0],
    }  # fmt: skip
    return WordVectors(list(rows), np.asarray(list(rows.values()), np.float32))


@pytest.mark.parametrize("separator", ["\t", " ", ","])
def test_spearman_and_coverage(separator: str, vectors: WordVectors, tmp_path: Path) -> None:
    lines = ["# a comment", "King man 8", "king queen 6", "man woman 1", "king apple 0", "king zebra 9"]
    (tmp_path / "pairs.txt").write_text("\n".join(line.replace(" ", separator) for line in lines))
    found = score_similarity(vectors, tmp_path / "pairs.txt")
    assert (found.pairs, found.known) == (5, 4)
    assert found.coverage == 0.8
    assert found.spearman == pytest.approx(0.8, abs=0.21)
    assert score_similarity(vectors, tmp_path / "pairs.txt", fold=False).known == 3


def test_chinese_pairs(vectors: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "240.txt").write_text("李白\t诗\t9.2\n李白\t网页\t1.0\n诗\t网页\t2.0\n", encoding="utf-8")
    assert score_similarity(vectors, tmp_path / "240.txt").spearman == pytest.approx(1)


def test_analogies_by_section(vectors: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(
        ": family\nman king woman queen\nMan King Woman Queen\nman king woman apple\n: none\nman king woman zebra\n"
    )
    found = score_analogies(vectors, tmp_path / "q.txt")
    family, none = found.sections
    assert (family.name, family.questions, family.known, family.right) == ("family", 3, 3, 2)
    assert (none.questions, none.known, none.coverage, none.accuracy) == (1, 0, 0.0, 0.0)
    assert found.total.accuracy == pytest.approx(2 / 3)
    assert score_analogies(vectors, tmp_path / "q.txt", limit=3).total.known == 0
    assert score_analogies(vectors, tmp_path / "q.txt", method="mul").total.right == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a b 1\na b\n", "line 2: not two words and a score"),
        ("a b 1\na b x\n", "line 2: not two words and a score"),
        ("", "no pair of words"),
    ],
)
def test_bad_similarity_files(content: str, message: str, vectors: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text(content)
    with pytest.raises(FirthError, match=message):
        score_similarity(vectors, tmp_path / "bad.txt")


def test_bad_analogy_files(vectors: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text(": s\na b c\n")
    with pytest.raises(FirthError, match="line 2: 3 words"):
        score_analogies(vectors, tmp_path / "bad.txt")
    with pytest.raises(FirthError, match="no such file"):
        score_analogies(vectors, tmp_path / "none.txt")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe a")
    with pytest.raises(FirthError, match="not UTF-8"):
        score_analogies(vectors, tmp_path / "bad.txt")
