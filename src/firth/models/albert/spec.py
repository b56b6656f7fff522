"""ALBERT (Lan et al. 2020): directories of its."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec

if TYPE_CHECKING:
    from firth.models.shared.encoder_format import EncoderFormat
    from firth.models.shared.model import Model


def _load(folder: Path) -> "Model":
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)


def _format() -> "EncoderFormat":
    from firth.models.albert.format import ALBERT

    return ALBERT


SPEC = ModelSpec(
    name="albert",
    load=_load,
    encoder_format=_format,
    tokens=("wordpiece", "unigram"),
    model_types=("albert",),
    continues="bert-mini",
    is_transformer=True,
    has_task_heads=True,
    can_fill=True,
)
