"""XLNet's settings: the shape of its two streams and their memory, which tokens are targets, and its recipes."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import MAX_VOCAB, Config, Layers, Positions, Probability, Width
from firth.core.registry import ObjectiveConfig, RunConfig, TrainingConfig


class TwoStreamConfig(Config):
    """A two-stream Transformer with relative positions (Yang et al. 2019)."""

    vocab_size: Annotated[int, Field(gt=5, le=MAX_VOCAB)] = 32000  # set from the corpus
    hidden_dim: Width = 768  # width of the layers
    num_layers: Layers = 12  # number of layers
    num_heads: Width = 12  # attention heads of a layer
    ffn_dim: Width = 3072  # width of the feed-forward layers
    max_positions: Positions = 512  # longer texts go through in windows; the model itself has no limit
    dropout_prob: Probability = 0.1  # dropout of layers
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"  # of feed-forward layers
    norm_eps: Annotated[float, Field(gt=0)] = 1e-12  # added to the variance in norms
    init_std: Annotated[float, Field(gt=0)] = 0.02  # standard deviation of the initial weights

    @model_validator(mode="after")
    def _heads_divide(self) -> "TwoStreamConfig":
        if self.hidden_dim % self.num_heads or self.hidden_dim % 2:
            raise ValueError(
                f"num_heads ({self.num_heads}) does not divide hidden_dim ({self.hidden_dim}), or it is odd: choose heads that do, and an even width"
            )
        return self


class PermutedOrderConfig(ObjectiveConfig):
    """Tokens predicted in a random order (XLNet, Yang et al. 2019)."""

    kind: Literal["permuted_order"] = "permuted_order"  # what is learned
    seq_len: Annotated[int, Field(ge=8)] = 128  # tokens of a row
    predict_one_in: Annotated[int, Field(ge=2)] = 6  # one token in so many is predicted
    max_span_len: Annotated[int, Field(ge=1)] = 5  # tokens that are predicted one after the other
    memory_len: Annotated[int, Field(ge=0)] = 64  # tokens of the text before that are remembered
    bidirectional_data: bool = True  # every second lane reads its text backward


def _xlnet(name: str, num_layers: int, hidden_dim: int, learning_rate: float) -> RunConfig:
    model = TwoStreamConfig(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=hidden_dim // 64,
        ffn_dim=4 * hidden_dim,
        dropout_prob=0.0,
    )
    return RunConfig(
        recipe=name,
        spec="xlnet",
        model=model,
        objective=PermutedOrderConfig(),
        training=TrainingConfig(learning_rate=learning_rate),
    )


def xlnet_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _xlnet("xlnet-tiny", 2, 128, 2e-3)


def xlnet_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _xlnet("xlnet-mini", 4, 256, 1e-3)


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "xlnet-tiny": xlnet_tiny,
    "xlnet-mini": xlnet_mini,
}
