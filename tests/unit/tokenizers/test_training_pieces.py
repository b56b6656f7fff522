"""Training a tokenizer: the same text gives the same bytes, and everything seen can be spelled."""

import random
import subprocess
import sys
from typing import Any

import pytest

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.tokenizers import vocabulary as unigram
from firth.tokenizers.vocabulary import LongWords, train_pieces

STEMS = "walk talk jump play work dream light stone water house green happy under over".split()
ENDINGS = ["", "s", "ed", "ing", "er", "ers", "ly", "less"]
HAN = "今天天气很好我们去北京大学学习中文然后回家吃饭他说这个问题"


def build_texts(seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    texts = []
    for _ in range(400):
        words = [chance.choice(STEMS) + chance.choice(ENDINGS) for _ in range(12)]
        texts.append(" ".join(words).capitalize() + ". " + "".join(chance.choices(HAN, k=6)) + "。 Café №1 😀")
    return texts


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
class TestEveryKind:
    def test_twice_the_same(self, kind: Any, byte_fallback: bool) -> None:
        config = TokensConfig(kind=kind, vocab_size=600, byte_fallback=byte_fallback)
        first, second = (train_pieces(lambda: iter(build_texts()), config) for _ in range(2))
        assert first.backend.to_str() == second.backend.to_str()
        assert first.lowercase
        assert first.byte_fallback == (byte_fallback and kind != "bpe")

    def test_what_was_seen_is_known(self, kind: Any, byte_fallback: bool) -> None:
        config = TokensConfig(kind=kind, vocab_size=600, byte_fallback=byte_fallback, lowercase=False)
        pieces = train_pieces(lambda: iter(build_texts()), config)
        assert pieces.vocab_size <= 600
        for text in build_texts()[:20]:
            ids = pieces.encode(text, add_special=False).ids.tolist()
            assert pieces.unk_id not in ids
            assert pieces.decode(ids).replace(" ", "") == text.replace(" ", "")

    def test_what_was_not_seen(self, kind: Any, byte_fallback: bool) -> None:
        config = TokensConfig(kind=kind, vocab_size=600, byte_fallback=byte_fallback)
        pieces = train_pieces(lambda: iter(build_texts()), config)
        ids = pieces.encode("鑫 water", add_special=False).ids.tolist()
        if byte_fallback or kind == "bpe":
            assert pieces.unk_id not in ids
            assert pieces.decode(ids).replace(" ", "") == "鑫water"
        else:
            assert pieces.unk_id in ids

    def test_special_tokens_are_not_read_in_text(self, kind: Any, byte_fallback: bool) -> None:
        config = TokensConfig(kind=kind, vocab_size=600, byte_fallback=byte_fallback)
        pieces = train_pieces(lambda: iter([*build_texts(), "<pad></s>[MASK]<0x41>" * 3]), config)
        ids = pieces.encode("<pad> </s> [MASK] <|endoftext|>", add_special=False, read_special=False).ids
        assert not set(ids.tolist()) & (set(pieces.special_ids) - {pieces.unk_id})

    def test_no_text(self, kind: Any, byte_fallback: bool) -> None:
        with pytest.raises(FirthError, match="no text to learn a vocabulary from"):
            train_pieces(lambda: iter(["", " \n"]), TokensConfig(kind=kind, byte_fallback=byte_fallback))


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_the_same_in_another_process(kind: Any) -> None:
    """Hash tables are seeded anew in each process; the vocabulary must not notice."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_training_pieces import build_texts\n"
        "from firth.core.registry import TokensConfig; from firth.tokenizers.vocabulary import LongWords, train_pieces\n"
        "pieces = train_pieces(lambda: iter(build_texts()), TokensConfig(kind=sys.argv[1], vocab_size=500))\n"
        "print(pieces.fingerprint)\n"
    )
    command = [sys.executable, "-c", script, kind, __file__.rpartition("/")[0]]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    config = TokensConfig(kind=kind, vocab_size=500)
    assert there == train_pieces(lambda: iter(build_texts()), config).fingerprint


class TestUnigram:
    def test_stems_and_endings_are_found(self) -> None:
        config = TokensConfig(kind="unigram", vocab_size=300)
        pieces = train_pieces(lambda: iter(build_texts()), config)
        assert pieces.encode("walkers", add_special=False).tokens in (["▁walkers"], ["▁walk", "ers"])
        assert len(pieces.encode("dreamless stoneed", add_special=False).ids) <= 4

    def test_about_as_short_as_the_trainer_of_tokenizers(self) -> None:
        from tokenizers import Tokenizer, models, trainers

        ours = train_pieces(lambda: iter(build_texts()), TokensConfig(kind="unigram", vocab_size=320))
        theirs = Tokenizer(models.Unigram())
        theirs.normalizer, theirs.pre_tokenizer = ours.backend.normalizer, ours.backend.pre_tokenizer
        trainer = trainers.UnigramTrainer(
            vocab_size=320, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
        )
        theirs.train_from_iterator(build_texts(), trainer)
        held_out = build_texts(seed=1)
        num_ours = sum(len(ours.backend.encode(text).ids) for text in held_out)
        assert num_ours <= 1.03 * sum(len(theirs.encode(text).ids) for text in held_out)

    def test_counting_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unigram, "_MAX_WORDS", 50)
        counts = unigram.count_words(f"often rare{number} 今天很好，{number}" for number in range(1000))
        assert len(counts) <= 50
        assert counts["▁often"] == 1000

    def test_scores_are_log_probabilities(self) -> None:
        found = unigram.train_unigram({"▁ab": 10, "▁abab": 5, "▁b": 3}, 6, 6)
        assert {piece for piece, _ in found} >= {"▁", "a", "b"}
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        assert all(score < 0 for _, score in found)


@pytest.mark.parametrize(
    ("kind", "text", "parts"),
    [
        ("wordpiece", "the " + "x" * 1000 + " end", ["the " + "x" * 400, " end"]),  # the rest of no word is left out
        ("bpe", "the " + "x" * 1000 + " end", ["the " + "x" * 400, " end"]),
        ("bpe", "好" * 1000, ["好" * 400, "好" * 400, "好" * 200, ""]),  # a script without spaces is split
        ("wordpiece", "好" * 1000, ["好" * 1000]),  # each character is a word
        ("wordpiece", "ก" * 900, ["ก" * 400, "ก" * 400, "ก" * 100, ""]),
        ("bpe", " " * 900 + "a", [" " * 400, "a"]),
        ("bpe", "the " * 500, ["the " * 500]),
        ("wordpiece", "x" * 400, ["x" * 400]),
    ],
)
def test_long_words_are_cut_for_the_trainers(kind: str, text: str, parts: list[str]) -> None:
    words = LongWords(kind)
    assert list(words.shorten([text])) == parts
    assert (words.note() is None) == (parts == [text])


def test_a_word_of_any_length_is_found_wherever_it_begins() -> None:
    for start in range(0, 450, 7):
        words = LongWords("bpe")
        assert "".join(words.shorten(["a b " * 100 + "1" * (start % 3) + " " * (start % 5) + "x" * 401 + " c" * start]))
        assert words.num_cut == 1
        assert words.longest == 401


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_what_was_cut_is_said(kind: str) -> None:
    notes: list[str] = []
    train_pieces(lambda: ["a short text", "y" * 5000], TokensConfig(kind=kind, vocab_size=300), notes)
    assert len(notes) == 1
    assert "the longest with 5,000" in notes[0]


def test_a_bad_text_stops_the_training() -> None:
    """The trainers run in a thread of their own; its errors arrive."""
    calls: list[int] = []

    def texts() -> Any:
        calls.append(1)
        yield "a text"
        if len(calls) > 2:  # it is looked at before
            raise FirthError("line 2 is damaged")

    with pytest.raises(FirthError, match="line 2 is damaged"):
        train_pieces(texts, TokensConfig(kind="wordpiece", vocab_size=300))
