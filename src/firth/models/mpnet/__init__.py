"""MPNet (Song et al. 2020): a RoBERTa without segments, and a bias by distance."""

from typing import TYPE_CHECKING

from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from firth.models.shared.published import EncoderFormat


def _format() -> "EncoderFormat":
    """Directories as Hugging Face writes them."""
    from firth.models.shared.published import (
        BERT_OUTSIDE,
        BERT_SETTINGS,
        DENSE_CLASSIFIER,
        LM_HEAD,
        MASKED_CLASSES,
        EncoderFormat,
        bert_heads,
    )

    heads = bert_heads("mpnet")

    return EncoderFormat(
        classes={"mpnet": "MPNet"},
        title="MPNet",
        heads={"token_head": LM_HEAD} | {part: heads[part] for part in ("pooler", "classifier", "spans")},
        text_heads=DENSE_CLASSIFIER,
        architectures=MASKED_CLASSES,
        head_activation="gelu",
        output="lm_head.decoder.weight",
        outside=BERT_OUTSIDE | {"relative": "encoder.relative_attention_bias"},
        block={
            "attention.qkv": ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
            "attention.out": "attention.attn.o",
            "attention_norm": "attention.LayerNorm",
            "ffn.inner": "intermediate.dense",
            "ffn.outer": "output.dense",
            "ffn_norm": "output.LayerNorm",
        },
        settings={ours: theirs for ours, theirs in BERT_SETTINGS.items() if ours != "num_segments"},
        defaults={"pad_token_id": 1, "vocab_size": 30527, "max_position_embeddings": 512},
        required={"relative_attention_num_buckets": 32},
        shape={"positions": "learned_relative", "num_segments": 0},
        offset=True,
    )


SPEC = published_encoder("mpnet", _format, ("mpnet",))
