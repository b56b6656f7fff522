"""The Transformer (Vaswani et al. 2017) as a translator."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.shared.configs import EncoderDecoderConfig, TranslationConfig
from firth.models.transformer.config import RECIPES

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.translator_format import TranslatorFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.shared.translation import TranslationPretraining

    return TranslationPretraining


def _load(folder: Path) -> "Model":
    from firth.models.shared.translation_model import TranslationModel

    return TranslationModel.load(folder)


def _format() -> "TranslatorFormat":
    from firth.models.transformer.format import MARIAN

    return MARIAN


SPEC = ModelSpec(
    name="transformer",
    recipes=RECIPES,
    in_transformers=True,
    suggested={"pairs": "transformer-tiny"},
    pretraining=_pretraining,
    load=_load,
    translator_format=_format,
    network=EncoderDecoderConfig,
    objectives=(TranslationConfig,),
    tokens=("pairs",),
    model_types=("marian", "firth-encoder-decoder"),
    abilities=("translate", "attention", "alignment"),
)
