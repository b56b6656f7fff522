"""DeBERTa (He et al. 2021, 2023): directories of its versions 2 and 3."""

from typing import TYPE_CHECKING

from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from firth.models.shared.published import EncoderFormat


def _format() -> "EncoderFormat":
    from firth.models.deberta.format import DEBERTA

    return DEBERTA


SPEC = published_encoder("deberta", _format, ("deberta-v2",))
