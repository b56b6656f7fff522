"""A translator in use: a toy language learned in seconds, beams, prefixes, copies, attention, the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.cli.main import main
from firth.core.config import parse_settings
from firth.core.errors import FirthError
from firth.core.run import Run
from firth.models.shared.translation_model import TranslationModel, score_translations, tokenizer_for
from firth.training.checkpoints import read_history
from pair_text import sentence_pairs, write_sides

pytestmark = pytest.mark.slow

SETTINGS = [
    "num_layers=1",
    "num_decoder_layers=2",
    "hidden_dim=48",
    "num_heads=4",
    "ffn_dim=96",
    "dropout_prob=0.0",
    "norm_first=false",
    "batch_tokens=512",
    "learning_rate=6e-3",
    "evaluations=2",
]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned the toy language: every word replaced, the order turned."""
    folder = tmp_path_factory.mktemp("toy")
    sides = write_sides(folder, sentence_pairs(3000))
    firth.prepare_pairs(sides, folder / "corpus", tokens="wordpiece", vocab_size=300, heldout=0.02)
    firth.pretrain(
        "transformer-tiny", corpus=folder / "corpus", out=folder / "run", settings=parse_settings(SETTINGS), epochs=14
    )
    return folder / "run"


@pytest.fixture(scope="module")
def model(toy: Path) -> TranslationModel:
    loaded = firth.load(toy)
    assert isinstance(loaded, TranslationModel)
    return loaded


NEW = sentence_pairs(40, seed=9)
SOURCES = [source for source, _ in NEW]


def test_the_toy_language_is_learned_and_scored(toy: Path, model: TranslationModel) -> None:
    found = model.translate(SOURCES)
    right = sum(one == target for one, (_, target) in zip(found, NEW, strict=True))
    assert right >= 36  # of 40; rounding differs between processors
    record = Run.open(toy).record
    losses = [line["loss"] for line in read_history(toy / "metrics.jsonl") if line["event"] == "train"]
    assert losses[0] > 3 > losses[-1] > 0.3  # what smoothing leaves
    assert record.metrics["bleu"] > 95
    assert record.metrics["accuracy"] > 0.98
    assert "tok:13a" in record.notes["bleu_signature"]
    assert record.notes["bleu_signature"] in (toy / "report.html").read_text(encoding="utf-8")
    assert "<rect" in (toy / "report.html").read_text(encoding="utf-8")


def test_batching_and_order_change_nothing(model: TranslationModel) -> None:
    together = model.translations(SOURCES[:10], beams=3, nbest=2)
    for text, wanted in zip(SOURCES[:10], together, strict=True):
        alone = model.translations(text, beams=3, nbest=2)[0]
        assert [one.text for one in alone] == [one.text for one in wanted]
        assert [one.score for one in alone] == pytest.approx([one.score for one in wanted], abs=1e-3)
        assert wanted[0].normalised >= wanted[1].normalised
    assert model.translate(["", SOURCES[0], "  "]) == ["", together[0][0].text, ""]
    assert model.translate([]) == []


def test_forced_beginnings(model: TranslationModel) -> None:
    found = model.translate(SOURCES[:4], prefixes=["Taob", "", "Taob Tac", "Esuoh"])
    assert found[0].startswith("Taob")
    assert found[1] == model.translate(SOURCES[1])[0]
    assert found[2].startswith("Taob Tac")
    with pytest.raises(FirthError, match="2 prefixes for 1 texts"):
        model.translate("dog", prefixes=["a", "b"])


