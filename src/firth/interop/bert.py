"""BERT directories as Hugging Face writes them: the published names, both ways, strictly.

Firth keeps queries, keys and values in one matrix; there they are three.
"""

from pathlib import Path
from typing import Any

import torch

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.model_configs import EncoderConfig
from firth.core.tensors import load_tensors, save_tensors

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
_OUTSIDE = {  # ours: theirs, with the prefix of the encoder
    "embeddings.tokens.weight": "embeddings.word_embeddings.weight",
    "embeddings.segments.weight": "embeddings.token_type_embeddings.weight",
    "embeddings.positions.weight": "embeddings.position_embeddings.weight",
    "embeddings.norm.weight": "embeddings.LayerNorm.weight",
    "embeddings.norm.bias": "embeddings.LayerNorm.bias",
}
_BLOCK = {
    "attention.out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "ffn.inner": "intermediate.dense",
    "ffn.outer": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
_HEADS = {  # the parts above the encoder, by the name of the part; bert.pooler shares the prefix
    "token_head": {
        "dense.weight": "cls.predictions.transform.dense.weight",
        "dense.bias": "cls.predictions.transform.dense.bias",
        "norm.weight": "cls.predictions.transform.LayerNorm.weight",
        "norm.bias": "cls.predictions.transform.LayerNorm.bias",
        "bias": "cls.predictions.bias",
    },
    "pooler": {"dense.weight": "bert.pooler.dense.weight", "dense.bias": "bert.pooler.dense.bias"},
    "pair_head": {"weight": "cls.seq_relationship.weight", "bias": "cls.seq_relationship.bias"},
}
_REPEATED = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "bert.embeddings.position_ids"}


def is_plain(config: EncoderConfig) -> bool:
    """Whether transformers' BERT can hold this model."""
    return (
        config.positions == "learned"
        and config.norm == "layer"
        and config.bias
        and not config.norm_first
        and not config.gated
    )


def _names(num_layers: int) -> dict[str, str | list[str]]:
    """Every name of ours with theirs (three of them for queries, keys and values)."""
    found: dict[str, str | list[str]] = {ours: f"bert.{theirs}" for ours, theirs in _OUTSIDE.items()}
    for layer in range(num_layers):
        for kind in ("weight", "bias"):
            base = f"bert.encoder.layer.{layer}"
            found[f"blocks.{layer}.attention.qkv.{kind}"] = [
                f"{base}.attention.self.{part}.{kind}" for part in ("query", "key", "value")
            ]
            for ours, theirs in _BLOCK.items():
                found[f"blocks.{layer}.{ours}.{kind}"] = f"{base}.{theirs}.{kind}"
    return found


def config_to_json(config: EncoderConfig, heads: set[str], pad_id: int) -> dict[str, Any]:
    architecture = (
        "BertForPreTraining" if "pair_head" in heads else "BertForMaskedLM" if "token_head" in heads else "BertModel"
    )
    activation = next(name for name, ours in _ACTIVATIONS.items() if ours == config.activation)
    return {
        "architectures": [architecture],
        "model_type": "bert",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.ffn_dim,
        "max_position_embeddings": config.max_positions,
        "type_vocab_size": config.num_segments,
        "hidden_dropout_prob": config.dropout_prob,
        "attention_probs_dropout_prob": config.attention_dropout_prob,
        "hidden_act": activation,
        "layer_norm_eps": config.norm_eps,
        "initializer_range": config.init_std,
        "pad_token_id": pad_id,
        "tie_word_embeddings": True,
    }


