"""What networks of images may learn: plain settings, without torch."""

from typing import Annotated, Literal

from pydantic import Field

from firth.core.registry import ObjectiveConfig, TrainingConfig
from firth.corpus.images import AugmentConfig


class ImageObjectiveConfig(ObjectiveConfig):
    """How training images are changed."""

    augment: AugmentConfig = AugmentConfig()


class ImageClassesConfig(ImageObjectiveConfig):
    """The label of an image."""

    kind: Literal["image_classes"] = "image_classes"  # what is learned
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = (
        0.1  # share of the probability that is spread over all classes
    )


class MaskedPatchesConfig(ImageObjectiveConfig):
    """The pixels of hidden patches from those that are seen."""

    kind: Literal["masked_patches"] = "masked_patches"  # what is learned
    mask_prob: Annotated[float, Field(gt=0, lt=1)] = 0.6  # share of the patches that are hidden
    mask_size: Annotated[int, Field(ge=0)] = 0  # pixels along the edge of what is hidden; 0: a token of the last layer


def small_training() -> TrainingConfig:
    """For the smallest sizes: minutes on a laptop."""
    return TrainingConfig(
        batch_size=64,
        optimizer="muon",
        learning_rate=1e-3,
        warmup_ratio=0.1,
        weight_decay=0.05,
        evaluation_batches=64,
    )
