"""ERNIE (Sun et al. 2019, 2020): BERT with phrases and entities masked as wholes, and several tasks at once."""

from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.ernie.config import RECIPES, KnowledgeMaskingConfig
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.specs import load_encoder_model

if TYPE_CHECKING:
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.published import EncoderFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.ernie.objective import ErniePretraining

    return ErniePretraining


def _format() -> "EncoderFormat":
    from firth.models.ernie.format import ERNIE

    return ERNIE


SPEC = ModelSpec(
    name="ernie",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=load_encoder_model,
    encoder_format=_format,
    network=EncoderConfig,
    objectives=(KnowledgeMaskingConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("ernie",),
    tuned_whole=True,
    has_task_heads=True,
    abilities=("fill", "follows", "attention"),
)
