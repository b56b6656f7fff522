"""The settings of models, one config a shape; ``kind`` says which."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Positive, Probability
from firth.core.configs import ObjectiveConfig


class ElmoConfig(Config):
    """ELMo's bidirectional language model (Peters et al. 2018), with its published sizes."""

    char_dim: Positive = 16
    filters: Annotated[tuple[tuple[Positive, Positive], ...], Field(min_length=1)] = (
        *((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    )  # (width, how many)
    num_highway: Annotated[int, Field(ge=0)] = 2
    activation: Literal["relu", "tanh"] = "relu"
    max_chars: Annotated[int, Field(ge=4)] = 50  # of a word, with its borders
    projection_dim: Positive = 512  # what a direction gives; a word has twice as much
    cell_dim: Positive = 4096
    num_layers: Positive = 2
    residual: bool = True
    cell_clip: Annotated[float, Field(ge=0)] = 3.0  # 0: none
    projection_clip: Annotated[float, Field(ge=0)] = 3.0
    dropout_prob: Probability = 0.1
    num_characters: ClassVar[int] = 262  # 256 bytes, five marks, and 0 for no word

    @property
    def num_filters(self) -> int:
        return sum(number for _, number in self.filters)

    @property
    def project(self) -> bool:
        """As in the original: filters that have the right size already are not projected."""
        return self.num_filters != self.projection_dim

    @property
    def hidden_dim(self) -> int:
        return 2 * self.projection_dim

    @model_validator(mode="after")
    def _widths_fit(self) -> "ElmoConfig":
        widest = max(width for width, _ in self.filters)
        if widest > self.max_chars:
            raise ValueError(
                f"a filter of width {widest} is wider than a word of max_chars ({self.max_chars}): make it narrower"
            )
        return self


class BothDirectionsConfig(ObjectiveConfig):
    """The next word and the one before, jointly (Peters et al. 2018). ``batch_size`` of training is the number of streams."""

    kind: Literal["both_directions"] = "both_directions"
    seq_len: Positive = 20  # words until backpropagation is cut; the state goes on
    max_vocab: Positive | None = None  # of the softmax; the characters of every word are read
    min_count: Positive = 1
    softmax: Literal["table", "characters"] = "table"
    num_samples: Annotated[int, Field(ge=0)] = 8192  # noise words of a batch; 0: the whole vocabulary
    softmax_network: Literal["own", "shared"] = "own"  # for characters: a network apart, or the token layer
    correction_dim: Positive = 128
    reset_between_sentences: bool = False
