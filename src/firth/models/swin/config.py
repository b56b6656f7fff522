"""Swin's settings and recipes (Liu et al. 2021)."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Layers, Positive, Probability
from firth.core.registry import RunConfig, TrainingConfig
from firth.models.shared.configs import ImageClassesConfig, MaskedPatchesConfig, small_training


class SwinConfig(Config):
    """Stages of blocks in windows; between two stages 2 x 2 patches become one of twice the width."""

    image_size: Positive = 224  # pixels along an edge
    patch_size: Positive = 4  # pixels along the edge of a patch
    num_channels: Positive = 3  # 3 for colours, 1 for grey
    embedding_dim: Positive = 96  # the width of the first stage
    depths: Annotated[tuple[Layers, ...], Field(max_length=16)] = (2, 2, 6, 2)  # blocks of each stage
    num_heads: tuple[Positive, ...] = (3, 6, 12, 24)  # attention heads of each stage
    window_size: Positive = 7  # patches along the edge of a window
    ffn_ratio: Annotated[float, Field(gt=0)] = 4.0  # of the feed-forward layer to the width
    local_start: bool = False  # each head begins by looking at one neighbour, like the parts of a convolution
    dropout_prob: Probability = 0.0  # dropout of layers
    attention_dropout_prob: Probability = 0.0  # dropout of attention weights
    drop_path_prob: Probability = 0.0  # of the last block: its attention is left out for an image; of those below less
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"  # of feed-forward layers
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5  # added to the variance in norms
    init_std: Annotated[float, Field(gt=0)] = 0.02  # standard deviation of the initial weights

    @model_validator(mode="after")
    def _fits(self) -> "SwinConfig":
        if len(self.depths) != len(self.num_heads) or not self.depths:
            raise ValueError(f"depths has {len(self.depths)} stages, num_heads {len(self.num_heads)}: give as many")
        if self.image_size % self.patch_size:
            raise ValueError(f"patch_size ({self.patch_size}) does not divide image_size ({self.image_size})")
        for stage, heads in enumerate(self.num_heads):
            if self.width(stage) % heads:
                raise ValueError(
                    f"num_heads ({heads}) does not divide the width of stage {stage + 1} ({self.width(stage)})"
                )
            edge = self.image_size // self.patch_size / 2**stage
            if edge % self.window_size:
                raise ValueError(
                    f"stage {stage + 1} has {edge:g} x {edge:g} patches, which windows of {self.window_size} do not fill: change image_size, patch_size or window_size"
                )
        return self

    def width(self, stage: int) -> int:
        return self.embedding_dim << stage


def swin_tiny() -> RunConfig:
    """Stages of 2, 2 and 2 blocks from a width of 48 on 32 x 32 pixels in patches of 2: minutes on a laptop."""
    return RunConfig(
        recipe="swin-tiny",
        spec="swin",
        model=SwinConfig(
            image_size=32,
            patch_size=2,
            embedding_dim=48,
            depths=(2, 2, 2),
            num_heads=(3, 6, 12),
            window_size=4,
            ffn_ratio=2.0,
            local_start=True,
        ),
        objective=ImageClassesConfig(),
        training=small_training(),
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
        model=SwinConfig(embedding_dim=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32), drop_path_prob=0.1),
        objective=ImageClassesConfig(),
        training=training,
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "swin-tiny": swin_tiny,
    "swin-tiny-masked": swin_tiny_masked,
    "swin-base": swin_base,
}
