"""ViT's settings and recipes (Dosovitskiy et al. 2021)."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Layers, Positive, Probability
from firth.core.registry import RunConfig, TrainingConfig
from firth.models.shared.configs import ImageClassesConfig, MaskedPatchesConfig, small_training


class VitConfig(Config):
    """Patches of ``patch_size`` pixels, a class token or the mean, BERT's blocks with the norm first."""

    image_size: Positive = 224  # pixels along an edge
    patch_size: Positive = 16  # pixels along the edge of a patch
    num_channels: Positive = 3  # 3 for colours, 1 for grey
    hidden_dim: Positive = 768  # width of the layers
    num_layers: Layers = 12  # number of layers
    num_heads: Positive = 12  # attention heads of a layer
    ffn_dim: Positive = 3072  # width of the feed-forward layers
    pool: Literal["cls", "mean"] = "cls"  # what is classified; mean: there is no class token
    positions: Literal["learned", "sinusoidal"] = "learned"  # how positions are encoded
    start: Literal["normal", "mimetic"] = "normal"  # mimetic: attention begins as in trained networks
    dropout_prob: Probability = 0.0  # dropout of layers
    attention_dropout_prob: Probability = 0.0  # dropout of attention weights
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"  # of feed-forward layers
    norm_eps: Annotated[float, Field(gt=0)] = 1e-12  # added to the variance in norms
    init_std: Annotated[float, Field(gt=0)] = 0.02  # standard deviation of the initial weights

    @model_validator(mode="after")
    def _fits(self) -> "VitConfig":
        if self.image_size % self.patch_size:
            raise ValueError(f"patch_size ({self.patch_size}) does not divide image_size ({self.image_size})")
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                f"num_heads ({self.num_heads}) does not divide hidden_dim ({self.hidden_dim}): choose heads that do"
            )
        if self.positions == "sinusoidal" and self.hidden_dim % 4:
            raise ValueError(
                f"2-D sinusoids need a hidden_dim that 4 divides, not {self.hidden_dim}: change one of them"
            )
        return self

    # what a block asks (``BlockConfig``)

    @property
    def gated(self) -> bool:
        return False

    @property
    def norm(self) -> str:
        return "layer"

    @property
    def norm_first(self) -> bool:
        return True

    @property
    def bias(self) -> bool:
        return True


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
        training=small_training(),
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
