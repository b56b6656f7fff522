"""Directories of RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020) and CamemBERT (Martin et al. 2020): a BERT whose
positions count on from the id of the padding, with one segment, and a classifier of two layers over its first token."""

from firth.models.shared.encoder_format import DENSE_CLASSIFIER, LM_HEAD, MASKED_CLASSES, EncoderFormat, bert_heads

_HEADS = bert_heads("roberta")

ROBERTA = EncoderFormat(
    classes={"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"},
    title="RoBERTa",
    heads={"token_head": LM_HEAD} | {part: _HEADS[part] for part in ("pooler", "classifier", "spans")},
    text_heads=DENSE_CLASSIFIER,
    architectures=MASKED_CLASSES,
    output="lm_head.decoder.weight",
    shape={"positions": "learned"},
    defaults={"pad_token_id": 1},
    offset=True,
)
