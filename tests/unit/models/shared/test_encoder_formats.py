"""Directories of shared networks: the registry says which model holds them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from firth.core import registry
from firth.core.errors import FirthError
from firth.core.registry import ModelSpec, specs
from firth.models.shared.configs import EncoderConfig, EncoderDecoderConfig
from firth.models.shared.encoder import Encoder, ReplacedHead, TokenHead
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.shared.model import Model
from firth.models.shared.published import EncoderFormat, load_encoder, save_encoder
from firth.models.shared.translator_format import build_translator, load_translator

TINY = EncoderConfig(vocab_size=20, hidden_dim=8, num_layers=1, num_heads=2, ffn_dim=8, max_positions=8)


def format_of(model: str) -> EncoderFormat:
    found = specs()[model].encoder_format
    assert found is not None
    return found()


def saved(folder: Path, config: EncoderConfig, head: str = "token_head") -> str:
    """The ``model_type`` of the directory that holds such a model; what is read is what was written."""
    parts = {"token_head": TokenHead, "replaced_head": ReplacedHead}
    encoder = dict(Encoder(config).state_dict())
    heads = {head: dict(parts[head](config).state_dict())}
    save_encoder(folder, config, encoder, heads, 0)
    _, weights, found = load_encoder(folder)
    assert weights.keys() == encoder.keys()
    assert all(torch.equal(weights[name], encoder[name]) for name in encoder)
    assert found[head].keys() == heads[head].keys()
    kind: str = json.loads((folder / "config.json").read_text())["model_type"]
    return kind


@pytest.mark.parametrize(
    ("settings", "head", "model_type"),
    [
        ({}, "token_head", "bert"),
        ({"num_segments": 6}, "token_head", "bert"),
        ({"num_tasks": 3}, "token_head", "ernie"),
        ({"embedding_dim": 4}, "token_head", "electra"),
        ({}, "replaced_head", "electra"),
        ({"embedding_dim": 4, "activation": "relu"}, "token_head", "firth-encoder"),
        ({"embedding_dim": 4, "num_tasks": 3}, "token_head", "firth-encoder"),
        ({"positions": "rotary"}, "token_head", "firth-encoder"),
        ({"norm_first": True}, "token_head", "firth-encoder"),
    ],
)
def test_the_first_model_that_can_hold_an_encoder(
    settings: dict[str, object], head: str, model_type: str, tmp_path: Path
) -> None:
    assert saved(tmp_path, TINY.replace(**settings), head) == model_type


def test_one_format_holds_a_model() -> None:
    """So their order in the registry does not matter."""
    formats = [format_of(model) for model in ("bert", "ernie", "electra")]
    for settings in ({}, {"num_tasks": 3}, {"embedding_dim": 4}, {"gated": True}):
        for heads in ({"token_head"}, {"replaced_head"}, {"token_head", "pooler", "pair_head"}):
            config = TINY.replace(**settings)
            assert sum(kind.holds(config, heads) is not None for kind in formats) <= 1


def test_a_format_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that joins brings the names of its directory with it."""

    def held(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
        return config if config.embedding_dim and config.activation == "relu" else None

    def encoder_format() -> EncoderFormat:
        return replace(format_of("electra"), classes={"toy": "Toy"}, title="toy", held=held, head_activation="")

    def load(folder: Path) -> Model:
        raise NotImplementedError

    spec = ModelSpec(name="toy", load=load, model_types=("toy",), encoder_format=encoder_format)
    monkeypatch.setitem(registry._added, "toy", spec)
    assert saved(tmp_path, TINY.replace(embedding_dim=4, activation="relu")) == "toy"
    assert saved(tmp_path, TINY.replace(embedding_dim=4)) == "electra"


def test_other_directories(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(FirthError, match=r"type 'gpt2', which is no encoder like BERT; Firth reads bert"):
        load_encoder(tmp_path)
    with pytest.raises(FirthError, match=r"type 'gpt2', which is no translator; name a run of one"):
        load_translator(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(FirthError, match="copy it again"):
        load_encoder(tmp_path)


def test_the_shared_translator() -> None:
    config = EncoderDecoderConfig(vocab_size=20, hidden_dim=8, num_layers=1, num_decoder_layers=1, num_heads=2)
    assert isinstance(build_translator(config), EncoderDecoder)
