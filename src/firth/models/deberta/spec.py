"""DeBERTa (He et al. 2021, 2023): directories of its versions 2 and 3."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from firth.models.shared.published import EncoderFormat
    from firth.tokenizers.published import SentencePieceRules


def _format() -> "EncoderFormat":
    from firth.models.deberta.format import DEBERTA

    return DEBERTA


def _sentencepiece() -> "Mapping[str, SentencePieceRules]":
    from firth.models.deberta.tokenizer import RULES

    return RULES


SPEC = published_encoder("deberta", _format, ("deberta-v2",), sentencepiece=_sentencepiece)
