"""The fast path gives, token for token, what the tokenizer gives for the whole document."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from firth.corpus import chunks
from firth.corpus.chunks import ChunkEncoder, block_encoder
from firth.corpus.encoded import PlainEncoder
from firth.data.readers import Document
from firth.tokenizers.pieces import Pieces
from language_text import TEXTS, natural
from piece_samples import build_pieces, hard_text

PIECES = {(lower, byte): build_pieces(lower, byte) for lower in (True, False) for byte in (True, False)}
PIECES |= {("marks", byte): build_pieces(True, byte, strip_accents=False) for byte in (True, False)}
PIECES |= {("joiners", byte): build_pieces(True, byte, False, keep_joiners=True) for byte in (True, False)}
ENCODERS = {key: ChunkEncoder(pieces) for key, pieces in PIECES.items()}


def tokenized(pieces: Pieces, text: str) -> list[int]:
    return pieces.encode(text, add_special=False, read_special=False).ids.tolist()


@settings(max_examples=400, deadline=None)
@given(st.lists(hard_text, max_size=4), st.sampled_from((True, False, "marks", "joiners")), st.booleans())
def test_three_ways_give_the_same(texts: list[str], lower: bool | str, byte_fallback: bool) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    pieces = PIECES[lower, byte_fallback]
    documents = [Document(text) for text in texts]
    fast = ENCODERS[lower, byte_fallback].encode(documents)
    plain = PlainEncoder(pieces).encode(documents)
    assert fast.ids.tolist() == plain.ids.tolist()
    assert fast.ids.tolist() == [number for text in texts for number in tokenized(pieces, text)]
    assert fast.sentence_lens.tolist() == plain.sentence_lens.tolist()
    assert fast.document_lens.tolist() == plain.document_lens.tolist()
    assert fast.word_starts.tolist() == plain.word_starts.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "&𠀀0",
        "𠀀𠀀0 ab𠀀",
        "中国café中国",
        "说中国人 A·B 人",
        "国naïvely人",
        "中文é",
        "é中文",
        "\ufeff中",
        "中\u200b\ufeff国 a\ufeff 中é",
        "-𠀀\ue000",
        "𠀀\ue000中",
    ],
)
def test_words_of_chinese_within_a_run(text: str) -> None:
    """A run of several words, to the tokenizer or to the segmenter, is looked at piece by piece."""
    documents = [Document("The dogs."), Document(text), Document(f"中国人。{text}")]
    for key, pieces in PIECES.items():
        fast, plain = ENCODERS[key].encode(documents), PlainEncoder(pieces).encode(documents)
        assert fast.word_starts.tolist() == plain.word_starts.tolist()


def test_letters_and_marks_that_are_one_word() -> None:
    """Every character of which ``_are_one_word`` says so is kept by the tokenizer, and does not cut a word."""
    chars = [chr(code) for code in range(chunks._OTHER)]
    for lower, strip in ((True, None), (True, False), (False, None)):
        pieces = build_pieces(lower, strip_accents=strip)
        words = [f"{before}{char}" for char in chars for before in ("", "b") if not char.isspace()]
        plain = [word for word, one in zip(words, chunks._are_one_word(words), strict=True) if one]
        assert len(plain) > 20_000
        tokens = [pieces.token(number) for number in tokenized(pieces, " ".join(plain))]
        assert sum(not token.startswith("##") for token in tokens) == len(plain)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(hard_text, min_size=1, max_size=3), max_size=3))
def test_sentences_that_the_file_gives(documents: list[list[str]]) -> None:
    made = []
    for sentences in documents:
        cleaned = [" ".join(text.encode("utf-8", "replace").decode().split()) for text in sentences]
        cleaned = [text for text in cleaned if text]
        ends = np.cumsum([len(text) + 1 for text in cleaned]).tolist()
        borders = [(end - 1 - len(text), end - 1) for text, end in zip(cleaned, ends, strict=True)]
        made.append(Document("\n".join(cleaned), borders))
    fast, plain = ENCODERS[True, False].encode(made), PlainEncoder(PIECES[True, False]).encode(made)
    assert fast.ids.tolist() == plain.ids.tolist()
    assert fast.sentence_lens.tolist() == plain.sentence_lens.tolist()
    assert fast.document_lens.tolist() == plain.document_lens.tolist()


@pytest.mark.parametrize("text", ["\U00016b370", "यह है।वह है।", "\u06d4a\u06d4b c", "ab\u1362cd\u1362 ef", "।।क", "ก।ข"])
def test_a_sentence_that_begins_without_a_space(text: str) -> None:
    """The runs of such a document would hold parts of two sentences."""
    documents = [Document("The dogs."), Document(text), Document(f"a {text}"), Document("A dog!")]
    for key, pieces in PIECES.items():
        fast, plain = ENCODERS[key].encode(documents), PlainEncoder(pieces).encode(documents)
        assert fast.ids.tolist() == plain.ids.tolist()
        assert fast.sentence_lens.tolist() == plain.sentence_lens.tolist()
        assert fast.document_lens.tolist() == plain.document_lens.tolist()
        assert fast.word_starts.tolist() == plain.word_starts.tolist()


def test_the_lens_add_up_and_empty_documents_vanish() -> None:
    block = ENCODERS[True, False].encode([Document("The dogs. A dog!"), Document("\x0b \u200b"), Document("说中国。")])
    assert block.sentence_lens.tolist() == [4, 3, 4]
    assert block.document_lens.tolist() == [2, 1]
    assert block.sentence_lens.sum() == len(block.ids)


def starts_of(text: str, byte_fallback: bool = False) -> list[str]:
    pieces = PIECES[True, byte_fallback]
    fast = ENCODERS[True, byte_fallback].encode([Document(text)])
    plain = PlainEncoder(pieces).encode([Document(text)])
    assert fast.word_starts.tolist() == plain.word_starts.tolist()
    return [pieces.token(number) for number, start in zip(fast.ids, fast.word_starts, strict=True) if start]


def test_word_starts() -> None:
    assert starts_of("The dogs barked.") == ["the", "dog", "bark", "."]
    assert starts_of("zebra dog", byte_fallback=True) == ["<0x7A>", "dog"]
    assert starts_of("他说中国。") == ["[UNK]", "说", "中", "。"]


@pytest.mark.parametrize("kind", [True, False, "marks"])
def test_word_starts_of_every_script(kind: bool | str) -> None:
    """Where words are not parted by spaces a piece starts one wherever the plain way says so."""
    documents = [Document(natural(language)) for language in TEXTS] + [
        Document("他说中国。の"),
        Document("他说 dogs 中国。"),
    ]
    fast, plain = ENCODERS[kind, True].encode(documents), PlainEncoder(PIECES[kind, True]).encode(documents)
    assert fast.ids.tolist() == plain.ids.tolist()
    assert fast.word_starts.tolist() == plain.word_starts.tolist()
    assert fast.sentence_lens.tolist() == plain.sentence_lens.tolist()


def test_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_MAX_RUNS", 3)
    encoder = ChunkEncoder(PIECES[True, False])
    for text in ("the dog barked", "a b c 1 2", "说中国人 iPhone6s"):
        assert encoder.encode([Document(text)]).ids.tolist() == tokenized(PIECES[True, False], text)


def test_a_word_too_long_is_unknown() -> None:
    for text in ("a" * 100, "a" * 101, "a" * 101 + "说", "é" * 101):
        assert ENCODERS[True, False].encode([Document(text)]).ids.tolist() == tokenized(PIECES[True, False], text)


def test_a_tokenizer_with_added_words_takes_the_plain_path() -> None:
    tokenizer = Tokenizer.from_str(PIECES[True, False].backend.to_str())
    tokenizer.add_tokens(["barked loudly"])
    assert isinstance(block_encoder(Pieces(tokenizer)), PlainEncoder)
    assert isinstance(block_encoder(PIECES[True, False]), ChunkEncoder)
