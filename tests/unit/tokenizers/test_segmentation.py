"""Words of scripts without spaces by segmenters, the user's words in Chinese, traditional script; recorded and read again."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firth
from firth.core.errors import FirthError
from firth.corpus.format import Corpus
from firth.tokenizers import segmentation as module
from firth.tokenizers.segmentation import PLAIN, Segmentation, choose_segmentation, simplified_forms
from firth.tokenizers.sentences import split_sentences
from firth.tokenizers.word_tokens import WordTokens
from firth.tokenizers.words import is_blank
from language_text import SEGMENTED, TEXTS, TRADITIONAL, natural
from piece_samples import HARD

pytest.importorskip("icu4py")
pytest.importorskip("sudachipy")
pytest.importorskip("opencc")
EVERY = Segmentation(
    segmenters=dict.fromkeys(("Thai", "Lao", "Khmer", "Myanmar"), "icu") | {"Japanese": "sudachi"},
    traditional="臺台灣湾",
    dictionary=("飞桨", "云计算大会"),
)


def words(how: Segmentation, text: str) -> list[str]:
    return [text[start:end] for start, end in how.split(text)]


def f1(how: Segmentation, language: str) -> float:
    """Of words against a reader's."""
    same = total = 0
    for sentence in SEGMENTED[language]:
        wanted: set[tuple[int, int]] = set()
        place = 0
        for word in sentence.split():
            wanted.add((place, place + len(word)))
            place += len(word)
        found = set(how.split(sentence.replace(" ", "")))
        same, total = same + len(wanted & found), total + len(wanted) + len(found)
    return 2 * same / total


@pytest.mark.parametrize("language", SEGMENTED)
@pytest.mark.parametrize(("segmenter", "least"), [("auto", 0.72), ("icu", 0.72)])
def test_words_against_a_reader(language: str, segmenter: str, least: float) -> None:
    text = [sentence.replace(" ", "") for sentence in SEGMENTED[language]]
    how, advice = choose_segmentation(text, segmenter=segmenter)
    plain, _ = choose_segmentation(text, segmenter="none")
    assert set(how.segmenters) == {language}
    assert not advice
    assert f1(how, language) > least
    assert f1(how, language) > f1(plain, language) + 0.1
    if segmenter == "auto" and language == "Japanese":
        assert f1(how, language) == 1


def test_kanji_are_not_cut_by_the_chinese_dictionary() -> None:
    how, _ = choose_segmentation(["昨日は東京に行きました。ガラスの靴を履いて、国立大学で勉強しています。", "国立大学"])
    assert how.kanji
    assert not how.is_chinese("国立大学生")  # as the Chinese dictionary would otherwise find it
    assert PLAIN.is_chinese("国立大学生")
    assert words(how, "国立大学生") == ["国立", "大学", "生"]


def test_a_corpus_of_both_languages_has_both_dictionaries() -> None:
    chinese = "他在北京大学学习计算机科学。"
    how, _ = choose_segmentation(["昨日は東京に行きました。", chinese, chinese])
    assert not how.kanji
    assert words(how, chinese) == words(PLAIN, chinese)
    assert words(how, "昨日は東京に行きました。") == ["昨日", "は", "東京", "に", "行き", "まし", "た", "。"]


def test_traditional_script_is_as_good_as_simplified() -> None:
    how, _ = choose_segmentation(list(TRADITIONAL))
    assert how.traditional
    different = 0
    for traditional, simplified in TRADITIONAL.items():
        expected = [end for _, end in PLAIN.split(simplified)]
        assert [end for _, end in how.split(traditional)] == expected
        different += [end for _, end in PLAIN.split(traditional)] != expected
    assert different >= 3  # without the table the dictionary knows few of the words


def test_simplified_text_is_left_alone() -> None:
    how, _ = choose_segmentation(list(TRADITIONAL.values()))
    assert how.plain
    forms = simplified_forms()
    assert len(forms) > 4000
    assert not set(forms[::2]) & set("".join(TRADITIONAL.values()))


def test_words_of_the_user() -> None:
    text = "飞桨在云计算大会上亮相。"
    assert "飞桨" not in words(PLAIN, "我爱飞桨") or "云计算大会" not in words(PLAIN, text)
    how, _ = choose_segmentation([text], ["飞桨", "云计算大会"])
    assert words(how, text) == ["飞桨", "在", "云计算大会", "上", "亮相", "。"]
    both = how.replace(traditional="會会雲云計计飛飞槳桨")
    assert words(both, "飛槳在雲計算大會上") == ["飛槳", "在", "雲計算大會", "上"]


