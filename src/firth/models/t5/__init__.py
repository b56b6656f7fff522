"""T5 (Raffel et al. 2020): an encoder-decoder that writes what was taken out of a text."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.shared.configs import EncoderDecoderConfig, TranslationConfig
from firth.models.t5.config import RECIPES, CorruptedSpansConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.translator_format import TranslatorFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.shared.translation import TranslationPretraining
    from firth.models.t5.objective import T5Pretraining

    return TranslationPretraining if isinstance(objective, TranslationConfig) else T5Pretraining


def _load(folder: Path) -> "Model":
    from firth.models.t5.model import T5Model

    return T5Model.load(folder)


def _format() -> "TranslatorFormat":
    from firth.models.t5.format import T5

    return T5


SPEC = ModelSpec(
    name="t5",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=_load,
    translator_format=_format,
    network=EncoderDecoderConfig,
    objectives=(CorruptedSpansConfig, TranslationConfig),
    tokens=("wordpiece", "unigram"),
    model_types=("t5",),
    continues="t5-mini",
    tuned_whole=True,
    abilities=("fill", "translate", "attention", "alignment"),
)
