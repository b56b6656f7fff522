"""The settings of everything: tokens, models, objectives, training, a whole run.

They are plain data without torch, so that naming or listing a recipe costs nothing.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(gt=0)]


class TokensConfig(Config):
    """What a token is (prepare)."""

    kind: Literal["wordpiece", "bpe", "unigram", "words"] = "wordpiece"
    vocab_size: Annotated[int, Field(ge=300, le=1_000_000)] = 8000
    lowercase: bool = True
    byte_fallback: bool = False
    word_split: Literal["words", "whitespace"] = "words"
    sample_bytes: Positive = 48_000_000


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


class MaskedTokensConfig(Config):
    """Masked-token prediction (SPEC 5): which tokens are hidden, and how."""

    kind: Literal["masked_tokens"] = "masked_tokens"
    row_len: Annotated[int, Field(ge=8)] = 128
    mask_share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    mask_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.8
    random_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    whole_words: bool = False
    max_ngram: Annotated[int, Field(ge=1, le=8)] = 1  # above 1: runs of that many whole words are hidden together
    copies: Annotated[int, Field(ge=0)] = 0  # 0: new masks in every epoch; k: the same k in turn
    pairs: Literal["none", "next_sentence", "sentence_order"] = "none"
    short_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    mask_weight: Annotated[float, Field(ge=0)] = 1.0
    pair_weight: Annotated[float, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _shares_fit(self) -> "MaskedTokensConfig":
        if self.mask_token_prob + self.random_token_prob > 1:
            raise ValueError("mask_token_prob and random_token_prob add up to more than 1: lower one of them")
        return self


class TrainingConfig(Config):
    """The one loop: how long, how fast, what is kept."""

    batch_rows: Positive = 32
    accumulation: Positive = 1
    steps: Annotated[int, Field(gt=0)] | None = None
    epochs: Annotated[float, Field(gt=0)] | None = None
    budget: str | None = None
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    schedule: Literal["linear", "cosine", "inverse_sqrt", "constant"] = "linear"
    warmup_share: Annotated[float, Field(ge=0, le=1)] = 0.06
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    beta1: Probability = 0.9
    beta2: Probability = 0.98
    adam_eps: Annotated[float, Field(gt=0)] = 1e-6
    clip_norm: Annotated[float, Field(ge=0)] = 1.0
    evaluations: Annotated[int, Field(ge=0)] = 8
    evaluation_batches: Positive = 16
    checkpoints: Annotated[int, Field(ge=0)] = 8
    keep: Positive = 2
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    device: str = "cpu"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"

    @model_validator(mode="after")
    def _one_length(self) -> "TrainingConfig":
        given = [name for name in ("steps", "epochs", "budget") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} were given: say how long to train in one way only")
        if self.budget is not None:
            from firth.core.errors import FirthError
            from firth.core.units import parse_duration

            try:
                parse_duration(self.budget)
            except FirthError as error:
                raise ValueError(str(error)) from None
        return self


class RunConfig(Config):
    """Everything a pre-training run is made of; stored whole in the run."""

    recipe: str
    model: EncoderConfig
    objective: MaskedTokensConfig
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _positions_reach(self) -> "RunConfig":
        if self.objective.row_len > self.model.max_positions:
            raise ValueError(
                f"objective.row_len ({self.objective.row_len}) is longer than model.max_positions ({self.model.max_positions}): lower one or raise the other"
            )
        return self
