"""The settings of models, one config a shape; ``kind`` says which."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Positive, Probability


class EncoderConfig(Config):
    """A BERT-shaped Transformer encoder (Devlin et al. 2018), with the later choices as options."""

    kind: Literal["encoder"] = "encoder"
    vocab_size: Annotated[int, Field(gt=5)] = 30522
    hidden_dim: Positive = 768
    num_layers: Positive = 12
    num_heads: Positive = 12
    ffn_dim: Positive = 3072
    max_positions: Positive = 512
    num_segments: Positive = 2
    dropout_prob: Probability = 0.1
    attention_dropout_prob: Probability = 0.1
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    gated: bool = False
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = False
    positions: Literal["learned", "rotary", "relative", "none"] = "learned"
    bias: bool = True
    norm_eps: Annotated[float, Field(gt=0)] = 1e-12
    init_std: Annotated[float, Field(gt=0)] = 0.02

    @model_validator(mode="after")
    def _heads_divide(self) -> "EncoderConfig":
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                f"num_heads ({self.num_heads}) does not divide hidden_dim ({self.hidden_dim}): choose heads that do"
            )
        if self.positions == "rotary" and self.hidden_dim // self.num_heads % 2:
            raise ValueError(
                f"rotary positions need heads of even size, not {self.hidden_dim // self.num_heads}: change num_heads or hidden_dim"
            )
        return self


AnyModelConfig = EncoderConfig
"""Becomes a union told apart by ``kind`` as shapes are added: ``Annotated[A | B, Field(discriminator="kind")]``."""
