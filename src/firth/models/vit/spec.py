"""ViT as a member of the family."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.shared.image_configs import ImageClassesConfig, MaskedPatchesConfig
from firth.models.vit.config import RECIPES, VitConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.vit.format import VitPretraining

    return VitPretraining


def _load(folder: Path) -> "Model":
    from firth.models.shared.image_model import ImageModel
    from firth.models.vit.format import FORMAT

    return ImageModel(folder, FORMAT, "ViT")


SPEC = ModelSpec(
    name="vit",
    recipes=RECIPES,
    pretraining=_pretraining,
    load=_load,
    network=VitConfig,
    objectives=(ImageClassesConfig, MaskedPatchesConfig),
    tokens=("images",),
    model_types=("vit", "firth-vit", "vit_mae"),
    is_transformer=True,
    reads_images=True,
)
