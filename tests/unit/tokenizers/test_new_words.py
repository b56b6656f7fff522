"""New words by cohesion and by the entropy of their neighbours, against a plain version, and as a command."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import regex

import firth
from firth.cli.main import main
from firth.core.errors import FirthError
from firth.tokenizers.new_words import propose_words
from firth.tokenizers.segmentation import PLAIN, Segmentation


def plain_values(texts: list[str], word: str) -> tuple[int, float, float, float]:
    """The same by counting."""
    runs = [run for text in texts for run in regex.findall(r"\p{Han}+", text)]
    total = sum(map(len, runs))
    counts: Counter[str] = Counter()
    left: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for run in runs:
        for start in range(len(run)):
            for end in range(start + 1, min(start + 4, len(run)) + 1):
                counts[run[start:end]] += 1
                if run[start:end] == word:
                    left[run[start - 1] if start else ""] += 1
                    right[run[end] if end < len(run) else ""] += 1

    def entropy(found: Counter[str]) -> float:
        return -sum(n / found.total() * math.log(n / found.total()) for n in found.values())

    cohesion = min(
        math.log(counts[word] / total) - math.log(counts[word[:cut]] / total) - math.log(counts[word[cut:]] / total)
        for cut in range(1, len(word))
    )
    return counts[word], cohesion, entropy(left), entropy(right)


def made_texts(seed: int = 0) -> list[str]:
    """Sentences of common characters, with two names between them."""
    random = np.random.default_rng(seed)
    common = "我你他们在有的是不了人来去说看到大小上下中国好天地日月水火"
    texts = []
    for _ in range(400):
        words = ["".join(random.choice(list(common), 6)) for _ in range(2)]
        texts.append(words[0] + random.choice(["饕璟", "魑旻珅", ""]) + words[1] + "。")
    return texts


def test_the_names_are_found_first() -> None:
    texts = made_texts()
    found = propose_words(texts, PLAIN)
    assert [one.word for one in found[:2]] == ["魑旻珅", "饕璟"] or [one.word for one in found[:2]] == [
        "饕璟",
        "魑旻珅",
    ]
    assert len(found) <= 4
    for one in found:
        values = (one.count, one.cohesion, one.left_entropy, one.right_entropy)
        assert values == pytest.approx(plain_values(texts, one.word))


def test_every_sequence_has_the_values_of_the_plain_version() -> None:
    texts = made_texts(1)[:60]
    found = propose_words(texts, PLAIN, min_count=3, min_cohesion=-100, min_entropy=-1)
    assert len(found) > 20
    for one in found:
        values = (one.count, one.cohesion, one.left_entropy, one.right_entropy)
        assert values == pytest.approx(plain_values(texts, one.word))


def test_words_of_the_dictionary_are_not_new() -> None:
    texts = made_texts()
    found = propose_words(texts, Segmentation(dictionary=("饕璟", "魑旻珅")))
    assert not {"饕璟", "魑旻珅"} & {one.word for one in found}
    assert propose_words([], PLAIN) == []
    assert propose_words(["no ideographs"], PLAIN) == []


@pytest.mark.slow
def test_from_a_corpus_to_a_dictionary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is proposed becomes a dictionary, with which the next corpus keeps these words whole."""
    (tmp_path / "text.txt").write_text("\n".join(made_texts()), encoding="utf-8")
    for kind in ("wordpiece", "words"):
        firth.prepare(tmp_path / "text.txt", tmp_path / kind, tokens=kind, layout="line", vocab_size=400)
        main(["words", str(tmp_path / kind), "--json"])
        assert {one["word"] for one in json.loads(capsys.readouterr().out)["words"][:2]} == {"饕璟", "魑旻珅"}
    main(["words", str(tmp_path / "text.txt"), "--top", "2", "--out", str(tmp_path / "words.txt")])
    shown = capsys.readouterr().out
    assert "饕璟" in shown
    assert "--dictionary" in shown
    firth.prepare(
        tmp_path / "text.txt", tmp_path / "again", tokens="words", layout="line", dictionary=tmp_path / "words.txt"
    )
    assert firth.tokens(tmp_path / "again", "他说饕璟")["words"][-1] == "饕璟"


def test_nothing_to_find(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("plain words\n", encoding="utf-8")
    with pytest.raises(FirthError, match="no Chinese in it"):
        firth.new_words(tmp_path / "text.txt")
    (tmp_path / "text.txt").write_text("我们去北京。\n", encoding="utf-8")
    assert firth.new_words(tmp_path / "text.txt") == []
    main(["words", str(tmp_path / "text.txt")])
    assert "no new words" in capsys.readouterr().out
    with pytest.raises(FirthError, match="no such file"):
        firth.new_words(tmp_path / "nothing")
