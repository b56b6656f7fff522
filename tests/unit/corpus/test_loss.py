"""Nothing of a text is lost without a line that says so, in any script and for every kind of tokens."""

import json
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.corpus.format import Corpus, CorpusInfo
from firth.corpus.loss import LossInfo, Sample, loss_warnings, measure_loss, pieces_round_trip
from firth.corpus.parts import hash_bytes
from firth.corpus.prepare import prepare
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.vocabulary import train_pieces
from language_text import TEXTS, UNSPACED, natural
from piece_samples import build_pieces

KINDS = ("wordpiece", "bpe", "unigram", "characters", "words")


def prepared(folder: Path, texts: list[str], kind: Any = "wordpiece", **settings: Any) -> CorpusInfo:
    (folder / "text.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
    tokenizer, segmenter = settings.pop("tokenizer", None), settings.pop("segmenter", "none")
    tokens = TokensConfig(**({"kind": kind, "vocab_size": 2000} | settings))
    return prepare(
        [str(folder / "text.jsonl")],
        folder / "corpus",
        tokens,
        tokenizer=tokenizer,
        workers=1,
        heldout=0,
        segmenter=segmenter,
    )


@pytest.mark.parametrize("segmenter", ["none", "auto"])
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_of_every_language(tmp_path: Path, kind: str, segmenter: str) -> None:
    """Read back from the corpus on disk, every text is there but for case, white space and what the summary names."""
    texts = [natural(language) for language in TEXTS]
    info = prepared(tmp_path, texts, kind, segmenter=segmenter)
    assert info.loss is not None
    corpus = Corpus.open(tmp_path / "corpus")
    starts = corpus.train.document_starts
    documents = [corpus.train.tokens[starts[n] : starts[n + 1]].tolist() for n in range(len(texts))]
    if kind == "words":
        words = (tmp_path / "corpus/tokenizer/words.txt").read_text(encoding="utf-8").split("\n")
        backs = [" ".join(words[number] for number in document) for document in documents]
    else:
        backs = [corpus.pieces.decode(document) for document in documents]
    changed = [language for language, text, back in zip(TEXTS, texts, backs, strict=True) if flat(text) != flat(back)]
    assert changed == []
    assert (info.loss.lost, info.loss.form_only, info.warnings) == (0, 0, [])
    assert info.train.unknown == 0
    assert set(info.unsegmented) == set(UNSPACED)
    assert segmenter == "none" or {way.split()[0] for way in info.unsegmented.values()} == {"icu", "sudachi"}
    if kind == "words" and segmenter == "none":
        assert info.vocab_size == len(
            {word.lower() for texts in TEXTS.values() for one in texts for word in one.split()}
        )


def flat(text: str) -> str:
    return "".join(normalize("NFC", text).casefold().split())


def test_sentences_of_every_language(tmp_path: Path) -> None:
    info = prepared(tmp_path, [natural(language) for language in TEXTS])
    assert info.train.sentences == sum(map(len, TEXTS.values()))


def test_stripping_is_asked_for_and_said(tmp_path: Path) -> None:
    texts = ["Über den Dächern. Мой чай."] * 20
    info = prepared(tmp_path, texts, strip_accents=True)
    assert info.loss is not None
    assert info.tokens.strip_accents
    assert info.loss.lost == 4  # ü ä й й
    assert ("Über", "uber") in [(one.text, one.back) for one in info.loss.examples]
    assert "Über → uber" in info.warnings[0]
    assert "--strip-accents" in info.warnings[0]


def test_a_published_bert_strips_and_it_is_said(tmp_path: Path) -> None:
    build_pieces(True, byte_fallback=True).save(tmp_path)
    info = prepared(tmp_path, ["Café and the dogs."] * 5, tokenizer=tmp_path)
    assert info.tokens.strip_accents
    assert "Café → cafe" in info.warnings[0]
    keeps = tmp_path / "keeps"
    keeps.mkdir()
    build_pieces(True, strip_accents=False).save(keeps)
    with pytest.raises(FirthError, match="keeps accents; leave out --strip-accents"):
        prepared(keeps, ["the"], tokenizer=keeps, strip_accents=True)


def test_a_tokenizer_for_another_language_is_warned_of(tmp_path: Path) -> None:
    build_pieces().save(tmp_path)
    info = prepared(tmp_path, ["нет " * 20, "the dogs barked"], tokenizer=tmp_path)
    assert any("% of the tokens are unknown, more than 1%" in warning for warning in info.warnings)
    assert info.loss is not None
    assert info.loss.lost == 60
    assert info.loss.examples[0].text == "нет"
    assert info.loss.examples[0].back == ""


def test_only_wordpiece_strips(tmp_path: Path) -> None:
    for kind in KINDS[1:]:
        with pytest.raises(ValueError, match="strip_accents is what BERT does to WordPiece"):
            TokensConfig(kind=kind, strip_accents=True)


JOINED = [
    "می\u200cخواهم خانه\u200cای",
    "क्\u200dष र्\u200dय",
    "👩\u200d🚀 go",
    "10³ m² ½ ① ﬁn ！",
    "ทำน้ำ ຳ",
    "ㄱㄴㄷ 한국",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", JOINED)
def test_joiners_and_characters_of_their_own_meaning_are_kept(tmp_path: Path, kind: str, text: str) -> None:
    info = prepared(tmp_path, [f"{text} {number}" for number in range(20)], kind)
    assert info.loss is not None
    assert (info.loss.lost, info.warnings, info.train.unknown) == (0, [], 0)
    if kind not in ("words", "characters"):
        pieces = Pieces.load(tmp_path / "corpus/tokenizer")
        assert pieces.decode(pieces.encode(text, add_special=False).ids.tolist()).strip() == text


def test_only_the_form_of_a_character() -> None:
    """A wide letter, a ligature; not an exponent, a fraction, a letter in a circle, a vowel of Thai, a letter of Korean."""

    def forms(text: str) -> int:
        return measure_loss([text], lambda texts: [normalize("NFKC", one) for one in texts], False).form_only

    assert [forms(one) for one in ("！", "ﬁ", "ｶ", "ﺍ", "ſ")] == [1] * 5
    assert [forms(one) for one in ("10³", "½", "①", "ทำ", "ㄱㄴ", "㎏", "H₂")] == [0] * 7


@pytest.mark.parametrize("given", [True, False])
def test_the_advice_helps(given: bool) -> None:
    loss = LossInfo(characters=100, lost=10, form_only=0, examples=[])
    advice = {
        kind: loss_warnings(loss, 0.0, TokensConfig(kind=kind, **more), given)[0].rpartition("; ")[2]
        for kind, more in (("wordpiece", {}), ("unigram", {"byte_fallback": True}), ("characters", {}))
    }
    assert all(("--tokenizer" in one) == given for one in advice.values())
    assert given or ["--byte-fallback" in one for one in advice.values()] == [True, False, False]


TURKISH = ["IŞIK yandı, ILIK su; İzmir'de ısı düşük.", "Kapı açıktı. ISI arttı."] * 10


@pytest.mark.parametrize("kind", KINDS)
def test_turkish_keeps_its_capitals(tmp_path: Path, kind: str) -> None:
    info = prepared(tmp_path, TURKISH, kind)
    assert info.loss is not None
    assert not info.tokens.lowercase
    assert (info.loss.lost, len(info.warnings)) == (0, 1)
    assert "ı and İ" in info.warnings[0]
    assert Corpus.open(tmp_path / "corpus").info == info


def test_a_given_tokenizer_that_makes_other_words_of_turkish_is_warned_of(tmp_path: Path) -> None:
    train_pieces(lambda: ["yandı işik ışık su izmir'de kapı isi"] * 20, TokensConfig(byte_fallback=True)).save(tmp_path)
    info = prepared(tmp_path, TURKISH, tokenizer=tmp_path)
    assert info.loss is not None
    assert info.tokens.lowercase
    assert info.loss.lost >= 3
    assert any("leave out --tokenizer" in warning for warning in info.warnings)
    assert prepared_word(measure_loss(["IŞIK ı"], lambda texts: [one.lower() for one in texts], True)) == (
        "IŞIK",
        "işik",
    )


def prepared_word(loss: LossInfo) -> tuple[str, str]:
    return loss.examples[0].text, loss.examples[0].back


def test_a_turkish_name_in_english_changes_nothing(tmp_path: Path) -> None:
    info = prepared(tmp_path, ["The Dogs of İzmir.", *["Nothing Is Lost Here, I think."] * 100])
    assert info.tokens.lowercase


def test_ordinary_text_has_no_warning(tmp_path: Path) -> None:
    info = prepared(tmp_path, ["The dog's café isn’t “open”. 他说今天天气很好。\u200b\tEnd"] * 30)
    assert info.loss is not None
    assert (info.loss.lost, info.loss.examples, info.warnings, info.unsegmented) == (0, [], [], {})


def test_counting_by_hand() -> None:
    pieces = build_pieces()
    loss = measure_loss(["the dogs barked", "Café é"], pieces_round_trip(pieces), lowercase=True)
    assert loss.characters == 13 + 5
    assert loss.lost == 2 + 0  # é twice; "e" alone is not in this vocabulary, so é comes back as nothing
    assert loss.share == 2 / 18
    assert loss_warnings(loss, 0.0, TokensConfig(), False)[0].startswith("11.11% of the characters cannot be got back")
    assert loss_warnings(loss, 0.011, TokensConfig(), False)[1].startswith(
        "1.1% of the tokens are unknown, more than 1%"
    )


def test_cased_text_must_keep_its_case() -> None:
    pieces = build_pieces()  # folds
    assert measure_loss(["The"], pieces_round_trip(pieces), lowercase=True).lost == 0
    assert measure_loss(["The"], pieces_round_trip(pieces), lowercase=False).lost == 1


def test_equivalent_spellings_are_no_loss(tmp_path: Path) -> None:
    info = prepared(tmp_path, ["cafe\u0301 한국 café"] * 10, "unigram")
    assert info.loss is not None
    assert info.loss.lost == 0


def test_the_sample_is_the_same_however_it_comes() -> None:
    chance = np.random.default_rng(0)
    hashes = chance.integers(0, 2**63, 3000).astype(np.uint64)
    texts = [str(number).encode() * 50 for number in range(3000)]
    whole, parts = Sample(), Sample()
    whole.add(hashes, texts)
    for start in range(0, 3000, 100):
        parts.add(hashes[start : start + 100], texts[start : start + 100])
    assert whole.texts() == parts.texts()
    assert len(whole.texts()) == 200
    short = Sample()
    short.add(hashes[:1], ["中文字".encode() * 1000])
    assert set("".join(short.texts())) == set("中文字")
    assert len("".join(short.texts())) >= 2994


def test_a_repeated_document_is_in_the_sample_once(tmp_path: Path) -> None:
    texts = ["the same words"] * 3000 + [f"another text {number}" for number in range(100)]
    sample = Sample()
    for start in range(0, len(texts), 500):
        some = [text.encode() for text in texts[start : start + 500]]
        sample.add(np.asarray([hash_bytes(text) for text in some], np.uint64), some)
    assert sorted(sample.texts()) == sorted(set(texts))


def test_long_stretches_without_spaces_are_known(tmp_path: Path) -> None:
    text = natural("Thai").replace(" ", "") * 5
    assert len(text) > 100
    info = prepared(tmp_path, [text] * 10)
    assert info.loss is not None
    assert (info.train.unknown, info.loss.lost) == (0, 0)
    assert Pieces.load(tmp_path / "corpus/tokenizer").description["model"]["max_input_chars_per_word"] == 400
