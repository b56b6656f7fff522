"""Words with their places."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.tokenizers.words import cut, has_han, scripts_of, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The dog's bone, isn't it?", ["The", "dog's", "bone", ",", "isn't", "it", "?"]),
        ("naïve café 3.5", ["naïve", "café", "3", ".", "5"]),
        ("我来到北京清华大学", ["我", "来到", "北京", "清华大学"]),
        ("他用 iPhone 打电话。", ["他", "用", "iPhone", "打电话", "。"]),
        ("", []),
    ],
)
def test_by_hand(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in split_words(text)] == words


def test_agrees_with_jieba() -> None:
    import jieba

    text = "小明硕士毕业于中国科学院计算所，后在日本京都大学深造。工信处女干事每月经过下属科室都要亲口交代技术性器件的安装工作。"
    assert cut(text) == jieba.lcut(text)


@pytest.mark.parametrize(
    "words",
    [
        "俄罗斯 总统 Путин 说 ， 法国 的 café 和 Müller 先生",
        "他 叫 José · García ， １２３ＡＢＣ 公司",
        "希腊文 α 粒子 ， γ - 射线 。 韩国 한국 人",
        "日本 の カフェ",
        "C++ 和 T恤 ， GPT-4o 的",
    ],
)
def test_words_of_other_scripts_in_chinese_stay_whole(words: str) -> None:
    """The segmenter alone takes them apart letter by letter."""
    assert cut(words.replace(" ", "")) == words.split()


def test_han_means_the_ideographs_that_bert_sets_apart() -> None:
    assert has_han("a中")
    assert has_han("𠀀")
    assert not has_han("かな, 한글, café。")


MIXED = st.text(st.sampled_from("ab3 \n中国人说。\u0301é😀\x00\x0b\u200d'-\U00020000"), max_size=40)


@given(MIXED)
def test_chinese_words_joined_are_the_text(text: str) -> None:
    assert "".join(cut(text)) == text


@given(MIXED)
def test_places_cover_everything_but_white_space(text: str) -> None:
    spans = split_words(text)
    assert all(start < end for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    inside = {place for start, end in spans for place in range(start, end)}
    assert all(char.isspace() for place, char in enumerate(text) if place not in inside)
    assert all(not text[start:end].isspace() for start, end in spans)


def test_scripts_by_their_share_of_letters() -> None:
    assert scripts_of(["the end", "конец", "le fin été"]) == ["Latin", "Cyrillic"]
    assert scripts_of(["我爱北京天安门", "a 1 !"]) == ["Han", "Latin"]
    assert scripts_of(["我爱北京天安门 abc"], least=0.5) == ["Han"]
    assert scripts_of(["12 !", ""]) == []
