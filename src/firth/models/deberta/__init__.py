"""DeBERTa (He et al. 2021, 2023): directories of its versions 2 and 3."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.errors import FirthError
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from firth.models.shared.published import EncoderFormat
    from firth.tokenizers.published import SentencePieceRules, Vocab
    from firth.tokenizers.sentencepiece import SentencePiece


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


def _format() -> "EncoderFormat":
    """DeBERTa directories as Hugging Face writes them (He et al. 2021, 2023): versions 2 and 3, whose attention is disentangled."""
    from firth.models.shared.published import (
        BERT_BLOCK,
        BERT_OUTPUT,
        BERT_OUTSIDE,
        BERT_SETTINGS,
        MASKED_CLASSES,
        EncoderFormat,
        bert_heads,
    )

    heads = bert_heads("deberta")

    return EncoderFormat(
        classes={"deberta-v2": "DebertaV2"},
        title="DeBERTa",
        prefix="deberta",
        heads={part: heads[part] for part in ("token_head", "classifier", "spans")}
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


def _deberta(model: "SentencePiece", config: Mapping[str, object]) -> "Tokenizer":
    from tokenizers import Regex, normalizers, pre_tokenizers

    from firth.tokenizers.published import SPACE, enclosed, unigram_of

    steps: list[normalizers.Normalizer] = [normalizers.Lowercase()] if config.get("do_lower_case", False) else []
    steps += [normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC()]
    steps.append(normalizers.Strip(left=False, right=True))
    vocab: Vocab = [(token, score) for token, score, _ in model.pieces]
    special = dict.fromkeys(("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"), False)
    tokenizer = unigram_of(vocab, "[UNK]", special, normalizers.Sequence(steps))
    marked = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation(), marked] if config.get("split_by_punct", False) else [marked]
    )
    return enclosed(tokenizer, "[CLS]", "[SEP]", doubled=False)


def _sentencepiece() -> "Mapping[str, SentencePieceRules]":
    return {"deberta-v2": _deberta}


SPEC = published_encoder("deberta", _format, ("deberta-v2",), sentencepiece=_sentencepiece)
