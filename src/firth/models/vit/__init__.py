"""ViT (Dosovitskiy et al. 2021): a Transformer encoder over the patches of an image."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.shared.configs import ImageClassesConfig, MaskedPatchesConfig
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
    in_transformers=True,
    suggested={"images": "vit-tiny", "images without labels": "vit-tiny-masked"},
    pretraining=_pretraining,
    load=_load,
    network=VitConfig,
    objectives=(ImageClassesConfig, MaskedPatchesConfig),
    tokens=("images",),
    model_types=("vit", "firth-vit", "vit_mae"),
    reads_images=True,
    abilities=("look",),
)
