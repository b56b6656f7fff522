"""Words as tokens: places, marks, both languages, and files."""

from pathlib import Path

import pytest

from firth.core.errors import FirthError
from firth.corpus.encoded import WordEncoder, WordRules
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.word_tokens import WordTokens, join_words, load_tokens
from firth.tokenizers.words import without_invisible


def test_encode_has_places_and_marks() -> None:
    tokens = WordTokens(["the", "cat", "<unk>", "don't"], lowercase=True, whitespace_only=False)
    assert tokens.tokens == ["<unk>", "<eos>", "the", "cat", "don't"]
    found = tokens.encode("The  cat don't bark.")
    assert found.ids.tolist() == [2, 3, 4, 0, 0]
    assert found.tokens == ["the", "cat", "don't", "<unk>", "<unk>"]
    assert [("The  cat don't bark.")[start:end] for start, end in found.offsets] == ["The", "cat", "don't", "bark", "."]
    assert found.words.tolist() == [0, 1, 2, 3, 4]
    listed = tokens.encode(["cat", "The"])
    assert listed.ids.tolist() == [3, 2]
    assert listed.offsets.tolist() == [[0, 3], [4, 7]]
    assert len(tokens.encode("").ids) == 0


def test_white_space_alone_splits() -> None:
    tokens = WordTokens(["a-b.", "a"], lowercase=False, whitespace_only=True)
    found = tokens.encode(" a  a-b. <unk> A")
    assert found.ids.tolist() == [3, 2, 0, 0]
    assert found.offsets.tolist() == [[1, 2], [4, 8], [9, 14], [15, 16]]


def test_chinese_words() -> None:
    tokens = WordTokens(["老师", "看见", "了"], lowercase=True, whitespace_only=False)
    found = tokens.encode("老师看见了书")
    assert found.tokens[0] == "老师"
    assert tokens.decode([2, 3, 4, 1]) == "老师看见了"


@pytest.mark.parametrize(
    ("words", "text"),
    [(["a", "b"], "a b"), (["我们", "喜欢", "Python", "。"], "我们喜欢 Python 。"), (["书", "。"], "书。"), ([], "")],
)
def test_join(words: list[str], text: str) -> None:
    assert join_words(words) == text


def test_files(tmp_path: Path) -> None:
    tokens = WordTokens(["b", "a"], lowercase=False, whitespace_only=True)
    tokens.save(tmp_path)
    again = load_tokens(tmp_path)
    assert isinstance(again, WordTokens)
    assert (again.tokens, again.lowercase, again.whitespace_only) == (tokens.tokens, False, True)
    assert again.fingerprint == tokens.fingerprint
    assert again.fingerprint != WordTokens(["a", "b"], False, True).fingerprint
    (tmp_path / "words.txt").write_text("a\nb\n")
    with pytest.raises(FirthError, match=r"words.txt: does not begin with <unk> and <eos>"):
        load_tokens(tmp_path)


def test_pieces_are_found_too(corpus_folder: Path) -> None:
    assert isinstance(load_tokens(corpus_folder / "tokenizer"), Pieces)


@pytest.mark.parametrize("text", ["这件T恤很好", "A股大涨，B超正常。", "他用PC机看IC卡"])
def test_a_corpus_is_cut_as_texts_are(text: str) -> None:
    """The dictionary knows some words by their capitals: cut first, then lower case, on both sides."""
    words = WordEncoder(WordRules(lowercase=True, whitespace_only=False)).words(text, chinese=True)
    tokens = WordTokens(words, lowercase=True, whitespace_only=False)
    found = tokens.encode(text)
    assert found.tokens == words
    assert words == [word.lower() for word in words]


@pytest.mark.parametrize(
    "text",
    [
        "Donau\u00addampf \u200fשלום\u200f, x",
        "天\u2060气\u200b很\u2066好\u2069 \u200e a\u00adb。",
        "ไป\u2060ไหน\u200bมา \u200e",
    ],
)
def test_a_corpus_and_its_model_see_no_invisible_characters(text: str) -> None:
    """Neither part words nor are some; the same types for the corpus and for texts that are read later."""
    for how in (PLAIN, Segmentation(segmenters={"Thai": "icu"})):
        chinese = how.is_chinese(text)
        words = WordEncoder(WordRules(lowercase=True, whitespace_only=False, segmentation=how)).words(text, chinese)
        assert words == WordEncoder(WordRules(lowercase=True, whitespace_only=False, segmentation=how)).words(
            without_invisible(text), chinese
        )
        assert not set("".join(words)) & set("\u00ad\u200b\u200e\u200f\u2060\u2066\u2069 ")
        tokens = WordTokens(list(dict.fromkeys(words)), lowercase=True, whitespace_only=False, segmentation=how)
        assert tokens.encode(text).tokens == words
