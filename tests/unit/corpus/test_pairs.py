"""The parallel corpus: what is kept, what is left out and counted, batches by number."""

from pathlib import Path

import numpy as np
import pytest

from firth.cli.describe import pairs_rows
from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.corpus.format import Corpus
from firth.corpus.pairs import PairBatches, PairsCorpus
from firth.corpus.prepare_pairs import PairFilters, prepare_pairs
from pair_text import sentence_pairs, write_sides
from piece_samples import build_pieces

BPE = TokensConfig(kind="bpe", vocab_size=300, lowercase=False)
UNIGRAM = TokensConfig(kind="unigram", vocab_size=300, lowercase=False, byte_fallback=True)


@pytest.mark.parametrize("tokens", [BPE, UNIGRAM], ids=["bpe", "unigram"])
@pytest.mark.parametrize("separate", [False, True], ids=["joint", "separate"])
def test_every_sentence_comes_back(tokens: TokensConfig, separate: bool, tmp_path: Path) -> None:
    pairs = sentence_pairs(60)
    info = prepare_pairs([*write_sides(tmp_path, pairs)], tmp_path / "c", tokens, separate=separate, heldout=0.2)
    corpus = PairsCorpus.open(tmp_path / "c")
    assert corpus.info == info
    assert info.languages == ["en", "de"]
    assert info.train.pairs + info.heldout.pairs == 60
    assert info.heldout.pairs > 2
    found = []
    for split in (corpus.train, corpus.heldout):
        for number in range(split.num_pairs):
            source = corpus.pieces.decode(split.sentence("source", number).tolist())
            found.append((source, corpus.target_pieces.decode(split.sentence("target", number).tolist())))
    assert sorted(found) == sorted(pairs)
    assert (
        list(zip(corpus.heldout.texts("source"), corpus.heldout.texts("target"), strict=True))
        == found[-info.heldout.pairs :]
    )


def test_filters_count_what_they_leave_out(tmp_path: Path) -> None:
    pairs = [("dog", "God")] * 5 + [("", "God"), ("dog", "  "), ("dog", "God " * 30), ("dog " * 60, "God " * 60)]
    info = prepare_pairs(
        [*write_sides(tmp_path, pairs)],
        tmp_path / "c",
        BPE,
        heldout=0.0,
        filters=PairFilters(max_len=50, max_ratio=4.0),
    )
    assert info.left_out == {"empty": 2, "long": 1, "ratio": 1}
    assert info.train.pairs == 5


def test_given_test_files_are_kept_whole(tmp_path: Path) -> None:
    train, dev = write_sides(tmp_path, sentence_pairs(30)), write_sides(tmp_path, [("dog", ""), ("a b", "b a")], "dev")
    info = prepare_pairs([*train], tmp_path / "c", BPE, dev=[*dev])
    assert (info.train.pairs, info.heldout.pairs) == (30, 2)
    assert PairsCorpus.open(tmp_path / "c").heldout.texts("target") == ["", "b a"]


@pytest.mark.slow
def test_the_same_text_gives_the_same_bytes(tmp_path: Path) -> None:
    sides = write_sides(tmp_path, sentence_pairs(40))
    one, two = (prepare_pairs([*sides], tmp_path / name, UNIGRAM) for name in ("one", "two"))
    assert one.checksums == two.checksums


def test_what_is_wrong_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    sides = write_sides(tmp_path, sentence_pairs(5))
    with pytest.raises(FirthError, match="made of pieces"):
        prepare_pairs([*sides], tmp_path / "c", TokensConfig(kind="words"))
    empty = write_sides(tmp_path, [("a", "")], "empty")
    with pytest.raises(FirthError, match=r"no pair is left for training \(1 empty"):
        prepare_pairs([*empty], tmp_path / "c", BPE)
    assert not (tmp_path / "c").exists()
    prepare_pairs([*sides], tmp_path / "c", BPE)
    with pytest.raises(FirthError, match="exists already"):
        prepare_pairs([*sides], tmp_path / "c", BPE)
    prepare_pairs([*sides], tmp_path / "c", BPE, overwrite=True)
    with pytest.raises(FirthError, match="a corpus of sentence pairs"):
        Corpus.open(tmp_path / "c")
    with pytest.raises(FirthError, match="not a corpus of sentence pairs"):
        PairsCorpus.open(tmp_path)
    (tmp_path / "c" / "train" / "source.bin").write_bytes(b"xx")
    with pytest.raises(FirthError, match=r"source.bin: damaged"):
        PairsCorpus.open(tmp_path / "c")


