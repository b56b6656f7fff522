"""ModernBERT (Warner et al. 2024): directories of encoders in its shape. BERT's recipes of that shape write them."""

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
    from firth.models.modernbert.format import MODERNBERT

    return MODERNBERT


SPEC = ModelSpec(
    name="modernbert",
    load=_load,
    encoder_format=_format,
    tokens=("wordpiece", "unigram"),
    model_types=("modernbert",),
    continues="modernbert-10m",
    is_transformer=True,
    can_fill=True,
)
