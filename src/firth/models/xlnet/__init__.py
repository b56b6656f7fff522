"""XLNet (Yang et al. 2019): tokens predicted in a random order, with a memory."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.xlnet.config import RECIPES, PermutedOrderConfig, TwoStreamConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.xlnet.objective import XlnetPretraining

    return XlnetPretraining


def _load(folder: Path) -> "Model":
    from firth.models.xlnet.format import load_xlnet
    from firth.models.xlnet.model import XlnetModel
    from firth.tokenizers.pieces import Pieces

    return XlnetModel(*load_xlnet(folder), Pieces.load(folder), folder)


SPEC = ModelSpec(
    name="xlnet",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=_load,
    network=TwoStreamConfig,
    objectives=(PermutedOrderConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("xlnet",),
    continues="xlnet-mini",
    tuned_whole=True,
    abilities=("fill", "attention"),
)
