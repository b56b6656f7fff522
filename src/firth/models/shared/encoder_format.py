"""Directories of BERT-shaped encoders: the names that Hugging Face publishes, both ways, strictly.

A model says with an ``EncoderFormat`` what its published directory calls its parts (``ModelSpec.encoder_format``); what
is the same for all of them is here. Firth keeps queries, keys and values in one matrix; there they are three. Variants
that no published class can hold (rotary positions, norms first ...) keep Firth's own names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.files import load_tensors, read_json, save_tensors, write_json
from firth.core.registry import spec_of_model_type, specs
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.published import (
    ACTIVATIONS,
    Published,
    Weights,
    activation_name,
    join_parts,
    scatter,
    split_parts,
)

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


def has_plain_blocks(config: EncoderConfig) -> bool:
    """Whether the classes of BERT and its kin compute what this model does, embeddings apart."""
    return (
        config.positions == "learned"
        and config.norm == "layer"
        and config.bias
        and not config.norm_first
        and not config.gated
    )


def held_by_bert(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
    """Plain blocks under plain embeddings, and any head but that of replaced tokens."""
    fits = has_plain_blocks(config) and config.embedding_dim is None and not config.num_tasks
    return config if fits and "replaced_head" not in heads else None


SaveEncoder = Callable[[Path, EncoderConfig, Weights, dict[str, Weights], int], None]
"""(folder, settings, weights, heads that have names there, id of the padding)."""
LoadEncoder = Callable[[Path], tuple[EncoderConfig, Weights, dict[str, Weights]]]


@dataclass(frozen=True)
class EncoderFormat:
    """What the published directory of a model calls its parts."""

    model_type: str  # also what the names of the encoder's weights begin with
    title: str
    heads: Mapping[str, Mapping[str, str]]  # by the name of the part, ours: theirs
    architectures: tuple[tuple[str, str], ...]  # (heads, class): the first whose heads are all there; "" for none
    output: str  # the output table, which is the token table once more
    outside: Mapping[str, str] = field(default_factory=dict)  # weights of the encoder outside its blocks
    settings: Mapping[str, str] = field(default_factory=dict)  # more settings, ours: theirs
    defaults: Mapping[str, int] = field(default_factory=dict)  # where theirs are not BERT's
    switch: str | None = None  # a setting that must be true for those further settings to count
    held: Callable[[EncoderConfig, set[str]], EncoderConfig | None] = held_by_bert
    """The settings that such a directory says of a model with these heads; None where it cannot hold the model."""
    save: SaveEncoder | None = None  # where the directory is laid out unlike BERT's: how it is written,
    load: LoadEncoder | None = None  # and how it is read


def bert_heads(model_type: str) -> dict[str, dict[str, str]]:
    """The heads of BERT, and of models whose directories differ from BERT's in the prefix alone."""
    return {
        "token_head": {
            "dense.weight": "cls.predictions.transform.dense.weight",
            "dense.bias": "cls.predictions.transform.dense.bias",
            "norm.weight": "cls.predictions.transform.LayerNorm.weight",
            "norm.bias": "cls.predictions.transform.LayerNorm.bias",
            "bias": "cls.predictions.bias",
        },
        "pooler": {
            "dense.weight": f"{model_type}.pooler.dense.weight",
            "dense.bias": f"{model_type}.pooler.dense.bias",
        },
        "pair_head": {"weight": "cls.seq_relationship.weight", "bias": "cls.seq_relationship.bias"},
        "classifier": {"weight": "classifier.weight", "bias": "classifier.bias"},
        "spans": {"weight": "qa_outputs.weight", "bias": "qa_outputs.bias"},
    }


def bert_architectures(prefix: str) -> tuple[tuple[str, str], ...]:
    """The classes of transformers for those heads."""
    return (
        ("classifier pooler", f"{prefix}ForSequenceClassification"),
        ("classifier", f"{prefix}ForTokenClassification"),
        ("spans", f"{prefix}ForQuestionAnswering"),
        ("pair_head", f"{prefix}ForPreTraining"),
        ("token_head", f"{prefix}ForMaskedLM"),
        ("", f"{prefix}Model"),
    )


