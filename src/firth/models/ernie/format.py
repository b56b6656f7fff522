"""ERNIE directories as Hugging Face writes them: BERT with a prefix of its own and a table of tasks."""

from firth.models.shared.configs import EncoderConfig
from firth.models.shared.published import (
    BERT_CLASSES,
    BERT_OUTPUT,
    BERT_OUTSIDE,
    BERT_SETTINGS,
    EncoderFormat,
    bert_heads,
    has_plain_blocks,
)


def _held(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
    """An encoder without tasks is a BERT."""
    return config if has_plain_blocks(config) and config.embedding_dim is None and config.num_tasks else None


ERNIE = EncoderFormat(
    classes={"ernie": "Ernie"},
    title="ERNIE",
    heads=bert_heads("ernie"),
    architectures=BERT_CLASSES,
    output=BERT_OUTPUT,
    held=_held,
    outside=BERT_OUTSIDE | {"embeddings.tasks": "embeddings.task_type_embeddings"},
    settings=BERT_SETTINGS | {"num_tasks": "task_type_vocab_size"},
    defaults={"task_type_vocab_size": 3},
    switch="use_task_id",
)
