"""Words and sentences of many scripts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.tokenizers import words as scripts
from firth.tokenizers.sentences import ENDS, split_sentences
from firth.tokenizers.word_tokens import WordTokens
from firth.tokenizers.words import has_han, is_chinese, lacks_spaces, split_words
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


letters = st.text(st.sampled_from(HARD + "".join(map(natural, TEXTS)) + ENDS), max_size=40)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_quick_way_for_ascii_finds_the_same_words(text: str) -> None:
    assert scripts.find_words(text) == scripts.WORD.findall(text)


@given(st.one_of(letters, st.text(st.characters(exclude_categories=("Cs",)), max_size=40)))
def test_the_quick_look_at_bytes_never_misses(text: str) -> None:
    assert scripts.may_lack_spaces(text.encode()) or not scripts.has_unspaced(text)
    assert not (lacks_spaces(text) and is_chinese(text))
    assert has_han(text) or not is_chinese(text)


@settings(deadline=None)
@given(letters)
def test_words_hold_everything_but_white_space(text: str) -> None:
    spans = split_words(text)
    inside = {place for start, end in spans for place in range(start, end)}
    assert all(char.isspace() or scripts.is_blank(char) for place, char in enumerate(text) if place not in inside)
    assert not any(text[start:end].isspace() for start, end in spans)


SENTENCES = [
    ["საქართველო ლამაზი ქვეყანაა.", "სად მიდიხარ?", "კარგი!"],
    ["Ο κ. Παπαδόπουλος ήρθε.", "Πού πας;", "Απ' το σπίτι· ναι."],
    ["a; B x = 5; Y"],
    ["डॉ. शर्मा आए।", "वह गए।"],
    ["திரு. குமார் வந்தார்.", "நீங்கள் எப்படி?"],
    ["زار د. أحمد القاهرة.", "هل أنت بخير؟"],
    ["Он живёт в г. Москве на ул. Ленина.", "Он умер в 1990 г.", "Все плакали."],
    ["Am 3. Oktober ist Feiertag.", "Es geschah am 3. 10. 2023 in Bonn.", "Es gab 12.", "Alle kamen."],
    ["Dnes je 5. 3. 2020 a prší.", "Ul. Długa 5, np. dziś."],
    ["TP. Hồ Chí Minh rất đông.", "Vâng."],
    ["彼は「明日行く。」と言った。", "「本当？」", "はい。"],
    ["བོད་སྐད་སློབ་སྦྱོང་བྱེད་ཀྱི་ཡོད།", "ང་བོད་ལ་འགྲོ།"],
    ["„Ich komme.“", "Dann ging er.", "»Gut.«", "Sie lief.", "‚Ja.‘", "Dann nicht.", "Er rief: „Komm!“ und ging."],
    ["„Kommst du?“, fragte er.", "„Ja“, sagte sie.", "„Nein!“"],
    ["« Bonjour. »", "Elle part.", "« Ça va ? » demanda-t-il.", "« Oui ! »"],
    ["Er ging.", "»Komm!« rief sie.", "»Nein.«"],
    ["„Přijdu.“", "Pak odešel.", "“First.”", "“Second?” he asked."],
    ["„Идвам.“", "Той тръгна.", "«Иду.»", "Он ушёл.", "„მოვდივარ.“", "შემდეგ წავიდა."],
    [
        "Im 19. Jahrhundert war es so.",
        "Der 1. FC Köln gewann.",
        "Es war Platz 2.",
        "Er kam am 3. Tag.",
        "I am 19.",
        "You are 20.",
    ],
    ["Es gibt z. B. das Haus, d. h. Wohnungen, u. U. auch das.", "Es kostet 5 Mio. Euro oder 3 Mrd. Dollar.", "Gut."],
    ["El Sr. Pérez vino con el Sr. Gómez.", "Sr. López habló.", "Martin Luther King Sr.", "He spoke."],
    ["It was in 1999.", "Item 5.", "The next one costs 3.5 dollars."],
]


@pytest.mark.parametrize("sentences", SENTENCES, ids=lambda sentences: sentences[0][:12])
def test_sentences_with_abbreviations_days_and_quotes(sentences: list[str]) -> None:
    text = ("" if scripts.has_han(sentences[0]) else " ").join(sentences)
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


def test_marks_inside_words() -> None:
    """Acronyms of Hebrew, not its quotations; the point between two l in Catalan."""
    assert scripts.find_words('ד"ר כהן וצה״ל: "שלום" ה"ארץ"') == [
        *('ד"ר', "כהן", "וצה״ל", ":", '"', "שלום", '"', "ה", '"', "ארץ", '"')
    ]
    assert scripts.find_words("La col·lecció a·b") == ["La", "col·lecció", "a", "·", "b"]


@pytest.mark.parametrize("end", ENDS)
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


def test_invisible_characters_part_no_words() -> None:
    assert scripts.find_words("Donau\u00addampf \u200fשלום\u200f, a\u2060b \u2066x\u2069 \ufeff") == [
        *("Donaudampf", "שלום", ",", "ab", "x")
    ]
    assert [scripts.without_invisible("天\u2060气 a")[start:end] for start, end in split_words("天气 a")] == [
        "天气",
        "a",
    ]
    assert split_words("\u200f天\u2060气\u2060 a\u00adb\u200b\u200e") == [(0, 5), (6, 9)]
    assert scripts.find_words("می\u200cخواهم สวัส\u200bดี 👩\u200d🚀") == [
        "می\u200cخواهم",
        *"ส วั ส ดี".split(),
        "👩\u200d🚀",
    ]


@settings(deadline=None)
@given(letters, st.data())
def test_words_are_those_of_the_text_without_invisible_characters(text: str, data: st.DataObject) -> None:
    seen = scripts.without_invisible(text)
    mixed = "".join(char + data.draw(st.sampled_from(["", "", "\xad", "\u200e", "\u2060"])) for char in seen)
    wanted = [seen[start:end] for start, end in split_words(seen)]
    found = [scripts.without_invisible(mixed[start:end]) for start, end in split_words(mixed)]
    assert found == wanted
    assert is_chinese(seen) or scripts.find_words(mixed) == wanted
    assert "".join(scripts.cut(mixed)) == mixed


def test_a_long_run_of_flags() -> None:
    """A minute and a half where each one looks at the whole run."""
    assert scripts.find_word_spans("🇩🇪" * 100_000) == [(2 * n, 2 * n + 2) for n in range(100_000)]
    assert scripts.find_words("🇩🇪🇩🇪🇩 🇩🇪\ufe0f") == ["🇩🇪", "🇩🇪", "🇩", "🇩🇪\ufe0f"]


@pytest.mark.parametrize("language", TEXTS)
def test_words_are_written_as_their_script_writes_them(language: str) -> None:
    words = [word for sentence in TEXTS[language] for word in sentence.split()]
    tokens = WordTokens(list(dict.fromkeys(words)), lowercase=False, whitespace_only=False)
    back = tokens.decode(tokens.encode(natural(language)).ids.tolist())
    assert back.replace(" ", "") == natural(language).replace(" ", "")
    assert " " not in back or language not in ("Thai", "Japanese")
