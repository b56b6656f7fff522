"""ALBERT (Lan et al. 2020): one block for all layers, over narrower embeddings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from firth.models.shared.published import EncoderFormat
    from firth.tokenizers.published import SentencePieceRules, Vocab
    from firth.tokenizers.sentencepiece import SentencePiece


def _format() -> "EncoderFormat":
    """Directories as Hugging Face writes them."""
    from firth.models.shared.published import (
        BERT_CLASSES,
        BERT_OUTSIDE,
        BERT_SETTINGS,
        TASK_HEADS,
        EncoderFormat,
    )

    return EncoderFormat(
        classes={"albert": "Albert"},
        title="ALBERT",
        heads={
            "token_head": {
                "dense.weight": "predictions.dense.weight",
                "dense.bias": "predictions.dense.bias",
                "norm.weight": "predictions.LayerNorm.weight",
                "norm.bias": "predictions.LayerNorm.bias",
                "bias": "predictions.bias",
            },
            "pooler": {"dense.weight": "albert.pooler.weight", "dense.bias": "albert.pooler.bias"},
            "pair_head": {"weight": "sop_classifier.classifier.weight", "bias": "sop_classifier.classifier.bias"},
            **TASK_HEADS,
        },
        architectures=BERT_CLASSES,
        output="predictions.decoder.weight",
        outside=BERT_OUTSIDE | {"project": "encoder.embedding_hidden_mapping_in"},
        layer="encoder.albert_layer_groups.0.albert_layers.{}",
        block={
            "attention.qkv": ("attention.query", "attention.key", "attention.value"),
            "attention.out": "attention.dense",
            "attention_norm": "attention.LayerNorm",
            "ffn.inner": "ffn",
            "ffn.outer": "ffn_output",
            "ffn_norm": "full_layer_layer_norm",
        },
        settings=BERT_SETTINGS | {"embedding_dim": "embedding_size"},
        defaults={
            "vocab_size": 30000,
            "hidden_act": "gelu_new",
            "embedding_size": 128,
            "hidden_size": 4096,
            "num_attention_heads": 64,
            "intermediate_size": 16384,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        required={"num_hidden_groups": 1, "inner_group_num": 1},
        shape={"positions": "learned", "share_layers": True},
    )


def _albert(model: "SentencePiece", config: Mapping[str, object]) -> "Tokenizer":
    from tokenizers import normalizers

    from firth.tokenizers.published import charsmap_of, enclosed, unigram_of

    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    steps += [] if config.get("keep_accents", False) else [normalizers.NFKD(), normalizers.StripAccents()]
    steps += [normalizers.Lowercase()] if config.get("do_lower_case", True) else []
    special = dict.fromkeys(("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), False)
    vocab: Vocab = [(token, score) for token, score, _ in model.pieces]
    tokenizer = unigram_of(vocab, "<unk>", special, normalizers.Sequence([*steps, *charsmap_of(model)]))
    return enclosed(tokenizer, "[CLS]", "[SEP]", doubled=False)


def _sentencepiece() -> "Mapping[str, SentencePieceRules]":
    return {"albert": _albert}


SPEC = published_encoder("albert", _format, ("albert",), sentencepiece=_sentencepiece)