BERT_OUTPUT = "cls.predictions.decoder.weight"
_BIASES = {"cls.predictions.decoder.bias": "cls.predictions.bias"}  # another name for the same
_OWN = "firth-encoder"
_HEADS = "heads.safetensors"


def find_encoder_format(folder: Path) -> EncoderFormat | None:
    """The published format of a directory; None for one with Firth's own names."""
    data = read_json(folder / "config.json")
    if not isinstance(data, dict):
        raise FirthError(f"{folder / 'config.json'}: not the description of a model; copy it again")
    if data.get("model_type") == _OWN:
        return None
    spec = spec_of_model_type(str(data.get("model_type")))
    if spec is None or spec.encoder_format is None:
        known = [kind for one in specs().values() if one.encoder_format is not None for kind in one.model_types]
        raise FirthError(
            f"{folder / 'config.json'}: a model of type '{data.get('model_type')}', which is no encoder like BERT; Firth reads {', '.join(known)} here"
        )
    return spec.encoder_format()


def save_encoder(folder: Path, config: EncoderConfig, encoder: Weights, heads: dict[str, Weights], pad_id: int) -> None:
    """The directory of the first model that can hold this one; heads that it has no names for go into a file of their own."""
    for spec in specs().values():
        kind = None if spec.encoder_format is None else spec.encoder_format()
        held = None if kind is None else kind.held(config, set(heads))
        if kind is None or held is None:
            continue
        placed = {part: weights for part, weights in heads.items() if part in kind.heads}
        others = {part: weights for part, weights in heads.items() if part not in kind.heads}
        if others:
            save_tensors(folder / _HEADS, join_parts(others))
        if kind.save is not None:
            kind.save(folder, held, encoder, placed, pad_id)
        else:
            save_published(folder, held, encoder, placed, pad_id, kind)
        return
    save_tensors(folder / "model.safetensors", join_parts({"encoder": encoder, **heads}))
    write_json(folder / "config.json", {"model_type": _OWN, "pad_token_id": pad_id, "encoder": config.model_dump()})


def load_encoder(folder: Path) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    """Config, the encoder's weights and those of the heads that are there."""
    kind = find_encoder_format(folder)
    if kind is not None:
        config, encoder, heads = load_published(folder, kind) if kind.load is None else kind.load(folder)
        others = split_parts(load_tensors(folder / _HEADS)) if (folder / _HEADS).is_file() else {}
        return config, encoder, {**heads, **others}
    where = folder / "config.json"
    config = EncoderConfig.build(read_json(where).get("encoder"), where)
    parts = split_parts(load_tensors(folder / "model.safetensors"))
    if "encoder" not in parts:
        raise FirthError(f"{folder / 'model.safetensors'}: no encoder in it; copy it again")
    return config, parts.pop("encoder"), parts


def save_published(
    folder: Path,
    config: EncoderConfig,
    encoder: Weights,
    heads: dict[str, Weights],
    pad_id: int,
    kind: EncoderFormat,
    more: Mapping[str, object] | None = None,
) -> None:
    """``config.json`` (with ``more`` in it) and ``model.safetensors`` with the published names."""
    names = _names(kind, config.num_layers)
    tensors = scatter(
        encoder, {ours: its for ours, its in names.items() if ours not in kind.outside or ours in encoder}
    )
    for part, weights in heads.items():
        tensors |= {kind.heads[part][name]: tensor for name, tensor in weights.items()}
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", config_to_json(kind, config, set(heads), pad_id) | dict(more or {}))


def load_published(folder: Path, kind: EncoderFormat) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
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


def config_to_json(kind: EncoderFormat, config: EncoderConfig, heads: set[str], pad_id: int) -> dict[str, Any]:
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


def config_from_json(kind: EncoderFormat, data: Any, where: Path) -> EncoderConfig:
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


def _names(kind: EncoderFormat, num_layers: int) -> dict[str, str | list[str]]:
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


def _spelling(name: str, kind: EncoderFormat) -> str:
    """Older spellings (gamma, beta) and a missing ``bert.`` prefix put right."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    bare = name.startswith(("embeddings.", "embeddings_project.", "encoder.", "pooler."))
    return f"{kind.model_type}.{name}" if bare else name
