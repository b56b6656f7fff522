"""Topics and near duplicates of documents with known groups."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.core.errors import FirthError
from firth.retrieval.topics import find_duplicates, find_topics, topic_words
from firth.retrieval.words import whole_words

WORDS = {
    "sea": "boat harbour wave sailor anchor".split(),
    "food": "bread butter kitchen soup oven".split(),
    "中": "老师 学生 学校 课本 考试".split(),
}


def documents(num: int = 30) -> tuple[list[str], np.ndarray, list[int]]:
    random = np.random.default_rng(0)
    texts, groups = [], []
    for number in range(3 * num):
        words = list(WORDS.values())[number % 3]
        texts.append(" ".join(random.choice(words, 6)) + " the and")
        groups.append(number % 3)
    centres = 4 * np.eye(3, 20)
    rows = centres[groups] + 0.3 * random.standard_normal((3 * num, 20))
    return texts, rows.astype(np.float32), groups


def test_clusters_are_the_groups() -> None:
    texts, rows, groups = documents()
    found = find_topics(texts, rows)
    named = [topic for topic in found.topics if topic.number >= 0]
    assert len(named) == 3
    for topic in named:
        assert len({groups[number] for number in topic.documents}) == 1
        own = next(iter({groups[number] for number in topic.documents}))
        assert set(topic.words[:5]) <= set(list(WORDS.values())[own])
        assert topic.example in topic.documents
    assert found.places_N2.shape == (90, 2)
    with pytest.raises(FirthError, match="too few for topics"):
        find_topics(texts[:6], rows[:6])


def test_chinese_topics_are_named_by_whole_words() -> None:
    """Words of three characters in text without spaces, not pieces of them."""
    groups = (("图书馆", "阅览室", "管理员"), ("足球赛", "运动员", "教练员"))
    random = np.random.default_rng(3)
    texts = ["我们在" + "和".join(random.permutation(groups[n % 2])) + "。" for n in range(40)]
    rows = np.eye(2, 8)[[n % 2 for n in range(40)]] + 0.1 * random.standard_normal((40, 8))
    found = find_topics(texts, rows.astype(np.float32))
    named = [set(topic.words) for topic in found.topics if topic.number >= 0]
    assert len(named) == 2
    assert {"图书馆"} <= named[0] | named[1]
    pairs = {word[place : place + 2] for some in groups for word in some for place in range(2)}
    whole = {word for some in groups for word in some}
    cut = {word for text in texts for word in whole_words(text)}
    assert (named[0] | named[1]) & pairs <= cut - whole  # only where the segmenter itself cuts so
    assert "书馆" not in named[0] | named[1]


def test_class_based_tfidf() -> None:
    """tf(t, c) ln(1 + A / tf(t)), by hand; tf(t, c) as a share of the topic."""
    cuts = [["ship", "ship", "rope"], ["rope", "cake"], ["cake", "cake", "cake", "jam"]]
    numbers = np.asarray([0, 0, 1])
    counts = [Counter(cuts[0] + cuts[1]), Counter(cuts[2])]
    total = counts[0] + counts[1]
    mean = 9 / 2
    for number, found in topic_words(cuts, numbers, 3).items():
        inside = counts[number]
        scores = {word: inside[word] / inside.total() * math.log(1 + mean / total[word]) for word in inside}
        assert found == sorted(scores, key=lambda word: (-scores[word], word))[:3]


def test_duplicates_are_all_close_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.retrieval.topics.BLOCK", 16 * 7)  # several blocks
    random = np.random.default_rng(1)
    rows = random.standard_normal((40, 8)).astype(np.float32)
    rows[17], rows[33], rows[5] = 2 * rows[3], rows[3] + 0.01, -rows[2]
    found = find_duplicates(rows, 0.99)
    assert [(first, second) for first, second, _ in found] == [(3, 17), (3, 33)] or [
        (first, second) for first, second, _ in found
    ] == [(3, 17), (17, 33)]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    wanted = {second for second in range(40) if (units[:second] @ units[second]).max(initial=-1) >= 0.5}
    assert {second for _, second, _ in find_duplicates(rows, 0.5)} == wanted
    with pytest.raises(FirthError, match="at most 1"):
        find_duplicates(rows, 1.5)


def test_from_files(tmp_path: Path) -> None:
    texts, _, _ = documents(20)
    (tmp_path / "texts.txt").write_text("\n".join([*texts, texts[4]]) + "\n", encoding="utf-8")
    words = [word for some in WORDS.values() for word in some]
    rows = np.repeat(np.eye(3), 5, 0) + 0.01 * np.random.default_rng(2).standard_normal((15, 3))
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in row)}" for word, row in zip(words, rows, strict=True))
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = firth.topics(tmp_path / "texts.txt", tmp_path / "vectors.txt", layout="line", out=tmp_path / "map.html")
    assert len([topic for topic in found.topics if topic.number >= 0]) == 3
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert page.count("<circle") == 61
    assert found.topics[0].words[0] in page
    same = firth.duplicates(tmp_path / "texts.txt", tmp_path / "vectors.txt", layout="line", least=0.9999)
    assert f"{tmp_path / 'texts.txt'}:61" in [later for _, later, _ in same]
