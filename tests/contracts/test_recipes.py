"""What every recipe must do: train, save, load, give the same output; stop, resume, end with the same bytes."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import firth
from firth import api
from firth.assembly.pretrain import Pretraining, configure
from firth.core.configs import RunConfig
from firth.core.errors import Interrupted
from firth.corpus.format import Corpus
from firth.recipes.registry import RECIPES, find_recipe

TEXTS = ["The old doctor found a broken clock near the river.", "老师看见了一本书。", "An apple!"]
RECIPE = pytest.mark.parametrize("name", sorted(RECIPES))


def shrunk(name: str, settings: list[str], *more: str) -> RunConfig:
    return find_recipe(name).override([*settings, *more])


@RECIPE
def test_train_save_load_same_output(name: str, tiny_settings: list[str], corpus_folder: Path, tmp_path: Path) -> None:
    config = shrunk(name, tiny_settings, "steps=1")
    trained = firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "run")
    loaded = firth.load(tmp_path / "run")
    np.testing.assert_array_equal(trained.encode(TEXTS), loaded.encode(TEXTS))
    assert loaded.encode(TEXTS).shape == (3, config.model.hidden_dim)
    for layer in range(config.model.num_layers + 1):
        vectors = [loaded.encode([text], layer)[0] for text in TEXTS]
        np.testing.assert_allclose(loaded.encode(TEXTS, layer), vectors, atol=1e-5)  # batching changes nothing
    layers = loaded.layers(TEXTS[0])
    assert layers.hidden.shape == (config.model.num_layers + 1, len(layers.tokens), config.model.hidden_dim)
    np.testing.assert_allclose(layers.hidden[-1].mean(0), loaded.encode(TEXTS[0])[0], atol=1e-5)
    guesses = loaded.fill("The old [MASK] found a clock. [MASK]", top=3)
    assert [len(of_mask) for of_mask in guesses] == [3, 3]
    assert guesses == trained.fill("The old [MASK] found a clock. [MASK]", top=3)
    assert {"report.html", "metrics.jsonl", "firth.json", "config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }


@RECIPE
def test_the_run_holds_the_weights_of_the_last_step(
    name: str, tiny_settings: list[str], corpus_folder: Path, corpus: Corpus, tmp_path: Path
) -> None:
    config = shrunk(name, tiny_settings, "steps=2")
    api.pretrain(config, corpus=corpus_folder, out=tmp_path / "run")
    trainee = Pretraining(configure(config, corpus), corpus)
    trainee.module.load_state_dict(load_file(tmp_path / "run" / "checkpoints" / "step-2" / "model.safetensors"))
    loaded = firth.load(tmp_path / "run")
    ids = torch.randint(5, corpus.info.vocab_size, (2, 16))
    with torch.inference_mode():
        wanted = trainee.encoder.eval().last(ids)
        assert torch.equal(loaded.encoder.last(ids), wanted)
        table = trainee.encoder.embeddings.tokens.weight
        assert torch.equal(loaded.token_head(wanted, table), trainee.objective.head(wanted, table))


def stop(event: Mapping[str, Any]) -> None:
    if event["event"] == "train":
        signal.raise_signal(signal.SIGTERM)


@RECIPE
def test_resuming_is_exact(
    name: str, tiny_settings: list[str], corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with dropout, whose draws depend on the step alone."""
    config = shrunk(name, tiny_settings, "steps=4", "dropout_prob=0.1", "attention_dropout_prob=0.1")
    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    api.pretrain(config, corpus=corpus_folder, out=tmp_path / "whole")
    with pytest.raises(Interrupted):
        api.pretrain(config, corpus=corpus_folder, out=tmp_path / "parts", progress=stop)
    with pytest.raises(Interrupted):
        api.pretrain(resume=tmp_path / "parts", progress=stop)
    api.pretrain(resume=tmp_path / "parts")
    one, two = ((tmp_path / run / "model.safetensors").read_bytes() for run in ("whole", "parts"))
    assert one == two


def test_overwrite_replaces_a_run(tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path) -> None:
    api.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(firth.FirthError, match="exists already"):
        api.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run")
    with pytest.raises(firth.FirthError, match="cannot be used"):  # what cannot begin destroys nothing
        api.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run", overwrite=True, device="nonsense")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    api.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run", overwrite=True, seed=1)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != before
