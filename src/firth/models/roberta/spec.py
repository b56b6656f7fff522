"""RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020) and CamemBERT (Martin et al. 2020): a BERT whose positions count
on from the id of the padding, with one segment, and a classifier of two layers over its first token."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from firth.models.shared.published import EncoderFormat
    from firth.tokenizers.published import SentencePieceRules


def _format() -> "EncoderFormat":
    """Directories as Hugging Face writes them."""
    from firth.models.shared.published import DENSE_CLASSIFIER, LM_HEAD, MASKED_CLASSES, EncoderFormat, bert_heads

    heads = bert_heads("roberta")

    return EncoderFormat(
        classes={"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"},
        title="RoBERTa",
        heads={"token_head": LM_HEAD} | {part: heads[part] for part in ("pooler", "classifier", "spans")},
        text_heads=DENSE_CLASSIFIER,
        architectures=MASKED_CLASSES,
        head_activation="gelu",
        output="lm_head.decoder.weight",
        shape={"positions": "learned"},
        defaults={"pad_token_id": 1, "max_position_embeddings": 512},
        offset=True,
    )


def _sentencepiece() -> "Mapping[str, SentencePieceRules]":
    from firth.models.roberta.tokenizer import RULES

    return RULES


SPEC = published_encoder("roberta", _format, ("roberta", "xlm-roberta", "camembert"), sentencepiece=_sentencepiece)
