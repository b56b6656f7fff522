"""The settings of recurrent language models: the cells and their regularisers, the streams of text that they read, and the
recipes from the simple RNN to AWD-LSTM."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import MAX_VOCAB, Config, Layers, Positive, Probability, Width
from firth.core.registry import ObjectiveConfig, RunConfig, TrainingConfig


class RecurrentConfig(Config):
    """A recurrent network over tokens."""

    vocab_size: Annotated[int, Field(gt=2, le=MAX_VOCAB)] = 10000  # set from the corpus
    cell: Literal["rnn_tanh", "rnn_relu", "lstm", "peephole", "coupled", "gru", "gru_after", "lstmp"] = (
        "lstm"  # kind of recurrent cell
    )
    embedding_dim: Width = 256  # width of the token table
    hidden_dim: Width = 256  # units of a layer
    cell_dim: Width | None = None  # of lstmp, whose outputs are hidden_dim; none: four times as many
    cell_clip: Annotated[float, Field(ge=0)] = 3.0  # of lstmp; 0: cells are not cut off
    projection_clip: Annotated[float, Field(ge=0)] = 3.0  # of lstmp's outputs; 0: not cut off
    num_layers: Layers = 2  # number of layers
    bidirectional: bool = False  # reads in both directions
    residual: bool = False  # adds the input of each layer to its output
    tied_output: bool = True  # the token table is the output matrix too: the last layer has embedding_dim units
    dropout_prob: Probability = 0.0  # between layers
    input_dropout_prob: Probability = 0.0  # of the input of the first layer
    output_dropout_prob: Probability = 0.0  # of the output of the last layer
    embedding_dropout_prob: Probability = 0.0  # of whole words
    weight_drop_prob: Probability = 0.0  # of recurrent weights
    variational: bool = False  # one dropout mask for all steps
    init_range: Annotated[float, Field(gt=0)] = 0.1  # initial weights are uniform within ± this

    @property
    def hidden_dims(self) -> list[int]:
        """The units of each layer, in each direction."""
        last = self.embedding_dim if self.tied_output and not self.bidirectional else self.hidden_dim
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

    kind: Literal["next_token_streams"] = "next_token_streams"  # what is learned
    seq_len: Annotated[int, Field(ge=2)] = 70  # how far gradients reach back
    random_windows: bool = False  # of varying length about seq_len, so that borders fall elsewhere in every epoch
    carry_state: bool = True  # the state goes on from one window to the next
    unit: Literal["document", "sentence"] = "document"  # what ends with an end token
    min_count: Positive = 1  # of words, where the corpus is one of words
    max_vocab: Positive | None = 50_000  # the most frequent words are kept; none: all
    output: Literal["full", "adaptive", "sampled", "nce"] = "full"  # how the scores of all tokens are computed
    noise: Literal["unigram", "uniform", "log_uniform"] = "unigram"  # what noise tokens are drawn from
    num_noise: Positive = 1024  # drawn once a batch
    activation_penalty: Annotated[float, Field(ge=0)] = 0.0  # on large outputs (AR)
    temporal_activation_penalty: Annotated[float, Field(ge=0)] = 0.0  # on outputs that change from step to step (TAR)

    def check(self, model: Config) -> None:
        assert isinstance(model, RecurrentConfig)
        if self.output == "adaptive" and model.tied_output:
            raise ValueError(
                "objective.output=adaptive has matrices of its own shape: set model.tied_output=false with it"
            )
        if model.bidirectional:
            raise ValueError(
                "a bidirectional model has already read the token that is to be predicted: set model.bidirectional=false"
            )


_TRAINING = TrainingConfig(
    batch_size=32,
    learning_rate=5e-3,
    schedule="cosine",
    warmup_ratio=0.02,
    weight_decay=0.0,
    clip_norm=0.5,
    embeddings="auto",  # halves the perplexity of the first minutes (benchmarks/RESULTS.md)
)


def _language_model(name: str, model: RecurrentConfig, objective: NextTokenStreamsConfig | None = None) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="recurrent",
        model=model,
        objective=objective or NextTokenStreamsConfig(seq_len=35),
        training=_TRAINING,
    )


def rnn_lm() -> RunConfig:
    """The simple recurrent network, for comparison: see its gradients vanish."""
    return _language_model("rnn-lm", RecurrentConfig(cell="rnn_tanh"))


def lstm_lm() -> RunConfig:
    """Two layers of LSTM, 256 units, tied weights."""
    return _language_model("lstm-lm", RecurrentConfig(cell="lstm", dropout_prob=0.1, output_dropout_prob=0.1))


def gru_lm() -> RunConfig:
    """The same with gated recurrent units."""
    return _language_model("gru-lm", RecurrentConfig(cell="gru", dropout_prob=0.1, output_dropout_prob=0.1))


def lstm_lm_nce() -> RunConfig:
    """lstm-lm that never adds up its vocabulary while training."""
    objective = NextTokenStreamsConfig(seq_len=35, output="nce")
    model = RecurrentConfig(cell="lstm", dropout_prob=0.1, output_dropout_prob=0.1)
    return _language_model("lstm-lm-nce", model, objective)


def lstm_lm_regularised() -> RunConfig:
    """The regularisers of AWD-LSTM (Merity et al. 2018): weight drop, one mask for all steps, dropped words,
    penalties on outputs; with Adam instead of averaged SGD. Size, shares and a sampled softmax are those of a few
    epochs on a laptop; as published it is lstm-lm-awd."""
    model = RecurrentConfig(
        cell="lstm",
        embedding_dim=256,
        hidden_dim=512,
        num_layers=2,
        dropout_prob=0.1,
        input_dropout_prob=0.1,
        output_dropout_prob=0.1,
        embedding_dropout_prob=0.05,
        weight_drop_prob=0.2,
        variational=True,
    )
    objective = NextTokenStreamsConfig(
        seq_len=35, output="sampled", num_noise=2048, activation_penalty=2.0, temporal_activation_penalty=1.0
    )
    return _language_model("lstm-lm-regularised", model, objective)


def lstm_lm_awd() -> RunConfig:
    """AWD-LSTM as published for WikiText-2 (Merity et al. 2018): SGD at a rate of 30, averaged once it stops to improve,
    windows of random length; for hundreds of epochs, with an evaluation after each (epochs=750 evaluations=750)."""
    model = RecurrentConfig(
        cell="lstm",
        embedding_dim=400,
        hidden_dim=1150,
        num_layers=3,
        dropout_prob=0.2,
        input_dropout_prob=0.65,
        output_dropout_prob=0.4,
        embedding_dropout_prob=0.1,
        weight_drop_prob=0.5,
        variational=True,
    )
    objective = NextTokenStreamsConfig(
        seq_len=70, random_windows=True, activation_penalty=2.0, temporal_activation_penalty=1.0
    )
    training = TrainingConfig(
        batch_size=80,
        optimizer="averaged_sgd",
        learning_rate=30.0,
        schedule="constant",
        warmup_ratio=0.0,
        weight_decay=1.2e-6,
        clip_norm=0.25,
        evaluations=100,
    )
    return RunConfig(recipe="lstm-lm-awd", spec="recurrent", model=model, objective=objective, training=training)


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "rnn-lm": rnn_lm,
    "lstm-lm": lstm_lm,
    "gru-lm": gru_lm,
    "lstm-lm-nce": lstm_lm_nce,
    "lstm-lm-regularised": lstm_lm_regularised,
    "lstm-lm-awd": lstm_lm_awd,
}