def config_from_json(data: Any, where: Path) -> EncoderConfig:
    kind = data.get("model_type") if isinstance(data, dict) else None
    if kind != "bert":
        raise FirthError(f"{where}: a model of type '{kind}', which is not BERT; Firth reads BERT directories here")
    activation = _ACTIVATIONS.get(str(data.get("hidden_act", "gelu")))
    if activation is None or data.get("position_embedding_type", "absolute") != "absolute":
        raise FirthError(
            f"{where}: this BERT uses an activation or positions that Firth does not know ({data.get('hidden_act')})"
        )
    names = {
        "vocab_size": "vocab_size",
        "hidden_dim": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "ffn_dim": "intermediate_size",
        "max_positions": "max_position_embeddings",
        "num_segments": "type_vocab_size",
        "dropout_prob": "hidden_dropout_prob",
        "attention_dropout_prob": "attention_probs_dropout_prob",
        "norm_eps": "layer_norm_eps",
        "init_std": "initializer_range",
    }
    given = {ours: data[theirs] for ours, theirs in names.items() if theirs in data}
    return EncoderConfig.build({**given, "activation": activation}, where)


def save_bert(
    folder: Path,
    config: EncoderConfig,
    encoder: dict[str, torch.Tensor],
    heads: dict[str, dict[str, torch.Tensor]],
    pad_id: int,
) -> None:
    """``config.json`` and ``model.safetensors`` with the published names."""
    tensors: dict[str, torch.Tensor] = {}
    for ours, theirs in _names(config.num_layers).items():
        if isinstance(theirs, str):
            tensors[theirs] = encoder[ours]
        else:
            tensors |= zip(theirs, encoder[ours].chunk(3), strict=True)
    for part, weights in heads.items():
        tensors |= {_HEADS[part][name]: tensor for name, tensor in weights.items()}
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", config_to_json(config, set(heads), pad_id))


def load_bert(folder: Path) -> tuple[EncoderConfig, dict[str, torch.Tensor], dict[str, dict[str, torch.Tensor]]]:
    """Config, the encoder's weights, and the heads that are there; nothing missing, nothing left over."""
    config = config_from_json(read_json(folder / "config.json"), folder / "config.json")
    path = next(
        (folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).is_file()), None
    )
    if path is None:
        raise FirthError(
            f"{folder}: no weights here (neither model.safetensors nor pytorch_model.bin); copy them beside config.json"
        )
    tensors = _published(load_tensors(path))
    encoder: dict[str, torch.Tensor] = {}
    for ours, theirs in _names(config.num_layers).items():
        parts = [_take(tensors, name, path) for name in ([theirs] if isinstance(theirs, str) else theirs)]
        if len({part.shape for part in parts}) > 1:
            raise FirthError(f"{path}: {', '.join(theirs)} differ in shape; are the files of one model?")
        encoder[ours] = parts[0] if len(parts) == 1 else torch.cat(parts)
    output = tensors.get("cls.predictions.decoder.weight")
    if output is not None and not torch.equal(output, encoder["embeddings.tokens.weight"]):
        raise FirthError(
            f"{path}: an output table of its own (untied), which Firth does not read; tie it to the tokens"
        )
    heads: dict[str, dict[str, torch.Tensor]] = {}
    for part, names in _HEADS.items():
        if any(name in tensors for name in names.values()):
            heads[part] = {ours: _take(tensors, theirs, path) for ours, theirs in names.items()}
    left = sorted(set(tensors) - _REPEATED)
    if left:
        raise FirthError(
            f"{path}: weights that are not part of a BERT ({', '.join(left[:3])}); is this another architecture?"
        )
    return config, encoder, heads


def _published(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Older spellings (gamma, beta) and a missing ``bert.`` prefix put right."""
    found = {}
    for name, tensor in tensors.items():
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"bert.{name}"
        found[name] = tensor.float() if tensor.is_floating_point() else tensor
    if "cls.predictions.bias" not in found and "cls.predictions.decoder.bias" in found:
        found["cls.predictions.bias"] = found["cls.predictions.decoder.bias"]
    return found


def _take(tensors: dict[str, torch.Tensor], name: str, path: Path) -> torch.Tensor:
    if name not in tensors:
        raise FirthError(f"{path}: '{name}' is missing; is the file whole and a BERT?")
    return tensors.pop(name)
