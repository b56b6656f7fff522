"""A base of several languages fine-tuned on two of them and asked in a third; names in Chinese with and without the user's
dictionary."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import firth

NAMES = ["云在天", "大有人在", "来去科技", "上下文", "水中火", "小米粒", "天地人", "好日子", "国中人", "日月潭水"]
BEFORE = ["昨天", "今天", "去年", "上个月", "听说", "据报道"]
AFTER = ["发布了新产品", "宣布裁员", "收购了一家公司", "公布了财报", "在北京开会", "招聘工程师"]


def write_names(path: Path, number: int, seed: int) -> list[tuple[str, str]]:
    """Sentences as words with tags; returns (text, name)."""
    random = np.random.default_rng(seed)
    found, lines = [], []
    from firth.tokenizers.words import cut

    for _ in range(number):
        before, name, after = (str(random.choice(some)) for some in (BEFORE, NAMES, AFTER))
        words = [*((word, "O") for word in cut(before)), (name, "B-ORG"), *((word, "O") for word in cut(after + "。"))]
        lines += [f"{word}\t{tag}" for word, tag in words] + [""]
        found.append((before + name + after + "。", name))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return found


@pytest.mark.slow
def test_chinese_names_with_and_without_a_dictionary(tmp_path: Path) -> None:
    """A tagger of words finds a name in running text only if the segmenter keeps it whole."""
    texts = write_names(tmp_path / "train.conll", 150, 0)
    asked = write_names(tmp_path / "test.conll", 60, 1)
    (tmp_path / "text.txt").write_text("\n".join(text for text, _ in texts * 3), encoding="utf-8")
    (tmp_path / "words.txt").write_text("\n".join(NAMES), encoding="utf-8")
    scores = {}
    for kind, dictionary in (("with", tmp_path / "words.txt"), ("without", None)):
        corpus, vectors, task = (tmp_path / f"{kind}-{part}" for part in ("corpus", "vectors", "task"))
        firth.prepare(tmp_path / "text.txt", corpus, tokens="words", layout="line", dictionary=dictionary)
        firth.pretrain("word2vec", corpus=corpus, out=vectors, min_count=1, dim=32, threads=1)
        firth.finetune("tag", base=vectors, train=tmp_path / "train.conll", out=task, epochs=15, learning_rate=0.05)
        predictions = firth.predict(task, [text for text, _ in asked])
        found = [{entity["text"] for entity in one["entities"]} for one in predictions]
        hits = sum(name in names for names, (_, name) in zip(found, asked, strict=True))
        scores[kind] = 2 * hits / (sum(map(len, found)) + len(asked))
    assert scores["with"] > 0.95
    assert scores["with"] > scores["without"] + 0.2


GOOD = {
    "en": ["fantastic", "excellent", "perfect"],
    "de": ["fantastisch", "exzellent", "perfekt"],
    "nl": ["fantastisch", "excellent", "perfect"],
}
BAD = {
    "en": ["horrible", "catastrophic", "absurd"],
    "de": ["horribel", "katastrophal", "absurd"],
    "nl": ["horribel", "catastrofaal", "absurd"],
}
FRAMES = {
    "en": ["The {} was {} .", "I found the {} {} .", "This {} is {} ."],
    "de": ["Der {} war {} .", "Ich fand den {} {} .", "Dieser {} ist {} ."],
    "nl": ["De {} was {} .", "Ik vond de {} {} .", "Deze {} is {} ."],
}
THINGS = {
    "en": ["film", "roman", "concert", "test"],
    "de": ["Film", "Roman", "Text", "Test"],
    "nl": ["film", "roman", "tekst", "test"],
}


def opinions(language: str) -> list[dict[str, str]]:
    return [
        {"text": frame.format(thing, word), "label": label}
        for frame, thing in itertools.product(FRAMES[language], THINGS[language])
        for label, words in (("good", GOOD[language]), ("bad", BAD[language]))
        for word in words
    ]


@pytest.mark.slow
def test_two_languages_teach_a_third(tmp_path: Path) -> None:
    """Words of Latin and Greek are written alike in all three, and pieces are shared."""
    rows = {language: opinions(language) for language in GOOD}
    every = [row["text"] for some in rows.values() for row in some]
    (tmp_path / "text.txt").write_text("\n".join(every * 4), encoding="utf-8")
    firth.prepare(tmp_path / "text.txt", tmp_path / "corpus", layout="line", vocab_size=300)
    firth.pretrain(
        "modernbert-1m",
        corpus=tmp_path / "corpus",
        out=tmp_path / "base",
        steps=60,
        seq_len=32,
        hidden_dim=64,
        ffn_dim=96,
        num_heads=2,
        evaluations=1,
    )
    lines = [json.dumps(row) for language in ("en", "de") for row in rows[language]]
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    firth.finetune("classify", base=tmp_path / "base", train=tmp_path / "train.jsonl", out=tmp_path / "task", epochs=8)
    found = firth.predict(tmp_path / "task", [row["text"] for row in rows["nl"]])
    hits = [one["label"] == row["label"] for one, row in zip(found, rows["nl"], strict=True)]
    assert np.mean(hits) > 0.8
    assert max(one["unknown"] for one in found) == 0
