"""ERNIE directories as Hugging Face writes them: BERT with a prefix of its own and a table of tasks."""

from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder_format import (
    BERT_OUTPUT,
    EncoderFormat,
    bert_architectures,
    bert_heads,
    has_plain_blocks,
)


def _held(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
    """An encoder without tasks is a BERT."""
    return config if has_plain_blocks(config) and config.embedding_dim is None and config.num_tasks else None


ERNIE = EncoderFormat(
    model_type="ernie",
    title="ERNIE",
    heads=bert_heads("ernie"),
    architectures=bert_architectures("Ernie"),
    output=BERT_OUTPUT,
    held=_held,
    outside={"embeddings.tasks.weight": "embeddings.task_type_embeddings.weight"},
    settings={"num_tasks": "task_type_vocab_size"},
    defaults={"task_type_vocab_size": 3},
    switch="use_task_id",
)
