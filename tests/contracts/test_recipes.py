"""What every recipe must do: train, save, load, give the same output; stop, resume, end with the same bytes."""

import signal
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import firth
from chinese_names import metrics_of_run, without_kind, without_metric
from firth.core.config import Config, parse_settings
from firth.core.errors import Interrupted
from firth.core.registry import RunConfig, find_run_recipe, recipes, specs
from firth.core.run import Run
from firth.core.types import Inputs
from firth.corpus.format import Corpus
from firth.models.pretrain import configure
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.pretraining import find_pretraining
from model_abilities import check_abilities

TEXTS = ["The old doctor found a broken clock near the river.", "老师看见了一本书。", "An apple!"]
LOOP = ["batch_size=4", "evaluation_batches=2", "evaluations=2", "checkpoints=2"]
SMALL: dict[str, str] = {
    "num_layers": "2",
    "num_decoder_layers": "1",
    "hidden_dim": "32",
    "embedding_dim": "24",
    "num_heads": "2",
    "ffn_dim": "64",
    "max_positions": "48",
    "seq_len": "32",
    "memory_len": "8",
    "batch_tokens": "128",
    "filters": "[[1,4],[3,8]]",
    "projection_dim": "8",
    "cell_dim": "16",
    "num_samples": "32",
}
"""Small values of the settings that a network or an objective may have; those that a recipe leaves empty stay so."""
FOLDERS = {"wordpiece": "corpus_folder", "pairs": "pairs_folder"}
"""The fixtures that hold a kind of corpus, where their names do not say it."""
RECIPES = sorted(name for name, spec in recipes().items() if spec.network and not spec.reads_images)
RECIPE = pytest.mark.parametrize("name", RECIPES)
SMALLEST = {next(iter(spec.recipes)) for spec in specs().values() if spec.network and not spec.reads_images}
"""The first recipe of each model."""
MASKED = pytest.mark.parametrize(
    "name",
    [
        name
        for name in RECIPES
        if "fill" in recipes()[name].abilities
        and recipes()[name].network is EncoderConfig
        and not find_pretraining(find_run_recipe(name)).reads_pairs
    ],
)


def values_of(config: Config) -> dict[str, object]:
    """All settings by their last names."""
    return {key.rpartition(".")[2]: reduce(getattr, key.split("."), config) for key in config.keys()}


def shrunk(name: str, *more: str) -> RunConfig:
    config = find_run_recipe(name)
    have = values_of(config)
    small = [f"{key}={value}" for key, value in SMALL.items() if have.get(key) is not None]
    averaged = ["average=2"] if recipes()[name].tokens == ("pairs",) else []
    return config.override([*small, *LOOP, *averaged, "needs_base=false", *more])


def kind_of_corpus(name: str) -> str:
    """Recipes of a model take turns with the kinds of corpus that it trains on."""
    spec, config = recipes()[name], find_run_recipe(name)
    if find_pretraining(config).reads_pairs:
        return "pairs" if spec.tokens == ("pairs",) else "wordpiece_pairs"
    kinds = config.tokens or spec.tokens
    return kinds[list(spec.recipes).index(name) % len(kinds)]


@pytest.fixture
def corpus_of(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """The corpus that a recipe trains on."""

    def find(name: str) -> Path:
        kind = kind_of_corpus(name)
        found: Path = request.getfixturevalue(FOLDERS.get(kind, f"{kind}_folder"))
        return found

    return find


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.each_model if name in SMALLEST else ()) for name in RECIPES]
)
def test_train_save_load_same_output(name: str, corpus_of: Callable[[str], Path], tmp_path: Path) -> None:
    trained = firth.pretrain(shrunk(name, "steps=1"), corpus=corpus_of(name), out=tmp_path / "run")
    loaded = firth.load(tmp_path / "run")
    np.testing.assert_array_equal(trained.encode(TEXTS), loaded.encode(TEXTS))
    assert loaded.encode(TEXTS).shape == (3, loaded.dim)
    check_abilities(loaded)
    layers = loaded.layers(TEXTS[0])
    assert layers.hidden.shape[1:] == (len(layers.tokens), loaded.dim)
    for layer in range(len(layers.hidden)):
        vectors = [loaded.encode([text], layer)[0] for text in TEXTS]
        np.testing.assert_allclose(loaded.encode(TEXTS, layer), vectors, atol=1e-5)  # batching changes nothing
    np.testing.assert_allclose(layers.hidden[-1].mean(0), loaded.encode(TEXTS[0])[0], atol=1e-5)
    assert {"report.html", "metrics.jsonl", "firth.json"} <= {path.name for path in (tmp_path / "run").iterdir()}
    found, told = firth.evaluate(tmp_path / "run", num_texts=2), Run.open(tmp_path / "run").record.metrics
    numbers = {name for name, value in found.items() if not isinstance(value, str)}
    assert without_metric(metrics_of_run(tmp_path / "run") | numbers) == []  # the Chinese page has a name for each
    assert without_kind([loaded.kind]) == []
    streams = getattr(find_run_recipe(name).objective, "carry_state", False)
    if not streams:  # whose evaluation is on all of the text, not on the same batches
        assert found["loss"] == pytest.approx(told["loss"], rel=1e-5)  # heads and all are restored


