"""ViT's recipes."""

from collections.abc import Callable

from firth.core.registry import RunConfig, TrainingConfig
from firth.models.shared.image_configs import ImageClassesConfig, MaskedPatchesConfig
from firth.models.vit.config import VitConfig


def vit_tiny() -> RunConfig:
    """6 layers of 128 on 32 x 32 pixels in patches of 4: minutes on a laptop."""
    return RunConfig(
        recipe="vit-tiny",
        spec="vit",
        model=VitConfig(
            image_size=32,
            patch_size=4,
            hidden_dim=128,
            num_layers=6,
            num_heads=4,
            ffn_dim=256,
            positions="sinusoidal",
            start="mimetic",
        ),
        objective=ImageClassesConfig(),
        training=TrainingConfig(
            batch_size=64,
            optimizer="muon",
            learning_rate=1e-3,
            warmup_ratio=0.1,
            weight_decay=0.05,
            evaluation_batches=64,
        ),
    )


def vit_tiny_masked() -> RunConfig:
    """vit-tiny that learns the pixels of hidden patches, without labels."""
    return vit_tiny().replace(recipe="vit-tiny-masked", objective=MaskedPatchesConfig())


def vit_base() -> RunConfig:
    """12 layers of 768 on 224 x 224 pixels in patches of 16, the published base size."""
    training = TrainingConfig(batch_size=32, learning_rate=3e-4, warmup_ratio=0.1, weight_decay=0.1, schedule="cosine")
    return RunConfig(
        recipe="vit-base",
        spec="vit",
        model=VitConfig(),
        objective=ImageClassesConfig(),
        training=training,
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "vit-tiny": vit_tiny,
    "vit-tiny-masked": vit_tiny_masked,
    "vit-base": vit_base,
}
