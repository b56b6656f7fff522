"""Directories of transformers' Marian: the Transformer as published, with sinusoids and norms after.

Where queries, keys and values are one matrix with us they are three there.
"""

from pathlib import Path
from typing import Any

import torch

from firth.core.errors import FirthError
from firth.core.files import save_tensors, write_json
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.published import ACTIVATIONS, Names, Published, Weights, activation_name, read_config, scatter
from firth.models.shared.translator_format import TranslatorFormat

_ACTIVATIONS = {**ACTIVATIONS, "swish": "silu", "silu": "silu"}
_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_dim": "d_model",
    "num_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "num_heads": "encoder_attention_heads",
    "ffn_dim": "encoder_ffn_dim",
    "max_positions": "max_position_embeddings",
    "dropout_prob": "dropout",
    "attention_dropout_prob": "attention_dropout",
    "activation_dropout_prob": "activation_dropout",
}
_IDS = {"pad_id": "pad_token_id", "eos_id": "eos_token_id", "start_id": "decoder_start_token_id"}
_REPEATED = {
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
}


def is_marian(config: EncoderDecoderConfig) -> bool:
    """Whether transformers' Marian can hold this model."""
    plain = EncoderDecoderConfig().replace(
        **{name: getattr(config, name) for name in _SETTINGS},
        target_vocab_size=config.target_vocab_size,
        activation=config.activation,
        output_bias=config.output_bias,
        embedding_scale=config.embedding_scale,
    )
    scales = (None, 1.0, config.hidden_dim**0.5)
    even = config.hidden_dim % config.num_heads == 0
    return plain == config and config.embedding_scale in scales and even


def _names(config: EncoderDecoderConfig) -> Names:
    """Every weight of ours with theirs (two or three of them where ours are joined)."""
    found: dict[str, str | list[str]] = {}
    if config.target_vocab_size is None:
        found["tokens.weight"] = "model.shared.weight"
    else:
        found["tokens.weight"] = "model.encoder.embed_tokens.weight"
        found["target_tokens.weight"] = "model.decoder.embed_tokens.weight"
    sides = (("encoder", config.num_layers), ("decoder", config.num_decoder_layers))
    for side, num_layers in sides:
        for layer in range(num_layers):
            ours, theirs = f"{side}_blocks.{layer}", f"model.{side}.layers.{layer}"
            parts: dict[str, str | list[str]] = {
                "attention.qkv": [f"self_attn.{part}_proj" for part in "qkv"],
                "attention.out": "self_attn.out_proj",
                "attention_norm": "self_attn_layer_norm",
                "ffn.inner": "fc1",
                "ffn.outer": "fc2",
                "ffn_norm": "final_layer_norm",
            }
            if side == "decoder":
                parts |= {
                    "cross.query": "encoder_attn.q_proj",
                    "cross.kv": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
                    "cross.out": "encoder_attn.out_proj",
                    "cross_norm": "encoder_attn_layer_norm",
                }
            for kind in ("weight", "bias"):
                for own, names in parts.items():
                    found[f"{ours}.{own}.{kind}"] = (
                        f"{theirs}.{names}.{kind}"
                        if isinstance(names, str)
                        else [f"{theirs}.{name}.{kind}" for name in names]
                    )
    return found


def save_marian(folder: Path, config: EncoderDecoderConfig, weights: Weights, ids: dict[str, int]) -> None:
    """``config.json``, ``generation_config.json`` and ``model.safetensors`` with the published names;
    ``ids`` are those of pad, eos and start."""
    tensors = scatter(weights, _names(config))
    size = config.target_vocab_size or config.vocab_size
    tensors["final_logits_bias"] = weights["output_bias"][None] if config.output_bias else torch.zeros(1, size)
    save_tensors(folder / "model.safetensors", tensors)
    special = {theirs: ids[ours] for ours, theirs in _IDS.items()}
    data = {theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()}
    data |= {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "decoder_vocab_size": size,
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.ffn_dim,
        "activation_function": activation_name(config.activation, _ACTIVATIONS),
        "scale_embedding": config.embedding_scale != 1.0,
        "share_encoder_decoder_embeddings": config.target_vocab_size is None,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
        **special,
    }
    write_json(folder / "config.json", data)
    write_json(folder / "generation_config.json", {**special, "max_length": config.max_positions, "num_beams": 5})


def config_from_json(data: Any, where: Path) -> tuple[EncoderDecoderConfig, dict[str, int]]:
    """The shape, and the ids of pad, eos and start."""
    activation = _ACTIVATIONS.get(str(data.get("activation_function", "gelu")))
    pairs = (("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim"))
    uneven = [second for first, second in pairs if data.get(first) != data.get(second)]
    if activation is None or uneven or not data.get("tie_word_embeddings", True):
        reason = f"sides that differ in {uneven[0]}" if uneven else f"activation {data.get('activation_function')}"
        reason = reason if data.get("tie_word_embeddings", True) else "an untied output table"
        raise FirthError(f"{where}: this Marian has {reason}, which Firth does not read")
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if theirs in data}
    given |= {"activation": activation, "embedding_scale": None if data.get("scale_embedding") else 1.0}
    if not data.get("share_encoder_decoder_embeddings", True):
        given["target_vocab_size"] = data.get("decoder_vocab_size") or data.get("vocab_size")
    ids = {ours: data.get(theirs) for ours, theirs in _IDS.items()}
    missing = [name for name, number in ids.items() if not isinstance(number, int)]
    if missing:
        raise FirthError(f"{where}: {_IDS[missing[0]]} is missing; add it, it is needed to translate")
    return EncoderDecoderConfig.build(given, where), {name: int(number or 0) for name, number in ids.items()}


def load_marian(folder: Path) -> tuple[EncoderDecoderConfig, Weights, dict[str, int]]:
    """Config, weights and ids; nothing missing, nothing left over."""
    config, ids = config_from_json(read_config(folder), folder / "config.json")
    published = Published(folder, "a Marian")
    weights = published.gather(_names(config))
    size = config.target_vocab_size or config.vocab_size
    weights["output_bias"] = published.tensors.pop("final_logits_bias", torch.zeros(1, size)).reshape(-1)
    published.finish(_REPEATED.__contains__)
    return config, weights, ids


MARIAN = TranslatorFormat("marian", is_marian, save_marian, load_marian)