texts = st.text(
    st.sampled_from(
        HARD + "".join(map(natural, TEXTS)) + "".join("".join(some) for some in SEGMENTED.values()) + "𠮷臺灣"
    ),
    max_size=40,
)


@settings(deadline=None)
@given(texts)
def test_words_hold_everything_but_white_space(text: str) -> None:
    for how in (EVERY, EVERY.replace(kanji=True)):
        spans = how.split(text)
        inside = [place for start, end in spans for place in range(start, end)]
        assert inside == sorted(set(inside))
        assert all(char.isspace() or is_blank(char) for place, char in enumerate(text) if place not in set(inside))
        assert not any(text[start:end].isspace() for start, end in spans)


sentences = [sentence.replace(" ", "") for some in SEGMENTED.values() for sentence in some]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*sentences, "plain. ", "Oh! ", "12", "。", "「", " "]), max_size=12).map("".join))
def test_a_sentence_alone_has_the_words_that_it_has_in_its_text(text: str) -> None:
    how = EVERY.replace(segmenters={**EVERY.segmenters, "Japanese": "icu"})
    if how.is_chinese(text):
        return
    alone = [
        (start + first, start + last)
        for start, end in split_sentences(text)
        for first, last in how.split(text[start:end], False)
    ]
    assert alone == how.split(text)


def test_on_disk(tmp_path: Path) -> None:
    EVERY.save(tmp_path)
    assert Segmentation.load(tmp_path) == EVERY
    assert Segmentation.load(tmp_path / "nothing") == PLAIN
    PLAIN.save(tmp_path / "nothing")
    (tmp_path / "segmentation.json").write_text(json.dumps({"traditional": "臺"}), encoding="utf-8")
    with pytest.raises(FirthError, match="damaged"):
        Segmentation.load(tmp_path)


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = module.find_spec
    monkeypatch.setattr(
        module, "find_spec", lambda name: None if name in ("icu4py", "sudachipy", "opencc") else found(name)
    )
    simplified_forms.cache_clear()
    how, advice = choose_segmentation(["เมื่อวานนี้ฉันไปโรงเรียน", *TRADITIONAL])
    simplified_forms.cache_clear()
    assert how.plain
    assert advice[0].startswith("words of Thai are found without a dictionary; pip install 'firth[segmenters]'")
    assert "traditional script" in advice[1]

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("firth.core.errors.import_module", missing)
    assert EVERY.split("plain words")  # only text that needs it
    with pytest.raises(FirthError, match=r"needs the package icu4py.breakers: pip install 'firth\[segmenters\]'"):
        EVERY.split("โรงเรียน")


@pytest.mark.parametrize("kind", ["words", "wordpiece", "bpe"])
def test_a_corpus_and_its_model_find_the_same_words(tmp_path: Path, kind: str) -> None:
    """What ``prepare`` recorded is what the tokenizer does when it reads a text again."""
    lines = ["飞桨在云计算大会上亮相。", "เมื่อวานนี้ฉันไปโรงเรียน", "ガラスの靴を履いて行きました。", *TRADITIONAL]
    (tmp_path / "text.txt").write_text("\n".join(lines * 3), encoding="utf-8")
    (tmp_path / "words.txt").write_text("# mine\n云计算大会 5 n\n飞桨\n\n", encoding="utf-8")
    info = firth.prepare(
        tmp_path / "text.txt",
        tmp_path / "corpus",
        tokens=kind,
        vocab_size=500,
        layout="line",
        dictionary=tmp_path / "words.txt",
        heldout=0,
        workers=2,
    )
    assert (info.dictionary, info.simplified) == (2, True)
    assert {script: way.split()[0] for script, way in info.unsegmented.items()} == {
        "Japanese": "sudachi",
        "Thai": "icu",
    }
    shown = firth.tokens(tmp_path / "corpus", lines[0])
    assert shown["words"] == ["飞桨", "在", "云计算大会", "上", "亮相", "。"]
    assert shown["unknown"] == 0
    corpus = Corpus.open(tmp_path / "corpus")
    starts = corpus.train.document_starts
    for number, line in enumerate(lines):
        start, end = int(starts[number]), int(starts[number + 1])
        how = Segmentation.load(tmp_path / "corpus" / "tokenizer")
        if kind == "words":
            types = (tmp_path / "corpus/tokenizer/words.txt").read_text(encoding="utf-8").split("\n")
            assert [types[place] for place in corpus.train.tokens[start:end]] == words(how, line)
        else:
            numbers = corpus.pieces.encode(line, add_special=False).words
            assert corpus.train.word_starts(start, end).tolist() == [True, *(np.diff(numbers) != 0).tolist()]
            assert set(numbers.tolist()) <= set(range(len(words(how, line))))


