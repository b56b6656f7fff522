"""ELMo's settings: characters, filters and LSTMs of its network, how its words are scored, and its recipes up to the
published size."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Layers, Positive, Probability, Width
from firth.core.registry import ObjectiveConfig, RunConfig, TrainingConfig


class ElmoConfig(Config):
    """ELMo's bidirectional language model (Peters et al. 2018), with its published sizes."""

    char_dim: Width = 16  # width of a character
    filters: Annotated[tuple[tuple[Width, Width], ...], Field(min_length=1, max_length=1000)] = (
        *((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    )  # (width, how many)
    num_highway: Annotated[int, Field(ge=0, le=100)] = 2  # highway layers over the character CNN
    activation: Literal["relu", "tanh"] = "relu"  # of the character CNN
    max_chars: Annotated[int, Field(ge=4, le=10_000)] = 50  # of a word, with its borders
    projection_dim: Width = 512  # what a direction gives; a word has twice as much
    cell_dim: Width = 4096  # units of an LSTM cell
    num_layers: Layers = 2  # LSTM layers of each direction
    residual: bool = True  # adds the input of each layer to its output
    cell_clip: Annotated[float, Field(ge=0)] = 3.0  # 0: none
    projection_clip: Annotated[float, Field(ge=0)] = 3.0  # of the outputs; 0: none
    dropout_prob: Probability = 0.1  # dropout of layers
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

    kind: Literal["both_directions"] = "both_directions"  # what is learned
    seq_len: Positive = 20  # words until backpropagation is cut; the state goes on
    max_vocab: Positive | None = None  # of the softmax; the characters of every word are read
    min_count: Positive = 1  # words of the softmax that occur less often are left out
    softmax: Literal["table", "characters"] = "table"  # output vectors from a table, or from characters
    num_samples: Annotated[int, Field(ge=0)] = 8192  # noise words of a batch; 0: the whole vocabulary
    softmax_network: Literal["own", "shared"] = "own"  # for characters: a network apart, or the token layer
    correction_dim: Width = 128  # of a word's own vector, added to the one from characters
    reset_between_sentences: bool = False  # the state begins anew with each sentence


def elmo_tiny() -> RunConfig:
    """256 cells, 64 dimensions per direction, 256 filters: minutes on a laptop. It begins with word vectors of the same text."""
    model = ElmoConfig(
        filters=((1, 16), (2, 32), (3, 64), (4, 64), (5, 80)),
        num_highway=1,
        projection_dim=64,
        cell_dim=256,
        dropout_prob=0.0,
    )
    tiny = _elmo("elmo-tiny", model, 8e-3, 1024, 20_000, batch_size=16, evaluation_batches=64)
    return tiny.replace(training=tiny.training.replace(embeddings="auto").model_dump())


def elmo_small() -> RunConfig:
    """1024 cells, 128 dimensions per direction: the published small size."""
    model = ElmoConfig(num_highway=1, projection_dim=128, cell_dim=1024, dropout_prob=0.0)
    return _elmo("elmo-small", model, 4e-3, 2048, 50_000, batch_size=16, evaluation_batches=64)


def elmo_medium() -> RunConfig:
    """2048 cells, 256 dimensions per direction: the published medium size."""
    model = ElmoConfig(num_highway=1, projection_dim=256, cell_dim=2048)
    return _elmo("elmo-medium", model, 1e-3, 8192, 200_000)


def elmo_original() -> RunConfig:
    """4096 cells, 512 dimensions per direction: the published size."""
    return _elmo("elmo-original", ElmoConfig(), 1e-3, 8192, 800_000, batch_size=128)


def _elmo(
    name: str,
    model: ElmoConfig,
    learning_rate: float,
    num_samples: int,
    max_vocab: int,
    batch_size: int = 64,
    evaluation_batches: int = 16,
) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="elmo",
        model=model,
        objective=BothDirectionsConfig(num_samples=num_samples, max_vocab=max_vocab),
        training=TrainingConfig(
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=0.0,
            clip_norm=10.0,
            schedule="cosine",
            evaluation_batches=evaluation_batches,
        ),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "elmo-tiny": elmo_tiny,
    "elmo-small": elmo_small,
    "elmo-medium": elmo_medium,
    "elmo-original": elmo_original,
}
