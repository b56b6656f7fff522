"""The fast path of BPE and Unigram gives, token for token, what the tokenizer gives for the whole document."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from firth.core.registry import TokensConfig
from firth.corpus import spaced_chunks
from firth.corpus.chunks import block_encoder
from firth.corpus.encoded import PlainEncoder
from firth.corpus.spaced_chunks import SpacedEncoder
from firth.data.readers import Document
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.segmentation import Segmentation
from firth.tokenizers.vocabulary import train_pieces
from language_text import TEXTS, natural
from piece_samples import HARD, hard_text

SAMPLE = [natural(language) for language in TEXTS] + [
    "The dogs barked at the dog. Don't they? They're 12 dogs (in all), \"dogs\" and x_1's...",
    "naïve café, cafe\u0301 CAFÉ  two spaces\n\nand lines\nof text\tand tabs",
    HARD,
] * 3


def trained(kind: str, lowercase: bool, byte_fallback: bool = False) -> Pieces:
    config = TokensConfig(kind=kind, lowercase=lowercase, byte_fallback=byte_fallback, vocab_size=600)
    return train_pieces(lambda: SAMPLE, config)


def changed(pieces: Pieces, **parts: object) -> Pieces:
    """The same tokenizer with other parts."""
    tokenizer = Tokenizer.from_str(pieces.backend.to_str())
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return Pieces(tokenizer, pieces.segmentation)


def marked_bpe() -> Pieces:
    """BPE of words marked by the space before them."""
    vocab = {
        token: number
        for number, token in enumerate(dict.fromkeys(["<unk>", *"\u2581thedogsab.,'", "\u2581t", "he", "do", "gs"]))
    }
    tokenizer = Tokenizer(
        models.BPE(vocab, [("\u2581", "t"), ("h", "e"), ("d", "o"), ("g", "s")], unk_token="<unk>", fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return Pieces(tokenizer)


BPE, UNIGRAM = trained("bpe", False), trained("unigram", True, True)
PIECES = {
    "bpe": BPE,
    "folded bpe": trained("bpe", True),
    "prefixed bpe": changed(BPE, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "composed bpe": changed(BPE, normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])),
    "roberta": changed(BPE, post_processor=processors.RobertaProcessing(("<pad>", 1), ("<mask>", 2), True, False)),
    "unigram": trained("unigram", False),
    "folded unigram": UNIGRAM,
    "unigram of the first": changed(UNIGRAM, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first")),
    "unigram without a mark": changed(UNIGRAM, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="never")),
    "marked bpe": marked_bpe(),
}
ENCODERS = {name: SpacedEncoder(pieces) for name, pieces in PIECES.items()}
# Spaces that are none or are not seen, letters that are composed, marks that are one character with a space.
ODD = "a b L é ' . \" , - _ 1 the The dogs 's n't don J Mr. = ’ “ … · l 中 国 。 の ภ ה 한 国人 😀 🇨🇳 ǅ İ Σ ▁".split(
    " "
)
ODD += [" ", "  ", "\n", "\t", "\r\n", "\n\n", ". ", "? ", "\xa0", "\x85", "\x1c", "\x0b", "\u2003", "\u3000", "\u200b"]
ODD += ["\xad", "\ufeff", "\u0600", "\U000110bd", "\u200d", "\u0301", "\u0338", "\u030c"]
odd_text = st.lists(st.sampled_from(ODD), max_size=30).map("".join)


def same(pieces: Pieces, encoder: SpacedEncoder, documents: list[Document]) -> None:
    fast, plain = encoder.encode(documents), PlainEncoder(pieces).encode(documents)
    for column in ("ids", "word_starts", "sentence_lens", "document_lens"):
        assert getattr(fast, column).tolist() == getattr(plain, column).tolist(), column
        assert getattr(fast, column).dtype == getattr(plain, column).dtype, column


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(odd_text, hard_text), max_size=4), st.sampled_from(sorted(PIECES)))
def test_both_ways_give_the_same(texts: list[str], name: str) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    same(PIECES[name], ENCODERS[name], list(map(Document, texts)))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.one_of(odd_text, hard_text), min_size=1, max_size=3), max_size=3),
    st.sampled_from(sorted(PIECES)),
)
def test_sentences_that_the_file_gives(documents: list[list[str]], name: str) -> None:
    made = []
    for sentences in documents:
        cleaned = [" ".join(text.encode("utf-8", "replace").decode().split()) for text in sentences]
        cleaned = [text for text in cleaned if text]
        ends = np.cumsum([len(text) + 1 for text in cleaned]).tolist()
        borders = [(end - 1 - len(text), end - 1) for text, end in zip(cleaned, ends, strict=True)]
        made.append(Document("\n".join(cleaned), borders))
    same(PIECES[name], ENCODERS[name], made)


@pytest.mark.parametrize("name", sorted(PIECES))
def test_texts_of_every_script(name: str) -> None:
    texts = [*SAMPLE, *(f"{one} {two}" for one in SAMPLE[:12] for two in SAMPLE[:4])]
    same(PIECES[name], ENCODERS[name], list(map(Document, texts)))


HARD_PLACES = ["\u0600 \u0301abc", "\u0600a't", "J\u030ca j\u030cA", "a\u2003b", "abc \xa0", "\n\n abc. \n", " ", ""]
HARD_PLACES += [
    "a\x1cb. \x1cC",
    "a = \u0338b",
    "Done.\u3000Next",
    "x 中 is. And",
    "a▁ b",
    "▁a b",
    "l·l l'l",
    "don't x'",
]
HARD_PLACES += ["  The  dog.  A  dog.", "DON'T", "\u0430\u0301 б"]


@pytest.mark.parametrize("text", HARD_PLACES)
def test_hard_places(text: str) -> None:
    for name, pieces in PIECES.items():
        same(pieces, ENCODERS[name], list(map(Document, ("The dogs.", text, f"a {text}", f"{text} b", "a dog"))))


def test_japanese_and_segmenters_go_the_plain_way() -> None:
    for how in (Segmentation(kanji=True), Segmentation(dictionary=("国人来",))):
        for name in ("bpe", "folded unigram"):
            pieces = changed(PIECES[name])
            pieces.segmentation = how
            same(
                pieces,
                SpacedEncoder(pieces),
                [Document("The dogs."), Document("中国人来 is it."), Document("Come 国.")],
            )


def test_text_between_sentences() -> None:
    for name, pieces in PIECES.items():
        same(pieces, ENCODERS[name], [Document("the dogs barked", [(0, 3), (9, 15)]), Document("the dogs", [(0, 8)])])


def test_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaced_chunks, "_MAX_CHUNKS", 3)
    for name in ("bpe", "unigram"):
        encoder = SpacedEncoder(PIECES[name])
        for text in ("the dog barked", "a b c 1 2", "naïve iPhone6s"):
            same(PIECES[name], encoder, [Document(text)])


@pytest.mark.parametrize(
    "name", sorted(PIECES.keys() - {"unigram without a mark", "unigram of the first", "marked bpe"})
)
def test_pieces_are_known_by_their_lengths(name: str) -> None:
    """Chunks of ASCII need no places from the tokenizer, and get the right ones."""
    table = ENCODERS[name].table
    for text in (" a the dogs barked", " a a dog's, 1 2", " a They're x_1's..."):
        ids, ends = table._encode(text, lengths=True)
        assert table.lens[ids].sum() == len(text)
        slow_ids, slow_ends = table._encode(text, lengths=False)
        assert ids.tolist() == slow_ids.tolist()
        assert ends[ends > 2].tolist() == slow_ends[slow_ends > 2][-sum(ends > 2) :].tolist()


def refused(pieces: Pieces) -> bool:
    return isinstance(block_encoder(pieces), PlainEncoder)


def test_which_tokenizers_fit() -> None:
    for pieces in PIECES.values():
        assert isinstance(block_encoder(pieces), SpacedEncoder)
    added = changed(BPE)
    added.backend.add_tokens([AddedToken("barked loudly")])
    dropping = Tokenizer.from_str(BPE.backend.to_str())
    dropping.model.dropout = 0.1
    for other in (
        Pieces(added.backend),
        Pieces(dropping),
        changed(BPE, normalizer=normalizers.NFKC()),
        changed(BPE, pre_tokenizer=pre_tokenizers.ByteLevel(use_regex=False)),
        changed(BPE, pre_tokenizer=pre_tokenizers.Whitespace()),
        changed(BPE, post_processor=processors.ByteLevel(add_prefix_space=True, trim_offsets=True)),
        changed(UNIGRAM, pre_tokenizer=pre_tokenizers.Metaspace(split=False)),
        changed(UNIGRAM, normalizer=normalizers.NFC()),
        trained("characters", False),
    ):
        assert refused(other)
