"""A GPT-2 directory of Firth is one of transformers, and the other way round."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

import firth
from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.types import Inputs
from firth.models.gpt.config import DecoderConfig
from firth.models.gpt.format import load_decoder, save_decoder
from firth.models.gpt.model import DecoderModel
from firth.models.gpt.network import Decoder

TINY = {"vocab_size": 50, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 20}


def theirs(folder: Path, **changes: object) -> GPT2LMHeadModel:
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(**{**TINY, **changes}, bos_token_id=0, eos_token_id=0)).eval()
    with torch.no_grad():  # biases and norms that are told apart
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model


def ours(folder: Path) -> Decoder:
    config, weights = load_decoder(folder)
    model = Decoder(config).eval()
    model.load_state_dict(weights)
    return model


def compare(published: GPT2LMHeadModel, model: Decoder) -> None:
    ids = torch.randint(0, 50, (3, 17), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        wanted = published(ids, output_hidden_states=True)
        layers = model(Inputs(ids))
        np.testing.assert_allclose(layers.hidden, torch.stack(wanted.hidden_states), atol=1e-4)
        np.testing.assert_allclose(model.scores(model.last(Inputs(ids))), wanted.logits, atol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"n_inner": 40}, {"activation_function": "relu"}])
def test_their_directory_is_read(tmp_path: Path, changes: dict[str, object]) -> None:
    compare(theirs(tmp_path, **changes), ours(tmp_path))


def test_our_directory_is_read(tmp_path: Path) -> None:
    config = DecoderConfig(vocab_size=50, hidden_dim=24, num_layers=3, num_heads=4, ffn_dim=40, max_positions=20)
    torch.manual_seed(3)
    model = Decoder(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    save_decoder(tmp_path, config, dict(model.state_dict()), 0)
    published, told = GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    compare(published.eval(), model)
    assert load_decoder(tmp_path)[0] == config


def test_a_run_is_a_directory_of_theirs(gpt_folder: Path) -> None:
    """Tokenizer and weights: the same text gives the same numbers and the same continuation."""
    loaded = firth.load(gpt_folder)
    assert isinstance(loaded, DecoderModel)
    tokenizer = AutoTokenizer.from_pretrained(gpt_folder)
    published = GPT2LMHeadModel.from_pretrained(gpt_folder).eval()
    text = "The old doctor found 一本书, naïve \U0001f600!\n  twice"
    ids = tokenizer(text)["input_ids"]
    assert ids == loaded.pieces.encode(text).ids.tolist()
    assert tokenizer.decode(ids) == loaded.pieces.decode(ids) == text.lower()
    with torch.inference_mode():
        hidden = published(torch.tensor([ids]), output_hidden_states=True).hidden_states
    np.testing.assert_allclose(loaded.layers(text).hidden, torch.stack(hidden)[:, 0], atol=1e-4)
    start = torch.tensor([[tokenizer.eos_token_id, *tokenizer("the old")["input_ids"]]])
    for settings, beams in (
        ({"num_beams": 1}, {"temperature": 0}),
        ({"num_beams": 3, "length_penalty": 0.0}, {"beams": 3, "length_penalty": 0.0}),
    ):
        wanted = published.generate(
            start,
            attention_mask=torch.ones_like(start),
            do_sample=False,
            max_new_tokens=12,
            suppress_tokens=[number for number in loaded.pieces.special_ids if number != tokenizer.eos_token_id],
            pad_token_id=tokenizer.eos_token_id,
            early_stopping="never",
            **settings,
        )
        found = loaded.generate("the old", max_tokens=12, **beams)[0]
        assert found.text == tokenizer.decode(wanted[0], skip_special_tokens=True)


def test_what_is_refused(tmp_path: Path) -> None:
    theirs(tmp_path)
    data = read_json(tmp_path / "config.json")
    for change, message in (
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"activation_function": "silu"}, "silu"),
        ({"n_layer": 4}, "'h.3.ln_1.weight' is missing"),
        ({"n_layer": 2}, "not part of a GPT-2"),
        ({"model_type": "bert"}, "none of the decoders that Firth reads"),
    ):
        write_json(tmp_path / "config.json", {**data, **change})
        with pytest.raises(FirthError, match=message):
            load_decoder(tmp_path)
    write_json(tmp_path / "config.json", data)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FirthError, match="no weights here"):
        load_decoder(tmp_path)
