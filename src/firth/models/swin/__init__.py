"""Swin (Liu et al. 2021): attention in shifted windows of an image, in stages that get coarser."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.shared.configs import ImageClassesConfig, MaskedPatchesConfig
from firth.models.swin.config import RECIPES, SwinConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.shared.image_objective import ImagePretraining
    from firth.models.swin.format import FORMAT

    class SwinPretraining(ImagePretraining):
        format = FORMAT

    return SwinPretraining


def _load(folder: Path) -> "Model":
    from firth.models.shared.image_model import ImageModel
    from firth.models.swin.format import FORMAT

    return ImageModel(folder, FORMAT, "Swin")


SPEC = ModelSpec(
    name="swin",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=_load,
    network=SwinConfig,
    objectives=(ImageClassesConfig, MaskedPatchesConfig),
    tokens=("images",),
    model_types=("swin",),
    reads_images=True,
)
