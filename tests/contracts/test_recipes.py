"""What every recipe must do: train, save, load, give the same output; stop, resume, end with the same bytes."""

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import firth
from firth.core.config import parse_settings
from firth.core.errors import Interrupted
from firth.core.registry import RunConfig, find_run_recipe, recipes, specs
from firth.core.run import Run
from firth.core.types import Inputs
from firth.corpus.format import Corpus
from firth.models.pretrain import configure
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.pretraining import find_pretraining

TEXTS = ["The old doctor found a broken clock near the river.", "老师看见了一本书。", "An apple!"]
LOOP = ["batch_size=4", "evaluation_batches=2", "evaluations=2", "checkpoints=2"]
TINY: dict[str, list[str]] = {
    "EncoderConfig": ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "max_positions=48", "seq_len=32"],
    "EncoderDecoderConfig": [
        "num_layers=2",
        "num_decoder_layers=1",
        "hidden_dim=32",
        "num_heads=2",
        "ffn_dim=64",
        "batch_tokens=128",
        "average=2",
    ],
    "corrupted_spans": [
        *("num_layers=2", "num_decoder_layers=1", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "seq_len=32"),
    ],
    "Seq2SeqConfig": ["hidden_dim=16", "batch_tokens=128"],
    "ElmoConfig": ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=12", "num_samples=32"],
    "RecurrentConfig": ["num_layers=2", "hidden_dim=32", "embed_dim=24", "seq_len=8"],
    "TwoStreamConfig": ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "seq_len=32", "memory_len=8"],
    "DecoderConfig": ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "max_positions=48", "seq_len=32"],
}
"""Settings that make the recipes of each kind of objective, or of network, small."""
DROPOUT: dict[str, list[str]] = {
    "EncoderConfig": ["dropout_prob=0.1", "attention_dropout_prob=0.1"],
    "EncoderDecoderConfig": ["dropout_prob=0.1", "attention_dropout_prob=0.1", "activation_dropout_prob=0.1"],
    "Seq2SeqConfig": ["dropout_prob=0.1"],
    "ElmoConfig": ["dropout_prob=0.1"],
    "RecurrentConfig": ["dropout_prob=0.1", "input_dropout_prob=0.1", "weight_drop_prob=0.1"],
    "TwoStreamConfig": ["dropout_prob=0.1"],
    "DecoderConfig": ["dropout_prob=0.1", "attention_dropout_prob=0.1"],
}
CORPUS: dict[str, str] = {"elmo": "words_folder", "transformer": "pairs_folder", "seq2seq": "pairs_folder"}
CORPUS["unilm-seq2seq"] = "wordpiece_pairs_folder"
CORPUS |= {"t5-tiny": "corpus_folder", "t5-mini": "bpe_folder", "t5-small": "unigram_folder"}
CORPUS |= {
    "t5-write": "pairs_folder",
    "gpt": "bpe_folder",
    "gpt-char": "characters_folder",
    "xlnet-mini": "unigram_folder",
}
"""The fixture that holds the corpus of a recipe or a model, where it is not ``corpus_folder``."""
RECIPES = sorted(name for name, spec in recipes().items() if spec.network and not spec.reads_images)
RECIPE = pytest.mark.parametrize("name", RECIPES)
SMALLEST = {next(iter(spec.recipes)) for spec in specs().values() if spec.network and not spec.reads_images}
"""The first recipe of each model."""
MASKED = pytest.mark.parametrize(
    "name", [name for name in RECIPES if name.startswith(("bert-", "ernie-", "unilm-")) and name not in CORPUS]
)


def shrunk(name: str, *more: str) -> RunConfig:
    config = find_run_recipe(name)
    small = TINY.get(config.objective.kind) or TINY[type(config.model).__name__]
    return config.override([*small, *LOOP, *more])


@pytest.fixture
def corpus_of(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """The corpus that a recipe trains on."""

    def find(name: str) -> Path:
        found: Path = request.getfixturevalue(
            CORPUS.get(name) or CORPUS.get(find_run_recipe(name).spec, "corpus_folder")
        )
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
    layers = loaded.layers(TEXTS[0])
    assert layers.hidden.shape[1:] == (len(layers.tokens), loaded.dim)
    for layer in range(len(layers.hidden)):
        vectors = [loaded.encode([text], layer)[0] for text in TEXTS]
        np.testing.assert_allclose(loaded.encode(TEXTS, layer), vectors, atol=1e-5)  # batching changes nothing
    np.testing.assert_allclose(layers.hidden[-1].mean(0), loaded.encode(TEXTS[0])[0], atol=1e-5)
    assert {"report.html", "metrics.jsonl", "firth.json"} <= {path.name for path in (tmp_path / "run").iterdir()}
    found, told = firth.evaluate(tmp_path / "run", num_texts=2), Run.open(tmp_path / "run").record.metrics
    if find_run_recipe(name).spec != "recurrent":  # their test is on all of the text, not on the same batches
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
    config = config.override(DROPOUT.get(type(config.model).__name__, []))
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


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("gpt-")])
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
