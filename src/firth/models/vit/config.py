"""ViT's settings and recipes, from 32 x 32 pixels and minutes to the published base (Dosovitskiy et al. 2021)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Positive, Probability


class VitConfig(Config):
    """Patches of ``patch_size`` pixels, a class token or the mean, BERT's blocks with the norm first."""

    image_size: Positive = 224
    patch_size: Positive = 16
    num_channels: Positive = 3
    hidden_dim: Positive = 768
    num_layers: Positive = 12
    num_heads: Positive = 12
    ffn_dim: Positive = 3072
    pool: Literal["cls", "mean"] = "cls"  # what is classified; mean: there is no class token
    positions: Literal["learned", "sinusoidal"] = "learned"
    start: Literal["normal", "mimetic"] = "normal"  # mimetic: attention begins as in trained networks
    dropout_prob: Probability = 0.0
    attention_dropout_prob: Probability = 0.0
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    norm_eps: Annotated[float, Field(gt=0)] = 1e-12
    init_std: Annotated[float, Field(gt=0)] = 0.02

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
