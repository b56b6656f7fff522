"""The settings of models, one config a shape; ``kind`` says which."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Positive, Probability
from firth.core.configs import ObjectiveConfig


class DecoderConfig(Config):
    """A GPT-2-shaped Transformer decoder (Radford et al. 2019): norm first, learned positions, tied head."""

    vocab_size: Annotated[int, Field(gt=2)] = 50257
    hidden_dim: Positive = 768
    num_layers: Positive = 12
    num_heads: Positive = 12
    ffn_dim: Positive = 3072
    max_positions: Annotated[int, Field(gt=1)] = 1024
    dropout_prob: Probability = 0.1
    attention_dropout_prob: Probability = 0.1
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu_tanh"
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5
    init_std: Annotated[float, Field(gt=0)] = 0.02

    # What its blocks share with those of encoders, where it is a choice.
    norm: ClassVar[Literal["layer"]] = "layer"
    norm_first: ClassVar[bool] = True
    gated: ClassVar[bool] = False
    bias: ClassVar[bool] = True

    @model_validator(mode="after")
    def _heads_divide(self) -> "DecoderConfig":
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                f"num_heads ({self.num_heads}) does not divide hidden_dim ({self.hidden_dim}): choose heads that do"
            )
        return self


class NextTokenConfig(ObjectiveConfig):
    """Next-token prediction: what a row of training text is."""

    kind: Literal["next_token"] = "next_token"
    seq_len: Annotated[int, Field(ge=2)] = 128
    rows: Literal["documents", "stream"] = "documents"
