"""Weights in several files, as transformers writes them: the same numbers as there, and what does not fit is refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, LlamaConfig, LlamaForCausalLM

import firth
from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.models.gpt.format import load_decoder
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.published import load_encoder
from published_models import write_model

INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa of several files with its tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "roberta"
    model = write_model(folder, "roberta")
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    assert not (folder / "model.safetensors").exists()
    return folder


@torch.inference_mode()
def test_every_layer_is_that_of_transformers(sharded: Path) -> None:
    ours, theirs = firth.load(sharded), AutoModel.from_pretrained(sharded, attn_implementation="eager").eval()
    assert isinstance(ours, EncoderModel)
    ids = torch.arange(5, 25)[None]
    wanted = theirs(input_ids=ids, output_hidden_states=True).hidden_states
    for layer, hidden in enumerate(ours.encoder(Inputs(ids)).hidden):
        assert float((wanted[layer] - hidden).abs().max()) < 1e-4, layer


def test_a_decoder(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=99, num_key_value_heads=2, max_position_embeddings=32, **sizes))
    for name, size in (("one", "5GB"), ("several", "5KB")):
        model.save_pretrained(tmp_path / name, max_shard_size=size)
    (_, one), (_, several) = load_decoder(tmp_path / "one"), load_decoder(tmp_path / "several")
    assert one.keys() == several.keys()
    assert all(torch.equal(one[name], several[name]) for name in one)


def _index(folder: Path, change: object) -> None:
    path = folder / INDEX
    value = json.loads(path.read_text())
    assert callable(change)
    path.write_text(json.dumps(change(value) or value))


def _second_has_more(folder: Path) -> None:
    first, second = sorted(folder.glob("model-*.safetensors"))[:2]
    save_file({**load_file(second), **load_file(first)}, second, {"format": "pt"})


DAMAGES = {
    "is missing in it": lambda folder: _index(
        folder, lambda value: value["weight_map"].update({"x": sorted(set(value["weight_map"].values()))[0]})
    ),
    "does not say so": _second_has_more,
    "missing, though": lambda folder: sorted(folder.glob("model-*.safetensors"))[1].unlink(),
    "not the name of a": lambda folder: _index(
        folder, lambda value: value["weight_map"].update({"x": "../other/model.safetensors"})
    ),
    "is not the name": lambda folder: _index(folder, lambda value: value["weight_map"].update({"x": "config.json"})),
    "'7' is not": lambda folder: _index(folder, lambda value: value["weight_map"].update({"x": 7})),
    "does not say which": lambda folder: (folder / INDEX).write_text('{"weight_map": []}'),
    "not an object": lambda folder: (folder / INDEX).write_text("[]"),
    "is missing; is the file whole": lambda folder: _index(
        folder, lambda value: {"weight_map": dict(_without_first_file(folder, value["weight_map"]))}
    ),
}


def _without_first_file(folder: Path, listed: dict[str, str]) -> list[tuple[str, str]]:
    first = min(listed.values())
    return [(name, file) for name, file in listed.items() if file != first]


@pytest.mark.parametrize("said", DAMAGES)
def test_what_does_not_fit_is_refused(sharded: Path, said: str, tmp_path: Path) -> None:
    shutil.copytree(sharded, tmp_path / "model")
    DAMAGES[said](tmp_path / "model")
    with pytest.raises(FirthError, match=said):
        load_encoder(tmp_path / "model")
