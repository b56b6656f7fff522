"""UniLM (Dong et al. 2019): one encoder under four attention masks, which also writes."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.shared.configs import EncoderConfig
from firth.models.unilm.config import RECIPES, MaskedTargetsConfig, UnifiedMasksConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.unilm.objective import UnilmPretraining, UnilmWriting

    return UnilmWriting if isinstance(objective, MaskedTargetsConfig) else UnilmPretraining


def _load(folder: Path) -> "Model":
    from firth.models.unilm.model import UnilmModel

    return UnilmModel.load(folder)


SPEC = ModelSpec(
    name="unilm",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=_load,
    network=EncoderConfig,
    objectives=(UnifiedMasksConfig, MaskedTargetsConfig),
    tokens=("wordpiece", "unigram"),
    tuned_whole=True,
    abilities=("fill", "follows", "generate", "translate", "attention"),
)
