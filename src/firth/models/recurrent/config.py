"""The settings of models, one config a shape; ``kind`` says which."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Positive, Probability
from firth.core.configs import ObjectiveConfig


class RecurrentConfig(Config):
    """A recurrent network over tokens."""

    vocab_size: Annotated[int, Field(gt=2)] = 10000
    cell: Literal["rnn_tanh", "rnn_relu", "lstm", "peephole", "coupled", "gru", "gru_after", "lstmp"] = "lstm"
    embed_dim: Positive = 256
    hidden_dim: Positive = 256
    cell_dim: Positive | None = None  # of lstmp, whose outputs are hidden_dim; none: four times as many
    cell_clip: Annotated[float, Field(ge=0)] = 3.0  # of lstmp; 0: cells are not cut off
    projection_clip: Annotated[float, Field(ge=0)] = 3.0  # of lstmp's outputs; 0: not cut off
    num_layers: Positive = 2
    bidirectional: bool = False
    residual: bool = False
    tied: bool = True  # the token table is the output matrix too: the last layer has embed_dim units
    dropout_prob: Probability = 0.0  # between layers
    input_dropout_prob: Probability = 0.0
    output_dropout_prob: Probability = 0.0
    embedding_dropout_prob: Probability = 0.0  # of whole words
    weight_drop_prob: Probability = 0.0  # of recurrent weights
    variational: bool = False  # one dropout mask for all steps
    init_range: Annotated[float, Field(gt=0)] = 0.1

    @property
    def hidden_dims(self) -> list[int]:
        """The units of each layer, in each direction."""
        last = self.embed_dim if self.tied and not self.bidirectional else self.hidden_dim
        return [self.hidden_dim] * (self.num_layers - 1) + [last]

    @property
    def num_cells(self) -> int:
        """Of a projected LSTM."""
        return self.cell_dim or 4 * max(self.hidden_dims)

    @model_validator(mode="after")
    def _cells_suffice(self) -> "RecurrentConfig":
        if self.cell_dim is not None and self.cell != "lstmp":
            raise ValueError(f"cell_dim is for cell=lstmp, not for {self.cell}: leave it out")
        if self.cell == "lstmp" and self.num_cells < max(self.hidden_dims):
            raise ValueError(
                f"cell_dim ({self.cell_dim}) is less than the {max(self.hidden_dims)} outputs of a layer: raise it"
            )
        return self


class NextTokenStreamsConfig(ObjectiveConfig):
    """Each token from all before it, in streams with carried state."""

    kind: Literal["next_token_streams"] = "next_token_streams"
    seq_len: Annotated[int, Field(ge=2)] = 70  # how far gradients reach back
    random_windows: bool = False  # of varying length about seq_len, so that borders fall elsewhere in every epoch
    carry_state: bool = True  # the state goes on from one window to the next
    unit: Literal["document", "sentence"] = "document"  # what ends with an end token
    min_count: Positive = 1  # of words, where the corpus is one of words
    max_vocab: Positive | None = 50_000
    output: Literal["full", "adaptive", "sampled", "nce"] = "full"
    noise: Literal["unigram", "uniform", "log_uniform"] = "unigram"
    num_noise: Positive = 1024  # drawn once a batch
    activation_penalty: Annotated[float, Field(ge=0)] = 0.0  # on large outputs (AR)
    temporal_activation_penalty: Annotated[float, Field(ge=0)] = 0.0  # on outputs that change from step to step (TAR)
