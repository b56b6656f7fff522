"""ModernBERT (Warner et al. 2024): directories of encoders in its shape. BERT's recipes of that shape write them."""

from typing import TYPE_CHECKING

from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from firth.models.shared.published import EncoderFormat


def _format() -> "EncoderFormat":
    from firth.models.modernbert.format import MODERNBERT

    return MODERNBERT


SPEC = published_encoder("modernbert", _format, ("modernbert",), continues="modernbert-10m", has_task_heads=False)
