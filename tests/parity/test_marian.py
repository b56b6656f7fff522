"""Marian directories both ways: transformers reads what Firth writes, and Firth what transformers writes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.decoding.beam import beam_search
from firth.decoding.steps import Beam
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder_decoder import EncoderDecoder, EncoderDecoderStepper
from firth.models.transformer.format import is_marian, load_marian, save_marian

V, TARGET_V = 41, 37
IDS = {"pad_id": 0, "eos_id": 1, "start_id": 0}


def theirs(folder: Path, **changes: Any) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=V,
        d_model=16,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=32,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        init_std=0.3,
        **changes,
    )
    torch.manual_seed(1)
    model = MarianMTModel(config).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:  # the sinusoids are not
            parameter.data += 0.05 * torch.randn_like(parameter)
    model.final_logits_bias += torch.randn_like(model.final_logits_bias)
    model.save_pretrained(folder)
    return model


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(2, V, (3, 8), generator=generator)
    tokens = torch.arange(8) < torch.tensor([8, 5, 3])[:, None]
    target = torch.randint(2, TARGET_V, (3, 6), generator=generator)
    target[:, 0] = 0
    return source.masked_fill(~tokens, 0), tokens, target


def compare(ours: EncoderDecoder, other: MarianMTModel) -> None:
    source, tokens, target = inputs()
    with torch.inference_mode():
        wanted = other(
            input_ids=source, attention_mask=tokens.long(), decoder_input_ids=target, output_hidden_states=True
        )
        found = ours.scores(ours.hidden(source, tokens, target))
        layers = ours(Inputs(source, tokens)).hidden
    torch.testing.assert_close(found, wanted.logits, atol=1e-4, rtol=0)
    for mine, other_layer in zip(layers, wanted.encoder_hidden_states, strict=True):
        torch.testing.assert_close(mine[tokens], other_layer[tokens], atol=1e-4, rtol=0)


def load(folder: Path) -> EncoderDecoder:
    config, weights, ids = load_marian(folder)
    assert ids == IDS
    model = EncoderDecoder(config)
    model.load_state_dict(weights)
    return model.eval()


@pytest.mark.parametrize(
    "changes",
    [
        {"scale_embedding": True, "activation_function": "swish"},
        {"scale_embedding": False, "activation_function": "relu"},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": TARGET_V, "activation_function": "gelu"},
    ],
    ids=["published", "plain", "own-tables"],
)
def test_firth_reads_what_transformers_writes(changes: dict[str, Any], tmp_path: Path) -> None:
    other = theirs(tmp_path, **changes)
    ours = load(tmp_path)
    compare(ours, other)
    again = tmp_path / "again"
    again.mkdir()
    save_marian(again, ours.config, dict(ours.state_dict()), IDS)
    compare(ours, MarianMTModel.from_pretrained(again).eval())


@pytest.mark.parametrize("target_size", [None, TARGET_V], ids=["shared", "own-tables"])
def test_transformers_reads_what_firth_writes(target_size: int | None, tmp_path: Path) -> None:
    config = EncoderDecoderConfig(
        vocab_size=V,
        target_vocab_size=target_size,
        hidden_dim=16,
        num_layers=2,
        num_decoder_layers=1,
        num_heads=2,
        ffn_dim=24,
        max_positions=32,
    )
    ours = EncoderDecoder(config).eval()
    ours.initialize(torch.Generator().manual_seed(0))
    for parameter in ours.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
    assert is_marian(config)
    save_marian(tmp_path, config, dict(ours.state_dict()), IDS)
    compare(ours, MarianMTModel.from_pretrained(tmp_path).eval())
    compare(load(tmp_path), MarianMTModel.from_pretrained(tmp_path).eval())


def test_the_same_beams(tmp_path: Path) -> None:
    other, (source, tokens, _) = theirs(tmp_path, scale_embedding=True), inputs()
    ours = load(tmp_path)
    with torch.inference_mode():
        wanted = other.generate(
            input_ids=source,
            attention_mask=tokens.long(),
            num_beams=4,
            max_new_tokens=10,
            length_penalty=0.0,
            early_stopping="never",
            do_sample=False,
        )
        found = beam_search(
            EncoderDecoderStepper(ours, source, tokens), [[0]] * 3, 10, 1, Beam(width=4, normalisation="none")
        )
    for row, mine in zip(wanted.tolist(), found, strict=True):
        assert mine[0].ids == [number for number in row[1:] if number not in (0, 1)]


def test_shapes_that_do_not_fit() -> None:
    for change in ({"norm_first": True}, {"positions": "learned"}, {"gated": True}, {"window": 3}):
        assert not is_marian(EncoderDecoderConfig().replace(**change))


def test_bad_directories(tmp_path: Path) -> None:
    theirs(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "gone")
    with pytest.raises(FirthError, match="no weights here"):
        load_marian(tmp_path)
    config = (tmp_path / "config.json").read_text().replace('"decoder_ffn_dim": 24', '"decoder_ffn_dim": 48')
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(FirthError, match="differ in decoder_ffn_dim"):
        load_marian(tmp_path)