class TestBatches:
    source = np.random.default_rng(1).integers(1, 40, 500)
    target = np.maximum(1, source + np.random.default_rng(2).integers(-5, 6, 500))

    def batches(self, seed: int = 5) -> PairBatches:
        return PairBatches(self.source, self.target, 256, seed)

    def test_every_epoch_holds_every_pair_once(self) -> None:
        batches = self.batches()
        for epoch in range(3):
            numbers = range(epoch * len(batches), (epoch + 1) * len(batches))
            found = np.concatenate([batches.pairs(number) for number in numbers])
            assert sorted(found) == list(range(500))

    def test_batches_stay_in_the_limit_and_hold_little_padding(self) -> None:
        batches = self.batches()
        used = padded = 0
        for number in range(2 * len(batches)):
            rows = batches.pairs(number)
            for lens in (self.source[rows], self.target[rows]):
                assert lens.max() * len(rows) <= 256
                used, padded = used + lens.sum(), padded + lens.max() * len(rows)
        assert used / padded > 0.8

    def test_a_batch_is_a_function_of_its_number(self) -> None:
        one, two = self.batches(), self.batches()
        numbers = [7, 0, 3 * len(one) + 2, 7, len(one)]
        for number in numbers:
            np.testing.assert_array_equal(one.pairs(number), self.batches().pairs(number))
        assert [len(two.pairs(number)) for number in sorted(numbers)]
        assert any(not np.array_equal(one.pairs(number), one.pairs(number + len(one))) for number in range(len(one)))
        assert any(not np.array_equal(one.pairs(number), self.batches(6).pairs(number)) for number in range(len(one)))

    def test_a_pair_longer_than_a_batch_stands_alone(self) -> None:
        lens = np.asarray([300, 2, 2])
        batches = PairBatches(lens, lens, 64, 0)
        assert sorted(sorted(batches.pairs(number).tolist()) for number in range(len(batches))) == [[0], [1, 2]]


def test_a_side_that_the_given_tokenizer_does_not_know_is_warned_of(tmp_path: Path) -> None:
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    build_pieces().save(pieces)
    pairs = [(f"天气{chr(0x4E00 + number)}很好", "the dogs barked") for number in range(50)]
    info = prepare_pairs([*write_sides(tmp_path, pairs)], tmp_path / "c", BPE, tokenizer=pieces, heldout=0)
    assert (info.tokens.kind, info.tokens.lowercase) == ("wordpiece", True)
    assert info.loss["source"].share > 0.99
    assert info.loss["target"].lost == 0
    assert len(info.warnings) == 2
    assert all(warning.startswith("source (en): ") for warning in info.warnings)
    assert all("leave out --tokenizer" in warning and "--vocab-size" not in warning for warning in info.warnings)
    rows = dict(pairs_rows(info))
    assert rows["types"].endswith("shared wordpiece")
    assert rows["source lost"].startswith("99.600%")
    assert rows["target lost"].startswith("nothing")
    assert PairsCorpus.open(tmp_path / "c").info == info


def test_pairs_that_lose_nothing_say_so(tmp_path: Path) -> None:
    info = prepare_pairs([*write_sides(tmp_path, sentence_pairs(60))], tmp_path / "c", UNIGRAM, separate=True)
    assert [(loss.lost, loss.characters > 100) for loss in info.loss.values()] == [(0, True)] * 2
    assert info.warnings == []


def test_turkish_pairs_keep_their_capitals_and_persian_ones_their_joiners(tmp_path: Path) -> None:
    pairs = [(f"IŞIK yandı {number}", f"نور می\u200cسوزد {number}") for number in range(40)]
    tokens = TokensConfig(kind="wordpiece", vocab_size=300)
    info = prepare_pairs([*write_sides(tmp_path, pairs)], tmp_path / "c", tokens)
    assert not info.tokens.lowercase
    assert [loss.lost for loss in info.loss.values()] == [0, 0]
    assert len(info.warnings) == 1
    assert "ı and İ" in info.warnings[0]
