"""Directories of GPT-2 and of Llama's shape (Llama, Mistral, Qwen 2 and 3) as Hugging Face writes them: the published
names, both ways, strictly.

GPT-2 stores the matrices of a block input first (Conv1D); here as in every linear layer. The others store queries, keys and
values apart, and the two halves of a gated layer; here each is one matrix.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from firth.core.errors import FirthError
from firth.core.files import foreign_errors, save_tensors, write_json
from firth.models.gpt.config import DecoderConfig
from firth.models.gpt.network import Decoder
from firth.models.shared.published import ACTIVATIONS, Published, Weights, activation_name, read_config, require_fit

_OUTSIDE = {  # ours: theirs
    "tokens.weight": "wte.weight",
    "positions.weight": "wpe.weight",
    "final_norm.weight": "ln_f.weight",
    "final_norm.bias": "ln_f.bias",
}
_BLOCK = {
    "attention_norm": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn.inner": "mlp.c_fc",
    "ffn.outer": "mlp.c_proj",
}
_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_dim": "n_embd",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "max_positions": "n_positions",
    "attention_dropout_prob": "attn_pdrop",
    "dropout_prob": "resid_pdrop",
    "norm_eps": "layer_norm_epsilon",
    "init_std": "initializer_range",
}
_PREFIX = "transformer."


def _names(num_layers: int) -> dict[str, tuple[str, bool]]:
    """Every name of ours with theirs, and whether the matrix is turned."""
    found = {ours: (theirs, False) for ours, theirs in _OUTSIDE.items()}
    for layer in range(num_layers):
        for ours, theirs in _BLOCK.items():
            for kind in ("weight", "bias"):
                turned = kind == "weight" and "." in theirs
                found[f"blocks.{layer}.{ours}.{kind}"] = f"h.{layer}.{theirs}.{kind}", turned
    return found


_ROTARY_OUTSIDE = {"tokens.weight": "model.embed_tokens.weight", "final_norm.weight": "model.norm.weight"}
_ROTARY_BLOCK = {
    "attention_norm": ["input_layernorm"],
    "attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "attention.query_norm": ["self_attn.q_norm"],
    "attention.key_norm": ["self_attn.k_norm"],
    "attention.out": ["self_attn.o_proj"],
    "ffn_norm": ["post_attention_layernorm"],
    "ffn.inner": ["mlp.gate_proj", "mlp.up_proj"],
    "ffn.outer": ["mlp.down_proj"],
}
_ROTARY_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "ffn_dim": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "attention_dropout_prob": "attention_dropout",
    "norm_eps": "rms_norm_eps",
    "init_std": "initializer_range",
}
_ROTARY_TYPES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_ROTARY_ACTIVATIONS = {"silu": "silu", "swish": "silu", **ACTIVATIONS}


def _rotary_names(config: DecoderConfig) -> dict[str, list[str]]:
    """Every name of ours with theirs, of which several are one matrix here."""
    found = {ours: [theirs] for ours, theirs in _ROTARY_OUTSIDE.items()}
    if not config.tied_output:
        found["output.weight"] = ["lm_head.weight"]
    biased = {"attention.qkv"} if config.qkv_bias or config.bias else set()
    biased |= {"attention.out"} if config.bias else set()
    for layer in range(config.num_layers):
        for ours, parts in _ROTARY_BLOCK.items():
            if ours.endswith(("query_norm", "key_norm")) and not config.qk_norm:
                continue
            for kind in ("weight", "bias") if ours in biased else ("weight",):
                found[f"blocks.{layer}.{ours}.{kind}"] = [f"model.layers.{layer}.{part}.{kind}" for part in parts]
    return found


def _part_sizes(config: DecoderConfig, name: str) -> list[int]:
    """How many rows of one of our matrices each of theirs has."""
    if ".attention.qkv." in name:
        return [config.head_size * heads for heads in (config.num_heads, config.kv_heads, config.kv_heads)]
    return [config.ffn_dim, config.ffn_dim] if ".ffn.inner." in name else []


def _rotary_to_json(config: DecoderConfig, eos_id: int | None) -> dict[str, Any]:
    kind = "qwen3" if config.qk_norm else "qwen2" if config.qkv_bias else "llama"
    data: dict[str, Any] = {theirs: getattr(config, ours) for ours, theirs in _ROTARY_SETTINGS.items()}
    data["num_key_value_heads"] = config.kv_heads
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": config.rotary_base}
    if (scaling := config.rotary_scaling) is not None:
        rope |= {"rope_type": scaling.kind, "factor": scaling.factor}
        if scaling.kind == "llama3":
            rope |= {"low_freq_factor": scaling.low_freq_factor, "high_freq_factor": scaling.high_freq_factor}
            rope["original_max_position_embeddings"] = scaling.trained_positions
    return {
        "architectures": [_ROTARY_TYPES[kind]],
        "model_type": kind,
        **data,
        "head_dim": config.head_size,
        "hidden_act": activation_name(config.activation, _ROTARY_ACTIVATIONS),
        "rope_theta": config.rotary_base,
        "rope_parameters": rope,
        **({} if scaling is None else {"rope_scaling": rope}),
        "attention_bias": False,
        "mlp_bias": False,
        "use_sliding_window": False,
        "bos_token_id": eos_id if config.bos_id is None else config.bos_id,
        "eos_token_id": eos_id,
        "tie_word_embeddings": config.tied_output,
    }


def _rotary_from_json(data: Mapping[str, Any], kind: str, where: Path) -> DecoderConfig:
    activation = _ROTARY_ACTIVATIONS.get(str(data.get("hidden_act", "silu")))
    odd = [name for name in ("attention_bias", "mlp_bias", "use_sliding_window") if data.get(name)]
    window = data.get("sliding_window", 4096) if kind == "mistral" else None  # the class has one where nothing is said
    if window is not None and window < data.get("max_position_embeddings", 4096):
        odd.append("sliding_window")
    if set(data.get("layer_types") or ()) - {"full_attention"}:
        odd.append("layer_types")
    if {data.get("partial_rotary_factor"), (data.get("rope_parameters") or {}).get("partial_rotary_factor")} - {
        None,
        1,
    }:
        odd.append("partial_rotary_factor")
    if activation is None or odd:
        what = ", ".join(odd) or f"activation {data.get('hidden_act')}"
        raise FirthError(f"{where}: this {kind} is built in a way that Firth does not know ({what})")
    given = {ours: data[theirs] for ours, theirs in _ROTARY_SETTINGS.items() if data.get(theirs) is not None}
    base, scaling = _rope(data, where)
    bos, eos = data.get("bos_token_id"), data.get("eos_token_id")
    more = {
        "positions": "rotary",
        "norm": "rms",
        "gated": True,
        "bias": False,
        "dropout_prob": 0.0,
        "activation": activation,
        "head_dim": _head_dim(data),
        "qkv_bias": kind == "qwen2",
        "qk_norm": kind == "qwen3",
        "tied_output": bool(data.get("tie_word_embeddings", False)),
        "rotary_base": base,
        "rotary_scaling": scaling,
        "bos_id": bos if isinstance(bos, int) and bos != eos else None,
    }
    given = {"attention_dropout_prob": 0.0, "norm_eps": 1e-6, **given}
    return DecoderConfig.build(given | more, where)


def _head_dim(data: Mapping[str, Any]) -> int | None:
    """Where it is not the hidden size divided by the heads."""
    found: int | None = data.get("head_dim")
    width, heads = data.get("hidden_size", 768), data.get("num_attention_heads", 12)
    return found if found is None or found * heads != width else None


def _rope(data: Mapping[str, Any], where: Path) -> tuple[float, dict[str, Any] | None]:
    """The base and the scaling of rotary positions, from the older and the newer settings."""
    rope = {**(data.get("rope_scaling") or {}), **(data.get("rope_parameters") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    base = float(rope.get("rope_theta") or data.get("rope_theta") or 10000.0)
    if kind == "default":
        return base, None
    if kind not in ("linear", "llama3"):
        raise FirthError(f"{where}: rotary positions of type '{kind}'; Firth reads default, linear and llama3")
    scaling = {"kind": kind, "factor": rope.get("factor", 1.0)}
    if kind == "llama3":
        scaling |= {name: rope[name] for name in ("low_freq_factor", "high_freq_factor") if name in rope}
        scaling["trained_positions"] = rope.get("original_max_position_embeddings", 8192)
    return base, scaling


def config_to_json(config: DecoderConfig, eos_id: int | None) -> dict[str, Any]:
    if config.positions == "rotary":
        return _rotary_to_json(config, eos_id)
    data = {theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()}
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **data,
        "n_inner": config.ffn_dim,
        "embd_pdrop": config.dropout_prob,
        "activation_function": activation_name(config.activation),
        "bos_token_id": eos_id,
        "eos_token_id": eos_id,
        "tie_word_embeddings": True,
    }


def config_from_json(data: Any, where: Path) -> DecoderConfig:
    kind = data.get("model_type") if isinstance(data, dict) else None
    if kind in _ROTARY_TYPES:
        return _rotary_from_json(data, kind, where)
    if kind != "gpt2":
        known = ", ".join(("gpt2", *_ROTARY_TYPES))
        raise FirthError(f"{where}: a model of type '{kind}', which is none of the decoders that Firth reads ({known})")
    activation = ACTIVATIONS.get(str(data.get("activation_function", "gelu_new")))
    odd = [name for name in ("scale_attn_by_inverse_layer_idx", "add_cross_attention") if data.get(name)]
    odd += [name for name in ("scale_attn_weights", "tie_word_embeddings") if data.get(name) is False]
    if activation is None or odd:
        what = ", ".join(odd) or f"activation {data.get('activation_function')}"
        raise FirthError(f"{where}: this GPT-2 is built in a way that Firth does not know ({what})")
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if theirs in data}
    given["ffn_dim"] = data.get("n_inner") or 4 * data.get("n_embd", 768)
    return DecoderConfig.build({**given, "activation": activation}, where)


def save_decoder(folder: Path, config: DecoderConfig, weights: Weights, eos_id: int | None) -> None:
    """``config.json`` and ``model.safetensors`` with the published names."""
    if config.positions == "rotary":
        tensors = {
            name: part.contiguous()
            for ours, theirs in _rotary_names(config).items()
            for name, part in zip(theirs, _parts(config, ours, weights[ours]), strict=True)
        }
    else:
        tensors = {
            f"{_PREFIX}{theirs}": weights[ours].t() if turned else weights[ours]
            for ours, (theirs, turned) in _names(config.num_layers).items()
        }
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", config_to_json(config, eos_id))


def _parts(config: DecoderConfig, name: str, weight: torch.Tensor) -> Sequence[torch.Tensor]:
    sizes = _part_sizes(config, name)
    return weight.split(sizes) if sizes else [weight]


def load_decoder(folder: Path) -> tuple[DecoderConfig, Weights]:
    """Config and weights; nothing missing, nothing left over."""
    with foreign_errors(folder, "a decoder that can be read"):
        config, weights = _load_parts(folder)
        require_fit(lambda: Decoder(config), weights, folder)
        return config, weights


def _load_parts(folder: Path) -> tuple[DecoderConfig, Weights]:
    config = config_from_json(read_config(folder), folder / "config.json")
    if config.positions == "rotary":
        return config, _load_rotary(folder, config)
    published = Published(folder, "a GPT-2", lambda name: name.removeprefix(_PREFIX))
    weights: Weights = {}
    for ours, (theirs, turned) in _names(config.num_layers).items():
        found = published.take(theirs)
        weights[ours] = found.t().contiguous() if turned and found.ndim == 2 else found
    published.drop_tied("lm_head.weight", weights["tokens.weight"])
    # older files also hold the causal mask, which is no weight
    published.finish(lambda name: name.endswith((".attn.bias", ".attn.masked_bias")))
    return config, weights


def _load_rotary(folder: Path, config: DecoderConfig) -> Weights:
    published = Published(folder, f"a {read_config(folder)['model_type']}")
    weights = {
        ours: torch.cat([published.take(name) for name in theirs]) for ours, theirs in _rotary_names(config).items()
    }
    if config.tied_output:
        published.drop_tied("lm_head.weight", weights["tokens.weight"])
    published.finish(lambda name: name.endswith(".rotary_emb.inv_freq"))  # older files hold the frequencies
    return weights
