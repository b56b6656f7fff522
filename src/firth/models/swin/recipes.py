"""Swin's recipes."""

from collections.abc import Callable

from firth.core.registry import RunConfig, TrainingConfig
from firth.models.shared.image_configs import ImageClassesConfig, MaskedPatchesConfig
from firth.models.swin.config import SwinConfig


def swin_tiny() -> RunConfig:
    """Stages of 2, 2 and 2 blocks from a width of 48 on 32 x 32 pixels in patches of 2: minutes on a laptop."""
    return RunConfig(
        recipe="swin-tiny",
        spec="swin",
        model=SwinConfig(
            image_size=32,
            patch_size=2,
            embed_dim=48,
            depths=(2, 2, 2),
            num_heads=(3, 6, 12),
            window_size=4,
            ffn_ratio=2.0,
            local_start=True,
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


def swin_tiny_masked() -> RunConfig:
    """swin-tiny that learns the pixels of hidden patches, without labels."""
    return swin_tiny().replace(recipe="swin-tiny-masked", objective=MaskedPatchesConfig())


def swin_base() -> RunConfig:
    """Stages of 2, 2, 18 and 2 blocks from a width of 128 on 224 x 224 pixels, the published base size."""
    training = TrainingConfig(batch_size=32, learning_rate=3e-4, warmup_ratio=0.1, weight_decay=0.05, schedule="cosine")
    return RunConfig(
        recipe="swin-base",
        spec="swin",
        model=SwinConfig(embed_dim=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), drop_path_prob=0.1),
        objective=ImageClassesConfig(),
        training=training,
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "swin-tiny": swin_tiny,
    "swin-tiny-masked": swin_tiny_masked,
    "swin-base": swin_base,
}
