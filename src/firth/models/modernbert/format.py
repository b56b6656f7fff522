"""Directories of ModernBERT as Hugging Face writes them (Warner et al. 2024), both ways, strictly.

Rotary positions, norms first and without biases, gated feed-forward layers, no segments, and a first block that reads the
embeddings as they are, since those are normed already. Every layer looks at the whole text: windows are refused.
"""

from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import read_json, save_tensors, write_json
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder_format import EncoderFormat
from firth.models.shared.published import ACTIVATIONS, Published, Weights, activation_name, scatter

MODEL_TYPE = "modernbert"
HEAD = "token_head"
_OUTSIDE = {
    "embeddings.tokens.weight": "model.embeddings.tok_embeddings.weight",
    "embeddings.norm.weight": "model.embeddings.norm.weight",
    "final_norm.weight": "model.final_norm.weight",
}
_BLOCK = {
    "attention_norm": "attn_norm",
    "attention.qkv": "attn.Wqkv",
    "attention.out": "attn.Wo",
    "ffn_norm": "mlp_norm",
    "ffn.inner": "mlp.Wi",
    "ffn.outer": "mlp.Wo",
}
_HEAD = {"dense.weight": "head.dense.weight", "norm.weight": "head.norm.weight", "bias": "decoder.bias"}
_TIED = "decoder.weight"
_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "ffn_dim": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "norm_eps": "norm_eps",
    "init_std": "initializer_range",
    "rotary_base": "global_rope_theta",
}
_SHAPE = {  # what all of them are
    "positions": "rotary",
    "norm": "layer",
    "norm_first": True,
    "first_norm": False,
    "gated": True,
    "bias": False,
    "num_segments": 0,
    "dropout_prob": 0.0,
    "attention_dropout_prob": 0.0,
}
_DEFAULTS = {"hidden_activation": "gelu", "norm_eps": 1e-5, "global_rope_theta": 160_000.0}  # theirs
_FIXED = {
    "attention_bias": False,
    "mlp_bias": False,
    "norm_bias": False,
    "decoder_bias": True,
    "tie_word_embeddings": True,
}
_EMPTY = {"attention_dropout": 0.0, "embedding_dropout": 0.0, "mlp_dropout": 0.0}


def held_by_modernbert(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
    """Whether transformers' ModernBERT computes what this model does."""
    alike = all(getattr(config, name) == value for name, value in _SHAPE.items())
    return config if alike and config.embedding_dim is None and not config.num_tasks else None


def _names(num_layers: int) -> dict[str, str]:
    """Every name of ours with theirs."""
    found = dict(_OUTSIDE)
    for layer in range(num_layers):
        for ours, theirs in _BLOCK.items():
            found[f"blocks.{layer}.{ours}.weight"] = f"model.layers.{layer}.{theirs}.weight"
    del found["blocks.0.attention_norm.weight"]
    return found


def config_to_json(config: EncoderConfig, with_head: bool, pad_id: int) -> dict[str, object]:
    """The spelling that every version of transformers with this class reads."""
    return {
        "architectures": ["ModernBertForMaskedLM" if with_head else "ModernBertModel"],
        "model_type": MODEL_TYPE,
        **{theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()},
        "hidden_activation": activation_name(config.activation),
        "global_attn_every_n_layers": 1,
        "local_rope_theta": config.rotary_base,
        "classifier_pooling": "mean",
        **_FIXED,
        **_EMPTY,
        "pad_token_id": pad_id,
        **{f"{name}_token_id": None for name in ("bos", "eos", "cls", "sep")},
    }


def config_from_json(data: object, where: Path) -> EncoderConfig:
    if not isinstance(data, dict) or data.get("model_type") != MODEL_TYPE:
        raise FirthError(f"{where}: not the description of a ModernBERT; copy it again")
    layers = data.get("layer_types") or []
    every = data.get("global_attn_every_n_layers", 1 if layers else 3)
    if every != 1 or any(kind != "full_attention" for kind in layers):
        raise FirthError(
            f"{where}: some layers of this ModernBERT look at a window only, which Firth does not read; "
            "it reads those whose layers look at the whole text (global_attn_every_n_layers=1)"
        )
    other = [name for name, value in _FIXED.items() if data.get(name, value) != value]
    activation = ACTIVATIONS.get(str(data.get("hidden_activation", _DEFAULTS["hidden_activation"])))
    if other or activation is None:
        raise FirthError(
            f"{where}: this ModernBERT has settings that Firth does not know ({', '.join(other) or 'hidden_activation'})"
        )
    rope = data.get("rope_parameters")  # where newer versions of transformers write it
    if isinstance(rope, dict) and isinstance(rope.get("full_attention"), dict):
        data = {"global_rope_theta": rope["full_attention"].get("rope_theta"), **data}
    data = {**_DEFAULTS, **data}
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if theirs in data}
    return EncoderConfig.build({**_SHAPE, **given, "activation": activation}, where)


def save_modernbert(
    folder: Path, config: EncoderConfig, encoder: Weights, heads: dict[str, Weights], pad_id: int
) -> None:
    """``config.json`` and ``model.safetensors`` with the published names."""
    tensors = scatter(encoder, _names(config.num_layers))
    if HEAD in heads:
        tensors |= scatter(heads[HEAD], _HEAD)
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", config_to_json(config, HEAD in heads, pad_id))


def load_modernbert(folder: Path) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    """Config, the encoder's weights, and the head if it is there; nothing missing, nothing left over."""
    config = config_from_json(read_json(folder / "config.json"), folder / "config.json")
    published = Published(folder, "a ModernBERT", _spelling)
    encoder = published.gather(_names(config.num_layers))
    published.drop_tied(_TIED, encoder["embeddings.tokens.weight"])
    heads = {HEAD: published.gather(_HEAD)} if any(name in published.tensors for name in _HEAD.values()) else {}
    published.finish()
    return config, encoder, heads


def _spelling(name: str) -> str:
    """ModernBertModel by itself is written without the prefix."""
    return f"model.{name}" if name.startswith(("embeddings.", "layers.", "final_norm.")) else name


MODERNBERT = EncoderFormat(
    model_type=MODEL_TYPE,
    title="ModernBERT",
    heads={HEAD: _HEAD},
    architectures=(),
    output=_TIED,
    held=held_by_modernbert,
    save=save_modernbert,
    load=load_modernbert,
)
