"""ELECTRA (Clark et al. 2020): an encoder that tells replaced tokens from original ones."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.electra.config import RECIPES, ReplacedTokensConfig
from firth.models.shared.configs import EncoderConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.published import EncoderFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.electra.objective import ElectraPretraining

    return ElectraPretraining


def _format() -> "EncoderFormat":
    from firth.models.electra.format import ELECTRA

    return ELECTRA


def _load(folder: Path) -> "Model":
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)


SPEC = ModelSpec(
    name="electra",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=_load,
    encoder_format=_format,
    network=EncoderConfig,
    objectives=(ReplacedTokensConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("electra",),
    tuned_whole=True,
    has_task_heads=True,
    abilities=("attention",),
)