def test_attention_shows_the_turned_order(model: TranslationModel) -> None:
    source, target = next(pair for pair in NEW if len(set(pair[0].split())) == len(pair[0].split()) > 4)
    maps = model.attention(source, target)
    size = len(source.split())
    assert maps.source_tokens[:-1] == source.split()
    assert maps.target_tokens[:-1] == target.split()
    assert maps.between.shape == (2, 4, size + 1, size + 1)
    assert maps.source is not None
    assert maps.source.shape == (1, 4, size + 1, size + 1)
    assert maps.target is not None
    np.testing.assert_allclose(maps.between.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(maps.target[0, 0], np.tril(maps.target[0, 0]))
    best = maps.between[:, :, :size, :size].argmax(-1)  # some head of some layer follows the words
    follows = (best == np.arange(size)[::-1]).mean(-1).max()
    assert follows >= 0.6


def test_unknown_words_are_copied(model: TranslationModel) -> None:
    unknown = model.target_pieces.unk_id
    assert unknown is not None
    encoding = model._encode("dog 猫 bird")
    assert unknown in encoding.ids
    known = [model.target_pieces.id(word) for word in ("Drib", "God")]
    text = model._copied("dog 猫 bird", encoding, [known[0], unknown, known[1]])
    first, copied, last = text.split(" ")
    assert (first, last) == ("Drib", "God")
    assert copied in ("dog", "猫", "bird")
    assert "[UNK]" not in model.translate("dog 猫 bird", copy_unknown=True)[0]


def test_vectors_and_layers(model: TranslationModel) -> None:
    layers = model.layers("dog bird")
    assert layers.hidden.shape == (2, 3, 48)
    assert layers.offsets.tolist() == [[0, 3], [4, 8], [8, 8]]
    assert layers.words.tolist() == [0, 1, -1]
    np.testing.assert_allclose(model.encode("dog bird", pool="max")[0], layers.hidden[-1].max(0), atol=1e-5)
    np.testing.assert_allclose(model.encode("dog bird", 0)[0], layers.hidden[0].mean(0), atol=1e-5)
    with pytest.raises(FirthError, match="layer 5 does not exist"):
        model.encode("dog", 5)


def test_the_run_is_a_marian_directory(toy: Path, model: TranslationModel) -> None:
    import torch
    from transformers import MarianMTModel

    theirs = MarianMTModel.from_pretrained(toy).eval()
    for text in SOURCES[:5]:
        ids = torch.from_numpy(model._encode(text).ids)[None]
        found = theirs.generate(ids, num_beams=5, max_new_tokens=30)[0].tolist()
        assert model.target_pieces.decode(found) == model.translate(text)[0]


class TestCommands:
    def test_translate(self, toy: Path, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        main(["translate", str(toy), *SOURCES[:2]])
        wanted = [target for _, target in NEW[:2]]
        assert capsys.readouterr().out.splitlines() == wanted
        Path("texts.txt").write_text("\n".join([SOURCES[0], "", SOURCES[1]]) + "\n", encoding="utf-8")
        main(["translate", str(toy), "texts.txt", "--beams", "1"])
        assert capsys.readouterr().out.splitlines() == [wanted[0], "", wanted[1]]
        main(["translate", str(toy), SOURCES[0], "--nbest", "2", "--json"])
        found = json.loads(capsys.readouterr().out)
        assert found["translations"][0]["text"] == wanted[0]
        assert len(found["translations"]) == 2

    def test_evaluate(self, toy: Path, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source, reference = write_sides(work, NEW, "test")
        main(["evaluate", str(toy), "--source", source, "--reference", reference, "--json"])
        found = json.loads(capsys.readouterr().out)
        assert found["bleu"] > 95
        assert found["chrf"] > 95
        assert found["bleu_signature"].startswith("nrefs:1")
        main(["evaluate", str(toy)])
        assert "bleu signature" in capsys.readouterr().out

    def test_prepare_pairs_and_info(self, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
        main(["prepare-pairs", *write_sides(work, [*sentence_pairs(50), ("dog", "")]), "--out", "c", "--separate"])
        told = capsys.readouterr().out
        assert "1 (1 empty)" in told
        assert "firth pretrain transformer-tiny" in told
        main(["info", "c"])
        assert "a corpus of sentence pairs, files whole" in capsys.readouterr().out


def test_scores_are_those_of_sacrebleu() -> None:
    import sacrebleu

    references, hypotheses = ["ein Hund läuft .", "zwei Katzen"], ["ein Hund rennt .", "zwei Katzen"]
    found = score_translations(hypotheses, references, "de")
    assert found.metrics["bleu"] == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score)
    assert found.metrics["chrf"] == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [references]).score)
    assert "tok:zh" in score_translations(["一只狗"], ["一只狗"]).notes["bleu_signature"]
    assert [tokenizer_for(name, []) for name in ("zh", "zh-CN", "de", "")] == ["zh", "zh", "13a", "13a"]


def test_separate_vocabularies_and_recurrent_models(work: Path) -> None:
    """CoVe: the encoder of a recurrent translator gives vectors."""
    firth.prepare_pairs(write_sides(work, sentence_pairs(100)), "c", tokens="unigram", vocab_size=300, separate=True)
    settings = ["hidden_dim=16", "batch_tokens=256"]
    model = firth.pretrain("seq2seq-attention", corpus="c", out="run", steps=3, settings=parse_settings(settings))
    assert isinstance(model, TranslationModel)
    assert model.layers("dog bird").hidden.shape[0] == 3
    assert model.encode(["dog", "dog bird"]).shape == (2, 16)
    assert model.attention("dog bird", "Drib God").between.shape[:2] == (1, 1)
    plain = firth.pretrain("seq2seq", corpus="c", out="plain", steps=3, settings=parse_settings(settings))
    assert isinstance(plain, TranslationModel)
    with pytest.raises(FirthError, match="has no attention"):
        plain.attention("dog")
    (work / "run" / "target" / "tokenizer.json").unlink()
    with pytest.raises(FirthError, match="no tokenizer here"):
        firth.load(work / "run")