@MASKED
def test_masked_models_fill(name: str, corpus_folder: Path, tmp_path: Path) -> None:
    trained = firth.pretrain(shrunk(name, "steps=1"), corpus=corpus_folder, out=tmp_path / "run")
    loaded = firth.load(tmp_path / "run")
    guesses = loaded.fill("The old [MASK] found a clock. [MASK]", top=3)
    assert [len(of_mask) for of_mask in guesses] == [3, 3]
    assert guesses == trained.fill("The old [MASK] found a clock. [MASK]", top=3)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in (tmp_path / "run").iterdir()}


@MASKED
def test_the_run_holds_the_weights_of_the_last_step(
    name: str, corpus_folder: Path, corpus: Corpus, tmp_path: Path
) -> None:
    config = shrunk(name, "steps=2")
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "run")
    trainable = find_pretraining(config)(configure(config, corpus), corpus)
    trainable.module.load_state_dict(load_file(tmp_path / "run" / "checkpoints" / "step-2" / "model.safetensors"))
    loaded = firth.load(tmp_path / "run")
    assert isinstance(loaded, EncoderModel)
    assert loaded.token_head is not None
    ids = torch.randint(5, corpus.info.vocab_size, (2, 16))
    with torch.inference_mode():
        wanted = trainable.model.eval().last(Inputs(ids))
        assert torch.equal(loaded.encoder.last(Inputs(ids)), wanted)
        table = trainable.model.embeddings.tokens.weight
        assert torch.equal(loaded.token_head(wanted, table), trainable.objective.head(wanted, table))


def stop(event: Mapping[str, Any]) -> None:
    if event["event"] == "train":
        signal.raise_signal(signal.SIGTERM)


@RECIPE
def test_resuming_is_exact(
    name: str, corpus_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with dropout, whose draws depend on the step alone."""
    config = shrunk(name, "steps=4")
    config = config.override([f"{key}=0.1" for key in values_of(config) if key.endswith(("dropout_prob", "drop_prob"))])
    corpus_folder = corpus_of(name)
    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "whole")
    with pytest.raises(Interrupted):
        firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "parts", progress=stop)
    with pytest.raises(Interrupted):
        firth.pretrain(resume=tmp_path / "parts", progress=stop)
    firth.pretrain(resume=tmp_path / "parts")
    one, two = (
        (tmp_path / run / "checkpoints" / "step-4" / "model.safetensors").read_bytes() for run in ("whole", "parts")
    )
    assert one == two
    assert Run.open(tmp_path / "whole").record.checksums == Run.open(tmp_path / "parts").record.checksums


def test_overwrite_replaces_a_run(tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path) -> None:
    firth.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(firth.FirthError, match="exists already"):
        firth.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run")
    with pytest.raises(firth.FirthError, match="cannot be used"):  # what cannot begin destroys nothing
        firth.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run", overwrite=True, device="nonsense")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    firth.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run", overwrite=True, seed=1)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != before


@pytest.mark.parametrize("name", [name for name in recipes() if recipes()[name].name == "gpt"])
def test_every_position_of_a_decoder_is_learned(name: str) -> None:
    config: Any = find_run_recipe(name)
    assert config.objective.seq_len == config.model.max_positions


def test_positions_that_no_row_had(
    tiny_config: RunConfig, corpus_folder: Path, run_folder: Path, tmp_path: Path
) -> None:
    """Rows of 32 tokens train 32 of 48 positions; the others repeat them. What comes with a base stays."""
    first = load_file(run_folder / "model.safetensors")["bert.embeddings.position_embeddings.weight"]
    assert torch.equal(first[32:], first[:16])
    settings = ["seq_len=16", "steps=1", "batch_size=4", "evaluations=1", "weight_decay=0"]
    firth.pretrain(
        "bert-continue", corpus=corpus_folder, out=tmp_path / "run", base=run_folder, settings=parse_settings(settings)
    )
    second = load_file(tmp_path / "run" / "model.safetensors")["bert.embeddings.position_embeddings.weight"]
    assert torch.equal(second[16:], first[16:])
    assert not torch.equal(second[:16], first[:16])
