"""The spec of a published encoder that is read into the shared one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.published import EncoderFormat
    from firth.tokenizers.published import SentencePieceRules


def published_encoder(
    name: str,
    encoder_format: Callable[[], "EncoderFormat"],
    model_types: tuple[str, ...],
    continues: str = "bert-mini",
    has_task_heads: bool = True,
    sentencepiece: Callable[[], "Mapping[str, SentencePieceRules]"] | None = None,
) -> ModelSpec:
    """A published encoder that is read into the shared one: all that differs is what its directories call the parts."""
    return ModelSpec(
        name=name,
        in_transformers=True,
        load=_load,
        encoder_format=encoder_format,
        sentencepiece=sentencepiece,
        tokens=("wordpiece", "unigram"),
        model_types=model_types,
        continues=continues,
        tuned_whole=True,
        has_task_heads=has_task_heads,
        abilities=("fill", "attention"),
    )


def _load(folder: Path) -> "Model":
    """A run or a published directory of the shared encoder."""
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)
