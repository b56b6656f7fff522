"""XLNet directories as Hugging Face writes them (Yang et al. 2019): the published names, both ways, strictly.

There the matrices of attention are stored input first, with heads apart; here as in every linear layer.
"""

from pathlib import Path
from typing import Any

import torch

from firth.core.errors import FirthError
from firth.core.files import foreign_errors, save_tensors, write_json
from firth.models.shared.published import ACTIVATIONS, Published, Weights, activation_name, read_config, require_fit
from firth.models.xlnet.config import TwoStreamConfig
from firth.models.xlnet.network import TwoStream

_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_dim": "d_model",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "ffn_dim": "d_inner",
    "dropout_prob": "dropout",
    "norm_eps": "layer_norm_eps",
    "init_std": "initializer_range",
    "max_positions": "max_positions",  # ours alone
}
_DEFAULTS = {"d_model": 1024, "n_layer": 24, "n_head": 16, "d_inner": 4096, "vocab_size": 32000}
_PLAIN = {
    "attention_norm.weight": "rel_attn.layer_norm.weight",
    "attention_norm.bias": "rel_attn.layer_norm.bias",
    "ffn.inner.weight": "ff.layer_1.weight",
    "ffn.inner.bias": "ff.layer_1.bias",
    "ffn.outer.weight": "ff.layer_2.weight",
    "ffn.outer.bias": "ff.layer_2.bias",
    "ffn_norm.weight": "ff.layer_norm.weight",
    "ffn_norm.bias": "ff.layer_norm.bias",
}
_BIASES = {"content_bias": "r_w_bias", "distance_bias": "r_r_bias", "segment_bias": "r_s_bias"}


def save_xlnet(folder: Path, config: TwoStreamConfig, model: Weights, bias: torch.Tensor, pieces: Any) -> None:
    """``config.json`` and ``model.safetensors`` of an XLNetLMHeadModel; ``pieces`` names the special ids."""
    heads = (config.num_heads, config.hidden_dim // config.num_heads)
    tensors = {
        "transformer.word_embedding.weight": model["embeddings.tokens.weight"],
        "transformer.mask_emb": model["embeddings.unseen"][None, None],
        "lm_loss.bias": bias,
    }
    for layer in range(config.num_layers):
        ours, theirs = f"blocks.{layer}.", f"transformer.layer.{layer}."
        attention = f"{ours}attention."
        key, value = model[f"{attention}key_value.weight"].chunk(2)
        matrices = {"q": model[f"{attention}query.weight"], "k": key, "v": value}
        matrices["r"] = model[f"{attention}distance.weight"]
        tensors |= {f"{theirs}rel_attn.{name}": matrix.T.unflatten(1, heads) for name, matrix in matrices.items()}
        tensors[f"{theirs}rel_attn.o"] = model[f"{attention}out.weight"].unflatten(1, heads)
        tensors[f"{theirs}rel_attn.seg_embed"] = model[f"{attention}segments"].transpose(0, 1)
        tensors |= {f"{theirs}rel_attn.{its}": model[attention + mine][:, 0] for mine, its in _BIASES.items()}
        tensors |= {theirs + its: model[ours + mine] for mine, its in _PLAIN.items()}
    save_tensors(folder / "model.safetensors", tensors)
    write_json(
        folder / "config.json",
        {
            "architectures": ["XLNetLMHeadModel"],
            "model_type": "xlnet",
            **{theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()},
            "d_head": heads[1],
            "ff_activation": activation_name(config.activation),
            "attn_type": "bi",
            "bi_data": False,
            "clamp_len": -1,
            "mem_len": None,
            "pad_token_id": pieces.pad_id,
            "bos_token_id": pieces.cls_id,
            "eos_token_id": pieces.sep_id,
            "tie_word_embeddings": True,
        },
    )


def _config(data: Any, where: Path) -> TwoStreamConfig:
    data = {**_DEFAULTS, **data}
    activation = ACTIVATIONS.get(str(data.get("ff_activation", "gelu")))
    if activation is None or data.get("attn_type", "bi") != "bi" or data.get("clamp_len", -1) > 0:
        raise FirthError(
            f"{where}: this XLNet uses an activation, attention or distances that Firth does not know (ff_activation, attn_type, clamp_len)"
        )
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if theirs in data}
    return TwoStreamConfig.build({**given, "activation": activation}, where)


def load_xlnet(folder: Path) -> tuple[TwoStreamConfig, Weights, torch.Tensor | None]:
    """Config, weights and the bias of the output; nothing missing, nothing left over."""
    with foreign_errors(folder, "an XLNet that can be read"):
        config, weights, bias = _load_parts(folder)
        require_fit(lambda: TwoStream(config), weights, folder)
        return config, weights, bias


def _load_parts(folder: Path) -> tuple[TwoStreamConfig, Weights, torch.Tensor | None]:
    config = _config(read_config(folder), folder / "config.json")
    published = Published(folder, "an XLNet", _prefixed)
    take = published.take
    model = {
        "embeddings.tokens.weight": take("transformer.word_embedding.weight"),
        "embeddings.unseen": take("transformer.mask_emb")[0, 0],
    }
    for layer in range(config.num_layers):
        ours, theirs = f"blocks.{layer}.", f"transformer.layer.{layer}."
        attention, its = f"{ours}attention.", f"{theirs}rel_attn."
        model[f"{attention}query.weight"] = take(f"{its}q").flatten(1).T
        model[f"{attention}key_value.weight"] = torch.cat([take(its + name).flatten(1).T for name in ("k", "v")])
        model[f"{attention}distance.weight"] = take(f"{its}r").flatten(1).T
        model[f"{attention}out.weight"] = take(f"{its}o").flatten(1)
        model[f"{attention}segments"] = take(f"{its}seg_embed").transpose(0, 1)
        model |= {attention + mine: take(its + name)[:, None] for mine, name in _BIASES.items()}
        model |= {ours + mine: take(theirs + name) for mine, name in _PLAIN.items()}
    published.drop_tied("lm_loss.weight", model["embeddings.tokens.weight"])
    bias = published.tensors.pop("lm_loss.bias", None)
    published.finish()
    return config, model, bias


def _prefixed(name: str) -> str:
    """The model alone is saved without its prefix."""
    return name if name.startswith(("transformer.", "lm_loss.")) else f"transformer.{name}"
