"""DeBERTa directories as Hugging Face writes them (He et al. 2021, 2023): versions 2 and 3, whose attention is disentangled."""

from collections.abc import Mapping
from pathlib import Path

from firth.core.errors import FirthError
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.published import (
    BERT_BLOCK,
    BERT_OUTPUT,
    BERT_OUTSIDE,
    BERT_SETTINGS,
    MASKED_CLASSES,
    EncoderFormat,
    bert_heads,
)

_HEADS = bert_heads("deberta")


def _read(data: Mapping[str, object], where: Path) -> Mapping[str, object]:
    """Both ways between content and distance, however they are written."""
    kinds = data.get("pos_att_type") or ()
    given = kinds.split("|") if isinstance(kinds, str) else list(kinds) if isinstance(kinds, list) else []
    buckets, most = (int(str(data.get(name, -1))) for name in ("position_buckets", "max_relative_positions"))
    if {"c2p", "p2c"} != set(given) or buckets < 1 or data.get("conv_kernel_size"):
        raise FirthError(
            f"{where}: this DeBERTa is built in a way that Firth does not know; it reads those of version 3: position_buckets, "
            "pos_att_type=p2c|c2p, no convolution"
        )
    if most > 0 and most != data.get("max_position_embeddings", 512):
        raise FirthError(
            f"{where}: max_relative_positions={most} is not max_position_embeddings, which Firth does not read"
        )
    return {"position_buckets": buckets}


def _write(config: EncoderConfig) -> Mapping[str, object]:
    return {
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": config.position_buckets,
        "max_relative_positions": -1,
        "pooler_hidden_act": "gelu",
        "pooler_hidden_size": config.hidden_dim,
        "pooler_dropout": 0.0,
    }


DEBERTA = EncoderFormat(
    classes={"deberta-v2": "DebertaV2"},
    title="DeBERTa",
    prefix="deberta",
    heads={part: _HEADS[part] for part in ("token_head", "classifier", "spans")}
    | {"pooler": {"dense.weight": "pooler.dense.weight", "dense.bias": "pooler.dense.bias"}},
    architectures=MASKED_CLASSES,
    output=BERT_OUTPUT,
    outside=BERT_OUTSIDE | {"distances.table": "encoder.rel_embeddings", "distances.norm": "encoder.LayerNorm"},
    block={
        **BERT_BLOCK,
        "attention.qkv": (
            "attention.self.query_proj",
            "attention.self.key_proj",
            "attention.self.value_proj",
        ),
    },
    settings=BERT_SETTINGS,
    defaults={
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-7,
        "vocab_size": 128100,
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
        "relative_attention": False,
        "share_att_key": False,
        "norm_rel_ebd": "none",
        "position_biased_input": True,
    },
    required={
        "relative_attention": True,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "pooler_hidden_act": "gelu",
    },
    shape={"positions": "disentangled", "pooler_activation": "gelu"},
    ignored=("lm_predictions.", "mask_predictions.", "deberta.embeddings.position_embeddings."),
    reads=_read,
    writes=_write,
)
