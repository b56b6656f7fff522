"""Pieces, their places in the original text, and the words they belong to."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.tokenizers.pieces import BYTE_TOKENS, Pieces
from firth.tokenizers.vocabulary import train_pieces
from piece_samples import build_pieces, build_vocab, hard_text

UNCASED = build_pieces()
BYTES = build_pieces(byte_fallback=True)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("The dogs", [("the", "The"), ("dog", "dog"), ("##s", "s")]),
        ("Café", [("caf", "Caf"), ("##e", "é")]),
        ("Cafe\u0301 a", [("caf", "Caf"), ("##e", "e"), ("a", "a")]),
        ("😀 a中国", [("[UNK]", "😀"), ("a", "a"), ("中", "中"), ("国", "国")]),
        ("a\u200bb", [("a", "a"), ("##b", "b")]),
        ("\ufffd\x00说。", [("说", "说"), ("。", "。")]),
    ],
)
def test_places_are_in_the_original_text(text: str, places: list[tuple[str, str]]) -> None:
    found = UNCASED.encode(text, add_special=False)
    assert [(token, text[start:end]) for token, (start, end) in zip(found.tokens, found.offsets, strict=True)] == places


@settings(max_examples=200, deadline=None)
@given(hard_text)
def test_every_token_has_a_place_and_a_word(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    found = UNCASED.encode(text, add_special=False, read_special=False)
    assert (found.offsets[:, 0] < found.offsets[:, 1]).all()
    assert (found.offsets[1:, 0] >= found.offsets[:-1, 0]).all()
    assert (found.words >= 0).all()
    assert (found.words[1:] >= found.words[:-1]).all()


def test_words_are_counted_and_specials_belong_to_none() -> None:
    found = UNCASED.encode("the dogs barked", "a 中国")
    assert found.tokens == "[CLS] the dog ##s bark ##ed [SEP] a 中 国 [SEP]".split()
    assert found.words.tolist() == [-1, 0, 1, 1, 2, 2, -1, 0, 1, 1, -1]
    assert found.segments.tolist() == [0] * 7 + [1] * 4


def test_a_list_of_words_keeps_its_numbers() -> None:
    found = UNCASED.encode(["dogs", "x-y", "中国人", "dog"], add_special=False)
    assert found.words.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_a_special_token_in_the_text() -> None:
    assert UNCASED.encode("a [MASK]", add_special=False).tokens == ["a", "[MASK]"]
    assert "[MASK]" not in UNCASED.encode("a [MASK]", add_special=False, read_special=False).tokens


class TestByteFallback:
    def test_what_is_unknown_becomes_bytes(self) -> None:
        found = BYTES.encode("a 狗", add_special=False)
        assert found.tokens == ["a", "<0xE7>", "<0x8B>", "<0x97>"]
        assert found.offsets.tolist() == [[0, 1], [2, 3], [2, 3], [2, 3]]
        assert found.words.tolist() == [0, 1, 1, 1]

    @settings(max_examples=200, deadline=None)
    @given(hard_text)
    def test_nothing_is_unknown_and_the_text_comes_back(self, text: str) -> None:
        text = text.encode("utf-8", "replace").decode()
        found = BYTES.encode(text, add_special=False, read_special=False)
        assert BYTES.unk_id not in found.ids
        spelled = b"".join(
            bytes([BYTE_TOKENS.index(token)]) if token in BYTE_TOKENS else token.removeprefix("##").encode()
            for token in found.tokens
        )
        assert "".join(spelled.decode().split()) == "".join(BYTES.normal(text).split())

    def test_decode_spells_bytes(self) -> None:
        assert BYTES.decode(BYTES.encode("the 狗 barked 😀!", add_special=False).ids.tolist()) == "the 狗 barked 😀!"


class TestFiles:
    def test_save_and_load(self, tmp_path: Path) -> None:
        cased = build_pieces(lowercase=False, byte_fallback=True)
        cased.save(tmp_path)
        for path in (tmp_path, tmp_path / "tokenizer.json"):
            assert Pieces.load(path).fingerprint == cased.fingerprint
        (tmp_path / "tokenizer.json").unlink()
        assert Pieces.load(tmp_path).fingerprint == cased.fingerprint
        assert Pieces.load(tmp_path).lowercase is False

    def test_a_vocab_file_alone_with_windows_line_ends(self, tmp_path: Path) -> None:
        path = tmp_path / "vocab.txt"
        path.write_bytes("".join(f"{token}\r\n" for token in build_vocab(True)).encode())
        assert Pieces.load(path).encode("The dogs").tokens == ["[CLS]", "the", "dog", "##s", "[SEP]"]

    def test_mistakes_name_the_file(self, tmp_path: Path) -> None:
        with pytest.raises(FirthError, match="no tokenizer here"):
            Pieces.load(tmp_path)
        (tmp_path / "tokenizer.json").write_text("{}")
        with pytest.raises(FirthError, match=r"tokenizer\.json: not a tokenizer"):
            Pieces.load(tmp_path)
        (tmp_path / "vocab.txt").write_text("a\nb\n")
        with pytest.raises(FirthError, match=r"vocab\.txt: no \[UNK\]"):
            Pieces.load(tmp_path / "vocab.txt")


def test_words_of_pieces_that_begin_with_a_space() -> None:
    """Byte-level and SentencePiece tokens hold the space before their word."""
    texts = ["the dog barks at the dogs"] * 3
    for kind in ("bpe", "unigram"):
        pieces = train_pieces(lambda: texts, TokensConfig.build({"kind": kind, "vocab_size": 300}, "test"))
        found = pieces.encode("the dog  barks!", add_special=False)
        for token, word in zip(found.tokens, found.words.tolist(), strict=True):
            letters = token.strip("\u0120\u2581 ")
            assert letters in ("the", "dog", "barks", "!")[word], (kind, token, word)
        assert sorted(set(found.words.tolist())) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"single": [{"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "special_tokens": {}}, "cannot|can be used"),
        ({"special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [10**6], "tokens": ["[CLS]"]}}}, "not in its vocabulary"),
        ({"single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * 500}, "adds up to 500 tokens"),
    ],
)
def test_templates_that_cannot_be_meant(
    change: dict[str, object], said: str, corpus_folder: Path, tmp_path: Path
) -> None:
    """The library would panic, or give tokens that no model has."""
    found = json.loads((corpus_folder / "tokenizer" / "tokenizer.json").read_text(encoding="utf-8"))
    found["post_processor"] |= change
    (tmp_path / "tokenizer.json").write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(FirthError, match=said):
        Pieces.load(tmp_path)
