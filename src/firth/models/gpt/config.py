"""GPT's settings: the decoder's shape, what a row of training text is, and its recipes from tiny to GPT-2 small."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from firth.core.config import MAX_VOCAB, Config, Layers, Probability, Width
from firth.core.registry import ObjectiveConfig, RunConfig, TrainingConfig


class DecoderConfig(Config):
    """A GPT-2-shaped Transformer decoder (Radford et al. 2019): norm first, learned positions, tied head."""

    vocab_size: Annotated[int, Field(gt=2, le=MAX_VOCAB)] = 50257
    hidden_dim: Width = 768
    num_layers: Layers = 12
    num_heads: Width = 12
    ffn_dim: Width = 3072
    max_positions: Annotated[int, Field(gt=1, le=1 << 24)] = 1024
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


def _gpt(name: str, num_layers: int, hidden_dim: int, max_positions: int, learning_rate: float) -> RunConfig:
    model = DecoderConfig(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=hidden_dim // 64,
        ffn_dim=4 * hidden_dim,
        max_positions=max_positions,
        dropout_prob=0.0,
        attention_dropout_prob=0.0,
    )
    return RunConfig(
        recipe=name,
        spec="gpt",
        model=model,
        objective=NextTokenConfig(seq_len=max_positions),  # every position is learned
        training=TrainingConfig(
            batch_size=4096 // max_positions, learning_rate=learning_rate, schedule="cosine", weight_decay=0.1
        ),
    )


def gpt_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _gpt("gpt-tiny", 2, 128, 256, 2e-3)


def gpt_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _gpt("gpt-mini", 4, 256, 512, 1e-3)


def gpt_small() -> RunConfig:
    """12 layers of 768 and 1024 positions, the published small size."""
    small = _gpt("gpt-small", 12, 768, 1024, 6e-4)
    return small.replace(
        model=small.model.replace(dropout_prob=0.1, attention_dropout_prob=0.1),
        training=small.training.replace(batch_size=16),
    )


def gpt_char() -> RunConfig:
    """4 layers of 128 that see 64 characters: for a corpus of --tokens characters, minutes on a laptop."""
    char = _gpt("gpt-char", 4, 128, 64, 2e-3)
    return char.replace(
        model=char.model.replace(num_heads=4),
        objective=NextTokenConfig(seq_len=64, rows="stream"),
        training=char.training.replace(batch_size=12),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "gpt-tiny": gpt_tiny,
    "gpt-mini": gpt_mini,
    "gpt-small": gpt_small,
    "gpt-char": gpt_char,
}
