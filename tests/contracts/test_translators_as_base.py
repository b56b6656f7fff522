"""CoVe: a translator's encoder under a task. Train, save, load, the same predictions; the decoder stays out of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MarianConfig, MarianMTModel

import firth
from firth.core.config import parse_settings
from firth.core.files import load_tensors
from firth.core.types import Inputs
from firth.models.shared.translation_model import SourceReader, TranslationModel
from pair_text import sentence_pairs, write_sides
from task_text import files

TRANSFORMER = ["num_layers=2", "num_decoder_layers=1", "hidden_dim=16", "num_heads=2", "ffn_dim=32"]
KINDS: dict[str, tuple[str, list[str]]] = {
    "recurrent": ("seq2seq-attention", ["hidden_dim=16"]),
    "transformer": ("transformer-tiny", [*TRANSFORMER, "norm_first=true"]),
    "relative": ("transformer-tiny", [*TRANSFORMER, "positions=relative"]),
}
INPUTS: dict[str, list[Any]] = {
    "classify": ["The old doctor found a clock.", "", "a " * 80],
    "pair": [("The doctor slept.", "A doctor found a map."), ("", "")],
    "tag": [["the", "old", "nurse", "slept"], []],
}


@pytest.fixture(scope="module", params=sorted(KINDS))
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, (recipe, settings) = tmp_path_factory.mktemp("mt"), KINDS[request.param]
    firth.prepare_pairs(write_sides(folder, sentence_pairs(100)), folder / "corpus", tokens="unigram", vocab_size=300)
    settings = [*settings, "batch_tokens=256", "evaluations=0"]
    firth.pretrain(recipe, corpus=folder / "corpus", out=folder / "run", steps=3, settings=parse_settings(settings))
    return folder / "run"


@pytest.mark.parametrize("task", sorted(INPUTS))
def test_train_save_load(task: str, base: Path, tmp_path: Path) -> None:
    name = {"pair": "classify"}.get(task, task)
    given: Any = files(tmp_path, task, 12, 6)
    trained = firth.finetune(name, base=base, **given, out=tmp_path / "run", epochs=1, tune=True, body="none")
    found = firth.load(tmp_path / "run").predict(INPUTS[task])
    assert found == trained.predict(INPUTS[task])
    if task == "classify":
        names = load_tensors(tmp_path / "run" / "task.safetensors")
        assert any("tokens" in name for name in names)
        assert not any("decoder" in name or "cross" in name or "output" in name for name in names)


def test_features_for_a_network_are_the_usual_way(base: Path, tmp_path: Path) -> None:
    given: Any = files(tmp_path, "classify", 12, 6)
    trained: Any = firth.finetune("classify", base=base, **given, out=tmp_path / "run", epochs=1, layers="mix")
    assert (trained.config.tune, trained.config.body) == (False, "bilstm")
    assert firth.load(tmp_path / "run").predict(INPUTS["classify"]) == trained.predict(INPUTS["classify"])


def test_a_task_reads_what_layers_show(base: Path) -> None:
    model = firth.load(base)
    assert isinstance(model, TranslationModel)
    reader, shown = model.reader(), model.layers("dog bird")
    ids = torch.tensor([[*reader.tokenize("dog bird").ids, *reader.frame.after, 0, 0]])
    blocks = (torch.arange(ids.shape[1]) < shown.hidden.shape[1])[None].long()
    reader.module.eval()
    with torch.inference_mode():
        found = reader.module(Inputs(ids, blocks)).hidden[:, 0, : shown.hidden.shape[1]]
        last = reader.module.last(Inputs(ids, blocks))[0, : shown.hidden.shape[1]]
    assert len(found) == reader.num_layers
    np.testing.assert_allclose(found, shown.hidden, atol=1e-5)
    np.testing.assert_allclose(last, shown.hidden[-1], atol=1e-5)


def test_dropout_follows_the_task(base: Path) -> None:
    model = firth.load(base)
    assert isinstance(model, TranslationModel)
    reader = SourceReader(model.model)
    reader.train()
    assert model.model.training
    reader.eval()
    assert not model.model.training


def test_a_published_directory(base: Path, tmp_path: Path) -> None:
    """A Marian of transformers, with the tokenizer of a run."""
    model = firth.load(base)
    assert isinstance(model, TranslationModel)
    size = model.pieces.vocab_size
    shape: dict[str, Any] = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "vocab_size": size,
        "max_position_embeddings": 32,
    }
    heads: dict[str, Any] = {f"{side}_attention_heads": 2 for side in ("encoder", "decoder")}
    ffn: dict[str, Any] = {f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")}
    ids: dict[str, Any] = {"pad_token_id": 0, "eos_token_id": model.eos_id, "decoder_start_token_id": 0}
    MarianMTModel(MarianConfig(**shape, **heads, **ffn, **ids)).save_pretrained(tmp_path / "marian")
    model.pieces.save(tmp_path / "marian")
    given: Any = files(tmp_path, "classify", 12, 6)
    trained = firth.finetune("classify", base=tmp_path / "marian", **given, out=tmp_path / "run", epochs=1)
    assert firth.load(tmp_path / "run").predict(["A map."]) == trained.predict(["A map."])
