"""Sentence borders by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.tokenizers.sentences import split_sentences

ENGLISH = [
    "The cat sat. | The dog ran! | Did it? | Yes.",
    "Dr. Smith met Mrs. Jones at 5 p.m. in Washington. | They talked.",
    "It costs $3.50 today. | Pi is 3.14159.",
    "J. R. R. Tolkien wrote it. | I liked it.",
    "He works for Acme Inc. and lives in the U.S. now.",
    "He works for Acme Inc. | She does not.",
    '"Stop!" | He said, "I will not." | Then he left.',
    '"Really?" she asked. | "Yes."',
    "Apples, pears, etc. are fruit. | See Fig. 3 and No. 5 of vol. 2.",
    "She said no. | He agreed.",
    "Wait... what? | Well... | Never mind.",
    "Visit example.com/a.b?c=d! | Thanks.",
    "(He was late.) | [So was she.] | Then it rained.",
    "e.g. this one, i.e. the first. | Then the next.",
    "It was I. | You know it.",
    "No capital follows. it goes on here.",
    "What?! | No!!! | Why...",
    "Version 2.0. | Next came 3.0.",
]
CHINESE = [
    "今天天气很好。|我们去公园吧！|好吗？",
    "他说：“你好。”|我说：“再见！”|然后走了。",
    "（他迟到了。）|大家都走了。",
    "圆周率是3.14。|价格为2.5元。",
    "他想了很久……|最后还是去了。",
    "真的吗？！|当然！！！",
    "我用iPhone 6s。|你呢？",
    "《红楼梦》。|「很好。」|完。",
]


@pytest.mark.parametrize("marked", ENGLISH + CHINESE)
def test_by_hand(marked: str) -> None:
    between = " " if marked in ENGLISH else ""
    wanted = [part.strip() for part in marked.split("|")]
    text = between.join(wanted)
    assert [text[start:end] for start, end in split_sentences(text)] == wanted


def test_an_empty_line_ends_a_sentence_and_a_single_break_does_not() -> None:
    text = "A heading\n\nThe text goes\non here. Next"
    assert [text[start:end] for start, end in split_sentences(text)] == ["A heading", "The text goes\non here.", "Next"]


def test_an_empty_line_ends_a_sentence_even_before_a_small_letter() -> None:
    text = "really?\n\nyes.\n\nwell \n \n...and so"
    assert [text[start:end] for start, end in split_sentences(text)] == ["really?", "yes.", "well", "...and so"]


def test_a_quote_after_an_empty_line_opens_the_next_sentence() -> None:
    text = 'A heading\n\n"Hello there." he said.\n"And\nhere."'
    assert [text[start:end] for start, end in split_sentences(text)] == [
        "A heading",
        '"Hello there." he said.',
        '"And\nhere."',
    ]


def test_nothing_gives_nothing() -> None:
    assert split_sentences("") == []
    assert split_sentences(" \n\t ") == []


@given(st.text(st.sampled_from("ab I.!?…。！”“«‘\"') \n\t3\x0b\u3000"), max_size=60))
def test_sentences_are_the_text_without_the_space_between(text: str) -> None:
    spans = split_sentences(text)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
    gaps = [0, *(place for span in spans for place in span), len(text)]
    assert all(not text[gaps[n] : gaps[n + 1]].strip() for n in range(0, len(gaps), 2))


@given(st.lists(st.text(st.sampled_from("ab I.!?…。！”“«‘\"') \n\t3\x0b\u3000"), max_size=12), max_size=5))
def test_texts_with_an_empty_line_between_are_split_like_each_alone(texts: list[str]) -> None:
    found, base = [], 0
    for text in texts:
        found += [(base + start, base + end) for start, end in split_sentences(text)]
        base += len(text) + 2
    assert split_sentences("\n\n".join(texts)) == found
