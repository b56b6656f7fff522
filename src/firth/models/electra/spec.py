"""ELECTRA (Clark et al. 2020): an encoder that tells replaced tokens from original ones."""

from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.electra.config import RECIPES, ReplacedTokensConfig
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.specs import load_encoder_model

if TYPE_CHECKING:
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.published import EncoderFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.electra.objective import ElectraPretraining

    return ElectraPretraining


def _format() -> "EncoderFormat":
    from firth.models.electra.format import ELECTRA

    return ELECTRA


SPEC = ModelSpec(
    name="electra",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=load_encoder_model,
    encoder_format=_format,
    network=EncoderConfig,
    objectives=(ReplacedTokensConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("electra",),
    tuned_whole=True,
    has_task_heads=True,
    abilities=("attention",),
)
