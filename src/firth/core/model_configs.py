"""The settings of models, one config a shape; ``kind`` says which."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Positive, Probability


class EncoderConfig(Config):
    """A BERT-shaped Transformer encoder (Devlin et al. 2018), with the later choices as options."""

    kind: Literal["encoder"] = "encoder"
    vocab_size: Annotated[int, Field(gt=5)] = 30522
    hidden_dim: Positive = 768
    embedding_dim: Positive | None = None  # of the embeddings, where they are narrower than the rest
    num_layers: Positive = 12
    num_heads: Positive = 12
    ffn_dim: Positive = 3072
    max_positions: Positive = 512
    num_segments: Positive = 2
    num_tasks: Annotated[int, Field(ge=0)] = 0  # above 0: a vector for each training task is added to the tokens
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

    @property
    def token_dim(self) -> int:
        """The width of the embeddings."""
        return self.embedding_dim or self.hidden_dim

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


class TwoStreamConfig(Config):
    """A two-stream Transformer with relative positions (Yang et al. 2019)."""

    kind: Literal["two_stream"] = "two_stream"
    vocab_size: Annotated[int, Field(gt=5)] = 32000
    hidden_dim: Positive = 768
    num_layers: Positive = 12
    num_heads: Positive = 12
    ffn_dim: Positive = 3072
    max_positions: Positive = 512  # longer texts go through in windows; the model itself has no limit
    dropout_prob: Probability = 0.1
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"
    norm_eps: Annotated[float, Field(gt=0)] = 1e-12
    init_std: Annotated[float, Field(gt=0)] = 0.02

    @model_validator(mode="after")
    def _heads_divide(self) -> "TwoStreamConfig":
        if self.hidden_dim % self.num_heads or self.hidden_dim % 2:
            raise ValueError(
                f"num_heads ({self.num_heads}) does not divide hidden_dim ({self.hidden_dim}), or it is odd: choose heads that do, and an even width"
            )
        return self


class EncoderDecoderConfig(Config):
    """A Transformer encoder and decoder (Vaswani et al. 2017), with T5's choices as options (Raffel et al. 2020).

    ``target_vocab_size`` None: both sides share one table.
    ``window`` limits how far self-attention looks.
    """

    kind: Literal["encoder_decoder"] = "encoder_decoder"
    vocab_size: Annotated[int, Field(gt=2)] = 32000
    target_vocab_size: Annotated[int, Field(gt=2)] | None = None
    hidden_dim: Positive = 512
    num_layers: Positive = 6
    num_decoder_layers: Positive = 6
    num_heads: Positive = 8
    head_dim: Positive | None = None
    ffn_dim: Positive = 2048
    max_positions: Positive = 512
    dropout_prob: Probability = 0.1
    attention_dropout_prob: Probability = 0.0
    activation_dropout_prob: Probability = 0.0
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "relu"
    gated: bool = False
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = False
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5
    positions: Literal["sinusoidal", "learned", "relative", "none"] = "sinusoidal"
    bias: bool = True
    embedding_scale: Annotated[float, Field(gt=0)] | None = None  # None: √hidden_dim
    output_scale: Annotated[float, Field(gt=0)] = 1.0
    tied_output: bool = True
    output_bias: bool = True
    window: Positive | None = None

    @property
    def by_width(self) -> bool:
        """Whether weights begin as T5's do, by what they read, tables at one: nothing scales tokens, norms only scale."""
        return self.embedding_scale == 1.0 and self.norm == "rms"

    @property
    def query_scale(self) -> float:
        """What scores are multiplied by."""
        return float((self.head_dim or self.hidden_dim // self.num_heads) ** -0.5)

    @model_validator(mode="after")
    def _heads_divide(self) -> "EncoderDecoderConfig":
        if self.head_dim is None and self.hidden_dim % self.num_heads:
            raise ValueError(
                f"num_heads ({self.num_heads}) does not divide hidden_dim ({self.hidden_dim}): choose heads that do"
            )
        return self


class Seq2SeqConfig(Config):
    """A recurrent encoder and decoder (Sutskever et al. 2014), with attention (Luong et al. 2015).

    ``target_vocab_size`` None: both sides share one table. A bidirectional encoder has half of
    ``hidden_dim`` in each direction.
    """

    kind: Literal["seq2seq"] = "seq2seq"
    vocab_size: Annotated[int, Field(gt=2)] = 32000
    target_vocab_size: Annotated[int, Field(gt=2)] | None = None
    cell: Literal["lstm", "gru"] = "lstm"
    hidden_dim: Positive = 512
    num_layers: Positive = 2
    bidirectional: bool = True
    attention: Literal["none", "dot", "general", "additive"] = "none"
    input_feeding: bool = False
    dropout_prob: Probability = 0.2
    tied_output: bool = True
    init_bound: Annotated[float, Field(gt=0)] = 0.08

    @model_validator(mode="after")
    def _shapes_fit(self) -> "Seq2SeqConfig":
        if self.bidirectional and self.hidden_dim % 2:
            raise ValueError(
                f"hidden_dim ({self.hidden_dim}) is odd, but a bidirectional encoder halves it: make it even"
            )
        if self.input_feeding and self.attention == "none":
            raise ValueError("input_feeding feeds what attention found: choose attention=dot, general or additive too")
        return self


class ElmoConfig(Config):
    """ELMo's bidirectional language model (Peters et al. 2018), with its published sizes."""

    kind: Literal["elmo"] = "elmo"
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


class RecurrentConfig(Config):
    """A recurrent network over tokens."""

    kind: Literal["recurrent"] = "recurrent"
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


class DecoderConfig(Config):
    """A GPT-2-shaped Transformer decoder (Radford et al. 2019): norm first, learned positions, tied head."""

    kind: Literal["decoder"] = "decoder"
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


AnyModelConfig = Annotated[
    EncoderConfig
    | DecoderConfig
    | TwoStreamConfig
    | EncoderDecoderConfig
    | Seq2SeqConfig
    | ElmoConfig
    | RecurrentConfig,
    Field(discriminator="kind"),
]
"""Told apart by ``kind``."""
