"""Directories of ModernBERT as Hugging Face writes them (Warner et al. 2024).

Rotary positions, norms first and without biases, gated feed-forward layers, no segments, and a first block that reads the
embeddings as they are, since those are normed already. Most layers look at a window; every third or so at the whole text.
"""

from collections.abc import Mapping
from pathlib import Path

from firth.core.errors import FirthError
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.published import EncoderFormat, activation_name, has_shape

_SHAPE: Mapping[str, object] = {  # what all of them are
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
_EMPTY = {"attention_dropout": 0.0, "embedding_dropout": 0.0, "mlp_dropout": 0.0}
_WHOLE, _LOCAL = "full_attention", "sliding_attention"


def held_by_modernbert(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
    """Whether transformers' ModernBERT computes what this model does."""
    alike = has_shape(config, _SHAPE) and config.embedding_dim is None and not config.num_tasks
    return config if alike and not config.share_layers and not config.published_as else None


def _read(data: Mapping[str, object], where: Path) -> Mapping[str, object]:
    """Which layers look at a window, and the bases of the angles, by the older and the newer spelling."""
    kinds, window = data.get("layer_types"), data.get("local_attention", 128)
    every = data.get("global_attn_every_n_layers", 3)
    count = data.get("num_hidden_layers", 22)
    if not isinstance(window, int) or not isinstance(every, int) or not isinstance(count, int) or every < 1:
        raise FirthError(f"{where}: damaged (local_attention, global_attn_every_n_layers); copy it again")
    if isinstance(kinds, list) and kinds:
        turns = [place for place, kind in enumerate(kinds) if kind == _WHOLE]
        every = turns[1] if len(turns) > 1 else len(kinds)
        if kinds != _kinds(len(kinds), every):
            raise FirthError(
                f"{where}: layers of this ModernBERT look at a window in an order that Firth does not know; it reads those of "
                "which the first and every so many after it look at the whole text"
            )
    local = count > 1 and every > 1  # the count is checked later: nothing here may grow with it
    _require_plain_angles(data, where)
    rope = data.get("rope_parameters")
    bases = {
        kind: one["rope_theta"]
        for kind, one in (rope.items() if isinstance(rope, dict) else ())
        if isinstance(one, dict) and "rope_theta" in one
    }
    base = bases.get(_WHOLE, data.get("global_rope_theta", 160_000.0))
    found: dict[str, object] = {"rotary_base": base}
    if local:
        near = bases.get(_LOCAL, data.get("local_rope_theta", 10_000.0))
        found |= {"window": window // 2, "global_every": every, "local_rotary_base": near}
    return found


def _require_plain_angles(data: Mapping[str, object], where: Path) -> None:
    """Rotary positions that are scaled, or that turn a part of each head alone, are not read; of both kinds of layers, in
    the older and the newer spelling."""
    rope = data.get("rope_parameters")
    kinds = rope.values() if isinstance(rope, dict) else ()
    for one in (data, rope, data.get("rope_scaling"), *kinds):
        said = one if isinstance(one, dict) else {}
        kind = said.get("rope_type", said.get("type", "default"))
        if kind not in (None, "default") or said.get("partial_rotary_factor") not in (None, 1):
            what = f"of type '{kind}'" if kind not in (None, "default") else "of a part of each head"
            raise FirthError(f"{where}: rotary positions {what}; of ModernBERT Firth reads the default ones")


def _kinds(count: int, every: int) -> list[str]:
    return [_LOCAL if layer % every else _WHOLE for layer in range(count)]


def _write(config: EncoderConfig) -> Mapping[str, object]:
    """The spelling that every version of transformers with this class reads."""
    return {
        "global_attn_every_n_layers": config.global_every if config.window else 1,
        "global_rope_theta": config.rotary_base,
        "local_rope_theta": config.local_rotary_base if config.window else config.rotary_base,
        **({"local_attention": 2 * config.window} if config.window else {}),
        "classifier_pooling": "mean",
        "classifier_activation": activation_name(config.activation),
        **_EMPTY,
        **{f"{name}_token_id": None for name in ("bos", "eos", "cls", "sep")},
    }


MODERNBERT = EncoderFormat(
    classes={"modernbert": "ModernBert"},
    title="ModernBERT",
    prefix="model",
    heads={
        "token_head": {"dense.weight": "head.dense.weight", "norm.weight": "head.norm.weight", "bias": "decoder.bias"}
    },
    architectures=(("token_head", "ForMaskedLM"), ("", "Model")),
    output="decoder.weight",
    outside={
        "embeddings.tokens": "embeddings.tok_embeddings",
        "embeddings.norm": "embeddings.norm",
        "final_norm": "final_norm",
    },
    layer="layers.{}",
    block={
        "attention_norm": "attn_norm",
        "attention.qkv": "attn.Wqkv",
        "attention.out": "attn.Wo",
        "ffn_norm": "mlp_norm",
        "ffn.inner": "mlp.Wi",
        "ffn.outer": "mlp.Wo",
    },
    settings={
        "vocab_size": "vocab_size",
        "hidden_dim": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "ffn_dim": "intermediate_size",
        "max_positions": "max_position_embeddings",
        "norm_eps": "norm_eps",
        "init_std": "initializer_range",
    },
    activation="hidden_activation",
    head_activation="classifier_activation",
    defaults={
        "vocab_size": 50368,
        "norm_eps": 1e-5,
        "num_hidden_layers": 22,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "classifier_activation": "gelu",
    },
    required={
        "attention_bias": False,
        "mlp_bias": False,
        "norm_bias": False,
        "decoder_bias": True,
        "tie_word_embeddings": True,
    },
    shape=_SHAPE,
    held=held_by_modernbert,
    reads=_read,
    writes=_write,
)
