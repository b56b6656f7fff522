"""GPT-2 directories as Hugging Face writes them: the published names, both ways, strictly.

There the matrices of a block are stored input first (Conv1D); here as in every linear layer.
"""

from pathlib import Path
from typing import Any

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


def config_to_json(config: DecoderConfig, eos_id: int | None) -> dict[str, Any]:
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
    if kind != "gpt2":
        raise FirthError(f"{where}: a model of type '{kind}', which is not GPT-2; Firth reads GPT-2 directories here")
    activation = ACTIVATIONS.get(str(data.get("activation_function", "gelu_new")))
    odd = [name for name in ("scale_attn_by_inverse_layer_idx", "add_cross_attention") if data.get(name)]
    odd += [name for name in ("scale_attn_weights", "tie_word_embeddings") if data.get(name) is False]
    if activation is None or odd:
        what = ", ".join(odd) or f"activation {data.get('activation_function')}"
        raise FirthError(f"{where}: this GPT-2 is built in a way that Firth does not know ({what})")
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if theirs in data}
    given["ffn_dim"] = data.get("n_inner") or 4 * data.get("n_embd", 768)
    return DecoderConfig.build({**given, "activation": activation}, where)


def save_gpt2(folder: Path, config: DecoderConfig, weights: Weights, eos_id: int | None) -> None:
    """``config.json`` and ``model.safetensors`` with the published names."""
    tensors = {
        f"{_PREFIX}{theirs}": weights[ours].t() if turned else weights[ours]
        for ours, (theirs, turned) in _names(config.num_layers).items()
    }
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", config_to_json(config, eos_id))


def load_gpt2(folder: Path) -> tuple[DecoderConfig, Weights]:
    """Config and weights; nothing missing, nothing left over."""
    with foreign_errors(folder, "a GPT-2 that can be read"):
        config, weights = _load_parts(folder)
        require_fit(lambda: Decoder(config), weights, folder)
        return config, weights


def _load_parts(folder: Path) -> tuple[DecoderConfig, Weights]:
    config = config_from_json(read_config(folder), folder / "config.json")
    published = Published(folder, "a GPT-2", lambda name: name.removeprefix(_PREFIX))
    weights: Weights = {}
    for ours, (theirs, turned) in _names(config.num_layers).items():
        found = published.take(theirs)
        weights[ours] = found.t().contiguous() if turned and found.ndim == 2 else found
    published.drop_tied("lm_head.weight", weights["tokens.weight"])
    # older files also hold the causal mask, which is no weight
    published.finish(lambda name: name.endswith((".attn.bias", ".attn.masked_bias")))
    return config, weights
