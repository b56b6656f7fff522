"""ERNIE (Sun et al. 2019, 2020): BERT with phrases and entities masked as wholes, and several tasks at once."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.ernie.config import RECIPES, KnowledgeMaskingConfig
from firth.models.shared.configs import EncoderConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.published import EncoderFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.ernie.objective import ErniePretraining

    return ErniePretraining


def _format() -> "EncoderFormat":
    from firth.models.ernie.format import ERNIE

    return ERNIE


def _load(folder: Path) -> "Model":
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)


SPEC = ModelSpec(
    name="ernie",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=_load,
    encoder_format=_format,
    network=EncoderConfig,
    objectives=(KnowledgeMaskingConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("ernie",),
    tuned_whole=True,
    has_task_heads=True,
    abilities=("fill", "follows", "attention"),
)