def test_a_run_keeps_the_words_of_its_corpus(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("飞桨在云计算大会上亮相。\n我爱飞桨。\n" * 60, encoding="utf-8")
    (tmp_path / "words.txt").write_text("云计算大会\n飞桨\n", encoding="utf-8")
    for kind, recipe, more in (
        ("words", "word2vec", {"min_count": 1, "dim": 8}),
        ("wordpiece", "bert-tiny", {"steps": 1, "seq_len": 16, "batch_size": 2, "hidden_dim": 16, "num_heads": 2}),
        ("words", "lstm-lm", {"steps": 1, "batch_size": 2, "seq_len": 8, "hidden_dim": 8, "embedding_dim": 8}),
    ):
        corpus, run = tmp_path / kind, tmp_path / recipe
        if not corpus.exists():
            firth.prepare(tmp_path / "text.txt", corpus, tokens=kind, dictionary=tmp_path / "words.txt", vocab_size=300)
        firth.pretrain(recipe, corpus=corpus, out=run, **more)  # type: ignore[arg-type]
        assert firth.tokens(run, "我爱云计算大会")["words"] == ["我", "爱", "云计算大会"]
        assert firth.load(run).segmentation.dictionary == ("云计算大会", "飞桨")
    assert "segmentation.json" in firth.load(tmp_path / "bert-tiny").path.joinpath("firth.json").read_text()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("一\n", "no words of two or more characters"),
        ("长" * 101, "words.txt:1: a word of more than 100"),
    ],
)
def test_a_dictionary_that_is_none(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "text.txt").write_text("我爱北京。\n", encoding="utf-8")
    (tmp_path / "words.txt").write_text(content, encoding="utf-8")
    with pytest.raises(FirthError, match=message):
        firth.prepare(tmp_path / "text.txt", tmp_path / "corpus", dictionary=tmp_path / "words.txt")
    assert not (tmp_path / "corpus").exists()
    with pytest.raises(FirthError, match="unknown segmenter 'jieba': choose auto, icu or none"):
        firth.prepare(tmp_path / "text.txt", tmp_path / "corpus", segmenter="jieba")


def test_word_tokens_differ_by_their_words(tmp_path: Path) -> None:
    one, two = WordTokens(["云计算"], True, False), WordTokens(["云计算"], True, False, EVERY)
    assert one.fingerprint != two.fingerprint
    two.save(tmp_path)
    assert WordTokens.load(tmp_path).segmentation == EVERY


@pytest.mark.parametrize(
    "content",
    [
        {"dictionary": ["\ud800\ud801"]},
        {"dictionary": ["云 计"]},
        {"dictionary": ["云\n计"]},
        {"dictionary": ["\0\0"]},
        {"dictionary": ["云" * 101]},
        {"dictionary": [""]},
        {"segmenters": {"Thai": "sudachi 20261015"}},
        {"segmenters": {"Thai": ""}},
        {"segmenters": {"Japanese": "nonsense"}},
        {"segmenters": {"Latin": "icu 78.3"}},
        {"traditional": "臺"},
        {"traditional": "ab"},
        {"traditional": "\ud800台"},
    ],
)
def test_a_record_that_firth_does_not_write(tmp_path: Path, content: dict[str, object]) -> None:
    """It would end in a traceback, or change words in silence."""
    (tmp_path / "segmentation.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FirthError, match=r"segmentation\.json: damaged \("):
        Segmentation.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "needless"), [("only English", True), ("это русский", True), ("私は学生です", True), ("我们学习", False)]
)
def test_a_dictionary_for_text_without_chinese(text: str, needless: bool) -> None:
    _, advice = choose_segmentation([text], ["飞桨"], "none")
    assert any("--dictionary is for words of Chinese" in one for one in advice) == needless
    assert not choose_segmentation([text], (), "none")[1]
