"""What is wrong with parallel text or with a translator is told in a sentence, and nothing is left behind."""

from pathlib import Path

import pytest
from refusals import refused

import firth
from firth.cli.main import main
from firth.core.config import parse_settings

Told = pytest.CaptureFixture[str]
SMALL = ["num_layers=1", "num_decoder_layers=1", "hidden_dim=16", "num_heads=2", "ffn_dim=16", "batch_tokens=128"]
SMALL += ["norm_first=false"]  # then the run is a Marian directory


@pytest.fixture(scope="module")
def translator(pairs_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translator") / "run"
    firth.pretrain("transformer-tiny", corpus=pairs_folder, out=folder, steps=1, settings=parse_settings(SMALL))
    return folder


def test_sides_of_different_lengths(work: Path, capsys: Told) -> None:
    Path("a.en").write_text("one\ntwo\n")
    Path("a.de").write_text("eins\n")
    refused(["prepare-pairs", "a.en", "a.de", "--out", "c"], capsys, "a.en has 2 lines but a.de has 1")
    refused(["prepare-pairs", "a.en", "--out", "c"], capsys, "two line-aligned files")
    refused(["prepare-pairs", "a.en", "a.fr", "--out", "c"], capsys, "a.fr: no such file")


def test_translating(translator: Path, run_folder: Path, work: Path, capsys: Told) -> None:
    refused(["translate", run_folder, "A dog."], capsys, "cannot translate")
    refused(["translate", translator, "dog", "--nbest", "9"], capsys, "9 results need a beam as wide")
    refused(["fill", translator, "A [MASK]."], capsys, "cannot fill in masked words")


def test_more_beams_than_anyone_can_mean(translator: Path, work: Path, capsys: Told) -> None:
    refused(
        ["translate", translator, "a dog", "--beams", "100000"], capsys, "beam search", "less than or equal to 1000"
    )


def test_evaluating(translator: Path, work: Path, capsys: Told) -> None:
    Path("a.en").write_text("one\n")
    refused(["evaluate", translator, "--source", "a.en"], capsys, "belong together")
    refused(["evaluate", translator, "--source", "a.en", "--reference", "no.de"], capsys, "no.de: no such file")


def test_the_wrong_kind_of_corpus(pairs_folder: Path, corpus_folder: Path, work: Path, capsys: Told) -> None:
    start = ["--out", "r", "--steps", "1"]
    refused(
        ["pretrain", "transformer-tiny", "--corpus", corpus_folder, *start], capsys, "not a corpus of sentence pairs"
    )
    refused(["pretrain", "bert-tiny", "--corpus", pairs_folder, *start], capsys, "a corpus of sentence pairs")
    refused(
        ["pretrain", "transformer-tiny", "--corpus", pairs_folder, *start, "positions=learned", "max_positions=5"],
        capsys,
        "more than model.max_positions (5)",
    )
    refused(
        ["pretrain", "seq2seq", "--corpus", pairs_folder, *start, "input_feeding=true"], capsys, "choose attention=dot"
    )


def test_a_damaged_translator(translator: Path, work: Path, capsys: Told) -> None:
    import shutil

    shutil.copytree(translator, "copy")
    Path("copy/model.safetensors").write_bytes(b"")
    refused(["translate", "copy", "dog"], capsys, "model.safetensors: not a complete weights file")
    Path("copy/model.safetensors").unlink()
    refused(["translate", "copy", "dog"], capsys, "no weights here")
    Path("copy/tokenizer.json").unlink()
    refused(["info", "copy"], capsys, "missing")


def test_a_sentence_too_long_for_a_name(translator: Path, work: Path, capsys: Told) -> None:
    main(["translate", str(translator), "a dog " * 60, "--beams", "1", "--max-tokens", "4"])
    assert len(capsys.readouterr().out.splitlines()) == 1
