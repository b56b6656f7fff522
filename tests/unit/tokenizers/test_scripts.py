"""Words and sentences of many scripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.tokenizers import words as scripts
from firth.tokenizers.word_tokens import WordTokens
from firth.tokenizers.words import has_han, is_chinese, lacks_spaces, split_sentences, split_words
from language_text import TEXTS, natural
from piece_samples import HARD


@pytest.mark.parametrize("language", TEXTS)
def test_words_and_sentences_as_readers_mark_them(language: str) -> None:
    text = natural(language)
    sentences = [text[start:end] for start, end in split_sentences(text)]
    found = [[one[start:end] for start, end in split_words(one)] for one in sentences]
    assert found == [sentence.split() for sentence in TEXTS[language]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("👩\u200d🚀 ☃\ufe0f🇩🇪😀", ["👩\u200d🚀", "☃\ufe0f", "🇩🇪", "😀"]),
        ("カ\u3099ラスﾊﾞｽ", ["カ\u3099ラスﾊﾞｽ"]),
        ("cafe\u0301 I\u0307 ½ a_b x-y's", ["cafe\u0301", "I\u0307", "½", "a_b", "x", "-", "y's"]),
        ("iPhoneของฉัน12", ["iPhone", "ข", "อ", "ง", "ฉั", "น", "12"]),
        ("한국(韓國)은", ["한국", "(", "韓國", ")", "은"]),
    ],
)
def test_by_hand(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in split_words(text)] == words


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("我们去北京。", True),
        ("他用 iPhone 打电话。", True),
        ("这家“の”字店开在北京大学旁边，生意很好。", True),
        ("東京へ行く", False),
        ("한국어와 漢字", False),
        ("Über die Straße nach 北", False),
        ("plain", False),
        ("𠀀𪜀", True),
    ],
)
def test_which_texts_go_through_the_chinese_dictionary(text: str, chinese: bool) -> None:
    assert is_chinese(text) == chinese


letters = st.text(st.sampled_from(HARD + "".join(map(natural, TEXTS)) + scripts.ENDS), max_size=40)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_quick_way_for_ascii_finds_the_same_words(text: str) -> None:
    assert scripts.find_words(text) == scripts.WORD.findall(text)


@given(st.one_of(letters, st.text(st.characters(exclude_categories=("Cs",)), max_size=40)))
def test_the_quick_look_at_bytes_never_misses(text: str) -> None:
    assert scripts.may_lack_spaces(text.encode()) or not scripts.has_unspaced(text)
    assert not (lacks_spaces(text) and is_chinese(text))
    assert has_han(text) or not is_chinese(text)


@given(letters)
def test_words_hold_everything_but_white_space(text: str) -> None:
    spans = split_words(text)
    inside = {place for start, end in spans for place in range(start, end)}
    assert all(char.isspace() for place, char in enumerate(text) if place not in inside)
    assert not any(text[start:end].isspace() for start, end in spans)


@pytest.mark.parametrize("end", scripts.ENDS)
def test_every_sentence_terminal_ends_a_sentence(end: str) -> None:
    text = f"ab{end} cd{end}{end}» ef"
    assert [text[start:stop] for start, stop in split_sentences(text)] == [f"ab{end}", f"cd{end}{end}»", "ef"]


@given(st.lists(letters, max_size=5))
def test_texts_with_an_empty_line_between_are_split_like_each_alone(texts: list[str]) -> None:
    found, base = [], 0
    for text in texts:
        found += [(base + start, base + end) for start, end in split_sentences(text)]
        base += len(text) + 2
    assert split_sentences("\n\n".join(texts)) == found


@pytest.mark.parametrize("language", TEXTS)
def test_words_are_written_as_their_script_writes_them(language: str) -> None:
    words = [word for sentence in TEXTS[language] for word in sentence.split()]
    tokens = WordTokens(list(dict.fromkeys(words)), lowercase=False, whitespace_only=False)
    back = tokens.decode(tokens.encode(natural(language)).ids.tolist())
    assert back.replace(" ", "") == natural(language).replace(" ", "")
    assert " " not in back or language not in ("Thai", "Japanese")
