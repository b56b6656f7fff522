"""Directories of BERT and its kin as Hugging Face writes them: the published names, both ways, strictly.

Firth keeps queries, keys and values in one matrix; there they are three. Kin that differ only in
names and heads are a ``Format`` of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from firth.core.errors import FirthError
from firth.core.files import read_json, save_tensors, write_json
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.published import ACTIVATIONS, Published, Weights, activation_name, scatter

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
_SETTINGS = {
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


@dataclass(frozen=True)
class Format:
    """What a published directory calls the parts of such a model."""

    model_type: str  # also what the names of the encoder's weights begin with
    title: str
    heads: Mapping[str, Mapping[str, str]]  # by the name of the part, ours: theirs
    architectures: tuple[tuple[str, str], ...]  # (heads, class): the first whose heads are all there; "" for none
    output: str  # the output table, which is the token table once more
    outside: Mapping[str, str] = field(default_factory=dict)  # more weights of the encoder beside its blocks
    settings: Mapping[str, str] = field(default_factory=dict)  # more settings, ours: theirs
    defaults: Mapping[str, Any] = field(default_factory=dict)  # where theirs are not BERT's
    switch: str | None = None  # a setting that must be true for those further settings to count


BERT = Format(
    model_type="bert",
    title="BERT",
    heads={
        "token_head": {
            "dense.weight": "cls.predictions.transform.dense.weight",
            "dense.bias": "cls.predictions.transform.dense.bias",
            "norm.weight": "cls.predictions.transform.LayerNorm.weight",
            "norm.bias": "cls.predictions.transform.LayerNorm.bias",
            "bias": "cls.predictions.bias",
        },
        "pooler": {"dense.weight": "bert.pooler.dense.weight", "dense.bias": "bert.pooler.dense.bias"},
        "pair_head": {"weight": "cls.seq_relationship.weight", "bias": "cls.seq_relationship.bias"},
        "classifier": {"weight": "classifier.weight", "bias": "classifier.bias"},
        "spans": {"weight": "qa_outputs.weight", "bias": "qa_outputs.bias"},
    },
    architectures=(
        ("classifier pooler", "BertForSequenceClassification"),
        ("classifier", "BertForTokenClassification"),
        ("spans", "BertForQuestionAnswering"),
        ("pair_head", "BertForPreTraining"),
        ("token_head", "BertForMaskedLM"),
        ("", "BertModel"),
    ),
    output="cls.predictions.decoder.weight",
)
_BIASES = {"cls.predictions.decoder.bias": "cls.predictions.bias"}  # another name for the same


def has_plain_blocks(config: EncoderConfig) -> bool:
    """Whether the classes of BERT and its kin compute what this model does, embeddings apart."""
    return (
        config.positions == "learned"
        and config.norm == "layer"
        and config.bias
        and not config.norm_first
        and not config.gated
    )


def is_plain(config: EncoderConfig) -> bool:
    """Whether transformers' BERT can hold this model."""
    return has_plain_blocks(config) and config.token_dim == config.hidden_dim and not config.num_tasks


def _names(kind: Format, num_layers: int) -> dict[str, str | list[str]]:
    """Every name of ours with theirs (three of them for queries, keys and values)."""
    outside = {**_OUTSIDE, **kind.outside}
    found: dict[str, str | list[str]] = {ours: f"{kind.model_type}.{theirs}" for ours, theirs in outside.items()}
    for layer in range(num_layers):
        for part in ("weight", "bias"):
            base = f"{kind.model_type}.encoder.layer.{layer}"
            found[f"blocks.{layer}.attention.qkv.{part}"] = [
                f"{base}.attention.self.{name}.{part}" for name in ("query", "key", "value")
            ]
            for ours, theirs in _BLOCK.items():
                found[f"blocks.{layer}.{ours}.{part}"] = f"{base}.{theirs}.{part}"
    return found


def config_to_json(kind: Format, config: EncoderConfig, heads: set[str], pad_id: int) -> dict[str, Any]:
    architecture = next(name for needed, name in kind.architectures if set(needed.split()) <= heads)
    settings = {theirs: getattr(config, ours) for ours, theirs in {**_SETTINGS, **kind.settings}.items()}
    return {
        "architectures": [architecture],
        "model_type": kind.model_type,
        **settings,
        **({kind.switch: True} if kind.switch else {}),
        "hidden_act": activation_name(config.activation),
        "pad_token_id": pad_id,
        "tie_word_embeddings": True,
    }


def config_from_json(kind: Format, data: Any, where: Path) -> EncoderConfig:
    found = data.get("model_type") if isinstance(data, dict) else None
    if found != kind.model_type:
        raise FirthError(
            f"{where}: a model of type '{found}', which is not {kind.title}; Firth reads {kind.title} directories here"
        )
    activation = ACTIVATIONS.get(str(data.get("hidden_act", "gelu")))
    if activation is None or data.get("position_embedding_type", "absolute") != "absolute":
        raise FirthError(
            f"{where}: this {kind.title} uses an activation or positions that Firth does not know ({data.get('hidden_act')})"
        )
    if data.get("is_decoder") or data.get("add_cross_attention"):
        raise FirthError(
            f"{where}: this {kind.title} reads from left to right (is_decoder); Firth reads those that look both ways"
        )
    data = {**kind.defaults, **data}
    further = kind.settings if kind.switch is None or data.get(kind.switch) else {}
    given = {ours: data[theirs] for ours, theirs in {**_SETTINGS, **further}.items() if theirs in data}
    return EncoderConfig.build({**given, "activation": activation}, where)


def save_bert(
    folder: Path,
    config: EncoderConfig,
    encoder: dict[str, torch.Tensor],
    heads: dict[str, dict[str, torch.Tensor]],
    pad_id: int,
    kind: Format = BERT,
    more: dict[str, Any] | None = None,
) -> None:
    """``config.json`` (with ``more`` in it) and ``model.safetensors`` with the published names."""
    names = _names(kind, config.num_layers)
    tensors = scatter(
        encoder, {ours: its for ours, its in names.items() if ours not in kind.outside or ours in encoder}
    )
    for part, weights in heads.items():
        tensors |= {kind.heads[part][name]: tensor for name, tensor in weights.items()}
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", config_to_json(kind, config, set(heads), pad_id) | (more or {}))


def load_bert(folder: Path, kind: Format = BERT) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    """Config, the encoder's weights, and the heads that are there; nothing missing, nothing left over."""
    config = config_from_json(kind, read_json(folder / "config.json"), folder / "config.json")
    published = Published(folder, f"a {kind.title}", lambda name: _spelling(name, kind))
    tensors = published.tensors
    for repeated, bias in _BIASES.items():
        if bias not in tensors and repeated in tensors:
            tensors[bias] = tensors[repeated]
    # not every model of the kind has all of what is outside; the model will say if this one should
    names = _names(kind, config.num_layers)
    encoder = published.gather({ours: its for ours, its in names.items() if ours not in kind.outside or its in tensors})
    published.drop_tied(kind.output, encoder["embeddings.tokens.weight"])
    heads = {
        part: published.gather(names)
        for part, names in kind.heads.items()
        if any(name in tensors for name in names.values())
    }
    known = {*_BIASES, f"{kind.model_type}.embeddings.position_ids"}
    published.finish(known.__contains__)
    return config, encoder, heads


def _spelling(name: str, kind: Format) -> str:
    """Older spellings (gamma, beta) and a missing ``bert.`` prefix put right."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    bare = name.startswith(("embeddings.", "embeddings_project.", "encoder.", "pooler."))
    return f"{kind.model_type}.{name}" if bare else name
