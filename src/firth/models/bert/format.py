"""BERT directories as Hugging Face writes them (Devlin et al. 2018); the names are the usual ones."""

from firth.models.shared.encoder_format import BERT_CLASSES, BERT_OUTPUT, EncoderFormat, bert_heads, held_by_bert

BERT = EncoderFormat(
    classes={"bert": "Bert"},
    title="BERT",
    heads=bert_heads("bert"),
    architectures=BERT_CLASSES,
    output=BERT_OUTPUT,
    held=held_by_bert,
)
