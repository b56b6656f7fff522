"""Directories of T5 (Raffel et al. 2020), plain and gated: published names both ways.

Where queries, keys and values are one matrix with us they are three there. Nothing divides the scores there, so what
divides ours is put into the queries: matrices that are alike in size learn alike under Adam.
"""

from pathlib import Path
from typing import Any

import torch

from firth.core.errors import FirthError
from firth.core.files import save_tensors, write_json
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.published import ACTIVATIONS, Names, Published, Weights, activation_name, read_config, scatter
from firth.models.shared.translator_format import TranslatorFormat

_ACTIVATIONS = {**ACTIVATIONS, "silu": "silu"}
_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_dim": "d_model",
    "head_dim": "d_kv",
    "ffn_dim": "d_ff",
    "num_layers": "num_layers",
    "num_decoder_layers": "num_decoder_layers",
    "num_heads": "num_heads",
    "dropout_prob": "dropout_rate",
    "norm_eps": "layer_norm_epsilon",
    "max_positions": "n_positions",
    "attention_dropout_prob": "attention_dropout_rate",  # these two are ours alone: there one rate is for all
    "activation_dropout_prob": "activation_dropout_rate",
}
_FIXED = {  # what makes a Transformer a T5
    "positions": "relative",
    "norm": "rms",
    "norm_first": True,
    "bias": False,
    "embedding_scale": 1.0,
    "output_bias": False,
}
_BUCKETS = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
_REPEATED = {
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
}


def is_t5(config: EncoderDecoderConfig) -> bool:
    """Whether transformers' T5 can hold this model."""
    wanted = {**_FIXED, "target_vocab_size": None, "window": None}
    if config.gated and config.activation == "gelu":
        return False  # there a gated GELU is the tanh one
    scale = config.hidden_dim**-0.5 if config.tied_output else 1.0
    return all(getattr(config, name) == value for name, value in wanted.items()) and config.output_scale == scale


def _names(config: EncoderDecoderConfig) -> Names:
    """Every weight of ours with theirs."""
    found: dict[str, str | list[str]] = {"tokens.weight": "shared.weight"}
    if not config.tied_output:
        found["output.weight"] = "lm_head.weight"
    for side, num_layers in (("encoder", config.num_layers), ("decoder", config.num_decoder_layers)):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found[f"{side}_relative.weight"] = bias
        found[f"{side}_norm.weight"] = f"{side}.final_layer_norm.weight"
        for layer in range(num_layers):
            ours, theirs = f"{side}_blocks.{layer}", f"{side}.block.{layer}.layer"
            last = 2 if side == "decoder" else 1
            inner = [f"{theirs}.{last}.DenseReluDense.{name}.weight" for name in ("wi_0", "wi_1")]
            found |= {
                f"{ours}.attention.qkv.weight": [f"{theirs}.0.SelfAttention.{part}.weight" for part in "qkv"],
                f"{ours}.attention.out.weight": f"{theirs}.0.SelfAttention.o.weight",
                f"{ours}.attention_norm.weight": f"{theirs}.0.layer_norm.weight",
                f"{ours}.ffn.inner.weight": inner if config.gated else f"{theirs}.{last}.DenseReluDense.wi.weight",
                f"{ours}.ffn.outer.weight": f"{theirs}.{last}.DenseReluDense.wo.weight",
                f"{ours}.ffn_norm.weight": f"{theirs}.{last}.layer_norm.weight",
            }
            if side == "decoder":
                found |= {
                    f"{ours}.cross.query.weight": f"{theirs}.1.EncDecAttention.q.weight",
                    f"{ours}.cross.kv.weight": [f"{theirs}.1.EncDecAttention.{part}.weight" for part in "kv"],
                    f"{ours}.cross.out.weight": f"{theirs}.1.EncDecAttention.o.weight",
                    f"{ours}.cross_norm.weight": f"{theirs}.1.layer_norm.weight",
                }
    return found


def _scale_queries(weights: Weights, scale: float) -> Weights:
    """The same weights, queries multiplied; of ``qkv`` they are the first third."""
    found = dict(weights)
    for name, tensor in weights.items():
        if name.endswith("attention.qkv.weight"):
            query, rest = tensor.tensor_split([len(tensor) // 3])
            found[name] = torch.cat((query * scale, rest))
        elif name.endswith("cross.query.weight"):
            found[name] = tensor * scale
    return found


def save_t5(folder: Path, config: EncoderDecoderConfig, weights: Weights, ids: dict[str, int]) -> None:
    """``config.json`` and ``model.safetensors`` with the published names; ``ids`` of pad, eos and start."""
    scaled = _scale_queries(weights, config.query_scale)
    save_tensors(folder / "model.safetensors", scatter(scaled, _names(config)))
    activation = activation_name(config.activation, _ACTIVATIONS)
    data = {theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()}
    data |= {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "d_kv": config.head_dim or config.hidden_dim // config.num_heads,
        "feed_forward_proj": f"gated-{activation}".replace("gelu_new", "gelu") if config.gated else activation,
        "tie_word_embeddings": config.tied_output,
        "is_encoder_decoder": True,
        "pad_token_id": ids["pad_id"],
        "eos_token_id": ids["eos_id"],
        "decoder_start_token_id": ids["start_id"],
        **_BUCKETS,
    }
    write_json(folder / "config.json", data)


def config_from_json(data: Any, where: Path) -> tuple[EncoderDecoderConfig, dict[str, int]]:
    """The shape, and the ids of pad, eos and start. A gated GELU is the tanh one, as published."""
    words = str(data.get("feed_forward_proj", "relu"))
    gated = words.startswith("gated-")
    activation = _ACTIVATIONS.get("gelu_new" if words == "gated-gelu" else words.removeprefix("gated-"))
    strange = [name for name, value in _BUCKETS.items() if data.get(name, value) != value]
    if activation is None or strange:
        what = strange[0] if strange else f"feed_forward_proj {words}"
        raise FirthError(f"{where}: this T5 has another {what} than Firth reads")
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if data.get(theirs) is not None}
    given.setdefault("num_decoder_layers", given.get("num_layers", 6))
    for place in ("attention", "activation"):
        given.setdefault(f"{place}_dropout_prob", given.get("dropout_prob", 0.1))
    tied = data.get("tie_word_embeddings") is not False
    given |= {**_FIXED, "activation": activation, "gated": gated, "tied_output": tied}
    if tied:
        given["output_scale"] = given.get("hidden_dim", 512) ** -0.5
    pad = data.get("pad_token_id") or 0
    start = data.get("decoder_start_token_id")
    ids = {"pad_id": pad, "eos_id": data.get("eos_token_id", 1), "start_id": pad if start is None else start}
    return EncoderDecoderConfig.build(given, where), ids


def load_t5(folder: Path) -> tuple[EncoderDecoderConfig, Weights, dict[str, int]]:
    """Config, weights and ids; nothing missing, nothing left over."""
    config, ids = config_from_json(read_config(folder), folder / "config.json")
    published = Published(folder, "a T5")
    tensors = published.tensors
    if config.tied_output:
        tensors.pop("lm_head.weight", None)
    elif "lm_head.weight" not in tensors and "shared.weight" in tensors:  # transformers 5 ties them always
        tensors["lm_head.weight"] = tensors["shared.weight"]
    weights = _scale_queries(published.gather(_names(config)), 1 / config.query_scale)
    published.finish(_REPEATED.__contains__)
    return config, weights, ids


T5 = TranslatorFormat("t5", is_t5, save_t5, load_t5)
