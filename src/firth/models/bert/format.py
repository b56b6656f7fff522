"""BERT directories as Hugging Face writes them (Devlin et al. 2018); the names of the blocks are the shared ones."""

from collections.abc import Mapping
from pathlib import Path

from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder_format import (
    BERT_OUTPUT,
    EncoderFormat,
    bert_architectures,
    bert_heads,
    has_plain_blocks,
    save_published,
)
from firth.models.shared.published import Weights

BERT = EncoderFormat(
    model_type="bert",
    title="BERT",
    heads=bert_heads("bert"),
    architectures=bert_architectures("Bert"),
    output=BERT_OUTPUT,
)


def is_plain(config: EncoderConfig) -> bool:
    """Whether transformers' BERT can hold this model."""
    return has_plain_blocks(config) and config.token_dim == config.hidden_dim and not config.num_tasks


def save_bert(
    folder: Path,
    config: EncoderConfig,
    encoder: Weights,
    heads: dict[str, Weights],
    pad_id: int,
    more: Mapping[str, object] | None = None,
) -> None:
    """``config.json`` (with ``more`` in it) and ``model.safetensors`` of a BERT with any of its heads."""
    save_published(folder, config, encoder, heads, pad_id, BERT, more)
