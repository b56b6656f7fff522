"""Translators for CTranslate2: the scores and translations of the original, whatever its shape; refused in one
sentence where they cannot be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.cli.main import main
from firth.core.config import parse_settings
from firth.core.errors import FirthError
from firth.core.files import write_json
from firth.core.run import Run
from firth.decoding.steps import Rules
from firth.exporters.ctranslate2 import (
    CTranslate2Model,
    load_ctranslate2,
    num_positions,
    open_translator,
    save_ctranslate2,
    token_names,
)
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.shared.translation_model import TranslationModel
from firth.tokenizers.pieces import Pieces
from pair_text import sentence_pairs, write_sides

SMALL = ["num_layers=2", "num_decoder_layers=1", "hidden_dim=24", "num_heads=2", "ffn_dim=48", "batch_tokens=512"]
TEXTS = [source for source, _ in sentence_pairs(12, seed=5)]
SHAPES: dict[str, dict[str, Any]] = {
    "as published": {},
    "norm first, learned": {"norm_first": True, "positions": "learned", "activation": "gelu"},
    "relative": {"positions": "relative", "activation": "silu", "output_bias": False},
    "own tables": {"own_target": True, "tied_output": False, "activation": "gelu_tanh"},
    "no positions": {"positions": "none", "norm_eps": 0.1},
    "t5": {
        "positions": "relative",
        "norm": "rms",
        "norm_first": True,
        "gated": True,
        "bias": False,
        "embedding_scale": 1.0,
        "output_scale": 0.25,
        "output_bias": False,
    },
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ct2")
    firth.prepare_pairs(write_sides(folder, sentence_pairs(300)), folder / "corpus", tokens="unigram", vocab_size=300)
    return folder / "corpus"


@pytest.fixture(scope="module")
def run(corpus: Path) -> Path:
    out = corpus.parent / "run"
    settings = [*SMALL, "evaluations=0", "learning_rate=5e-3"]
    firth.pretrain("transformer-tiny", corpus=corpus, out=out, steps=40, settings=parse_settings(settings))
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_those_of_the_original(shape: str, corpus: Path, tmp_path: Path) -> None:
    """Random weights, biases and norms too: a matrix in a wrong place would show. Nothing is ruled out, since
    CTranslate2 shares the probability of what is among the rest."""
    pieces = Pieces.load(corpus / "tokenizer")
    given = {"max_positions": 64, "vocab_size": pieces.vocab_size + 3, **SHAPES[shape]}  # with spare rows
    given |= {"target_vocab_size": pieces.vocab_size} if given.pop("own_target", False) else {}
    sizes = {"num_layers": 2, "num_decoder_layers": 2, "hidden_dim": 16, "num_heads": 2, "ffn_dim": 24}
    config = EncoderDecoderConfig.build({**sizes, **given}, "test")
    model = EncoderDecoder(config)
    generator = torch.Generator().manual_seed(1)
    model.initialize(generator)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    assert pieces.pad_id is not None
    assert pieces.eos_id is not None
    ids = {"pad_id": pieces.pad_id, "eos_id": pieces.eos_id, "start_id": pieces.pad_id}
    weights = dict(model.state_dict())
    save_ctranslate2(tmp_path, config, weights, (pieces, pieces), ids)
    ours = TranslationModel(EncoderDecoder(config), weights, ids, pieces, pieces, ["", ""], tmp_path)
    names, room = token_names(config, pieces, pieces), num_positions(config)
    theirs = CTranslate2Model(
        open_translator(tmp_path), config, ids, pieces, pieces, ["", ""], names, room, model.tokens.weight.numel()
    )
    for beams in (1, 4):
        wanted = ours.translations(TEXTS, beams, max_tokens=12, length_penalty=0.0, rules=Rules())
        found = theirs.translations(TEXTS, beams, max_tokens=12, length_penalty=0.0, rules=Rules())
        same = [one[0].text == two[0].text for one, two in zip(wanted, found, strict=True)]
        assert sum(same) >= len(TEXTS) - 2  # the two searches stop by rules of their own
        for one, two, equal in zip(wanted, found, same, strict=True):
            assert not equal or two[0].score == pytest.approx(one[0].score, abs=1e-3)


def test_export_open_and_translate(run: Path, tmp_path: Path) -> None:
    verified = firth.export(run, tmp_path / "out", to="ctranslate2", verify=True)["export"]["verified"]
    assert verified["translations"] > 2
    assert verified["equal"] >= 0.8 * verified["translations"]
    original, found = firth.load(run), firth.load(tmp_path / "out")
    assert isinstance(found, CTranslate2Model)
    assert found.num_parameters == original.num_parameters
    assert (found.engine, found.spec_name) == ("ctranslate2", original.spec_name)
    assert found.translate(["", TEXTS[0]])[0] == ""
    best = found.translations(TEXTS[:3], beams=4, nbest=3)
    assert all(len(some) == 3 and some[0].normalised >= some[1].normalised for some in best)
    forced = sentence_pairs(12, seed=5)[0][1].split()[0]
    assert found.translate(TEXTS[0], prefixes=[forced])[0].startswith(forced)
    with pytest.raises(FirthError, match="cannot encode texts"):
        found.encode("dog")
    with pytest.raises(FirthError, match="exists already"):
        firth.export(run, tmp_path / "out", to="ctranslate2")
    with pytest.raises(FirthError, match="cannot be the base of a task"):
        found.reader()


def test_int8_and_commands(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, lines = tmp_path / "out", tmp_path / "texts.txt"
    lines.write_text("\n".join(TEXTS[:4]) + "\n", encoding="utf-8")
    main(["export", str(run), str(out), "--to", "ctranslate2", "--int8", "--data", str(lines), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["export"]["verified"]["translations"] == 4
    main(["info", str(out)])
    told = capsys.readouterr().out
    assert "int8" in told
    assert "exported from" in told
    main(["translate", str(out), TEXTS[0]])
    assert capsys.readouterr().out.strip() == firth.load(out).translate(TEXTS[0])[0]


def test_separate_vocabularies(corpus: Path, tmp_path: Path) -> None:
    sides = write_sides(tmp_path, sentence_pairs(100))
    firth.prepare_pairs(sides, tmp_path / "c", tokens="bpe", vocab_size=300, separate=True, heldout=0.1)
    settings = [*SMALL, "evaluations=0", "learning_rate=5e-3"]
    firth.pretrain(
        "transformer-tiny", corpus=tmp_path / "c", out=tmp_path / "run", steps=5, settings=parse_settings(settings)
    )
    found = firth.export(tmp_path / "run", tmp_path / "out", to="ctranslate2", verify=True)
    assert found["export"]["verified"]["translations"] >= 1
    assert (tmp_path / "out" / "target" / "tokenizer.json").is_file()


def test_what_does_not_fit_is_said(run: Path, corpus: Path, run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="not a translation model"):
        firth.export(run_folder, tmp_path / "out", to="ctranslate2")
    settings = ["batch_tokens=512", "evaluations=0", "hidden_dim=16"]
    firth.pretrain("seq2seq", corpus=corpus, out=tmp_path / "old", steps=1, settings=parse_settings(settings))
    with pytest.raises(FirthError, match="recurrent translation model"):
        firth.export(tmp_path / "old", tmp_path / "out", to="ctranslate2")
    firth.pretrain(
        "transformer-tiny", corpus=corpus, out=tmp_path / "near", steps=1, settings=parse_settings([*SMALL, "window=4"])
    )
    with pytest.raises(FirthError, match="a window on self-attention"):
        firth.export(tmp_path / "near", tmp_path / "out", to="ctranslate2")
    assert not (tmp_path / "out").exists()
    known = Run.open(run)
    before = known.record.corpus
    assert before is not None
    try:
        known.save(corpus=before.replace(path=str(tmp_path / "gone")))
        with pytest.raises(FirthError, match="name a file with --data"):
            firth.export(run, tmp_path / "out", to="ctranslate2", verify=True)
    finally:
        known.save(corpus=before)


def test_damage_is_said(run: Path, tmp_path: Path) -> None:
    firth.export(run, tmp_path / "out", to="ctranslate2")
    (tmp_path / "out" / "model.bin").write_bytes(b"short")
    with pytest.raises(FirthError, match=r"not the model that its firth.json describes"):
        load_ctranslate2(tmp_path / "out")
    with pytest.raises(FirthError, match="does not describe an exported translator"):
        load_ctranslate2(run)
    write_json(tmp_path / "out" / "firth.json", {"kind": "ctranslate2"})
    with pytest.raises(FirthError, match="damaged"):
        load_ctranslate2(tmp_path / "out")


def test_vectors_of_fasttext_have_a_file_of_that_name(words_folder: Path, tmp_path: Path) -> None:
    settings = ["dim=8", "min_count=1", "bucket=100"]
    firth.pretrain("fasttext", corpus=words_folder, out=tmp_path / "run", epochs=1, settings=parse_settings(settings))
    assert (tmp_path / "run" / "model.bin").is_file()
    assert firth.load(tmp_path / "run").kind == "static vectors"


def test_the_order_of_ids_is_the_tables(corpus: Path) -> None:
    pieces = Pieces.load(corpus / "tokenizer")
    names = [pieces.token(number) for number in range(pieces.vocab_size)]
    assert len(set(names)) == len(names)
    assert np.all([pieces.id(name) == number for number, name in enumerate(names)])
