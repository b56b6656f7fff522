"""Settings that several models share: the encoder, the encoder-decoder, masking, translation, images."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from firth.core.config import MAX_VOCAB, Config, Layers, Positions, Positive, Probability, Width
from firth.core.registry import ObjectiveConfig, TrainingConfig
from firth.corpus.images import AugmentConfig


class EncoderConfig(Config):
    """A BERT-shaped Transformer encoder (Devlin et al. 2018), with the later choices as options."""

    vocab_size: Annotated[int, Field(gt=5, le=MAX_VOCAB)] = 30522  # set from the corpus
    hidden_dim: Width = 768  # width of the layers
    embedding_dim: Width | None = None  # of the embeddings, where they are narrower than the rest
    num_layers: Layers = 12  # number of layers
    num_heads: Width = 12  # attention heads of a layer
    ffn_dim: Width = 3072  # width of the feed-forward layers
    max_positions: Positions = 512  # longest input, in tokens
    num_segments: Annotated[int, Field(ge=0, le=1 << 16)] = (
        2  # 0: texts of a pair are distinguished by their special tokens alone
    )
    num_tasks: Annotated[int, Field(ge=0, le=1 << 16)] = (
        0  # above 0: a vector for each training task is added to the tokens
    )
    dropout_prob: Probability = 0.1  # dropout of layers
    attention_dropout_prob: Probability = 0.1  # dropout of attention weights
    activation: Literal["gelu", "gelu_tanh", "relu"] = "gelu"  # of feed-forward layers
    gated: bool = False  # gated feed-forward layers
    norm: Literal["layer", "rms"] = "layer"  # layer norm or RMS norm
    norm_first: bool = False  # before each sublayer (pre-norm), not after it
    first_norm: bool = True  # false, with norm_first: the first block reads the embeddings as they are, normed already
    positions: Literal["learned", "rotary", "relative", "learned_relative", "disentangled", "none"] = (
        "learned"  # how positions are encoded
    )
    rotary_base: Annotated[float, Field(gt=1)] = 10000.0  # of rotary positions
    position_buckets: Positive = 256  # of disentangled positions: how many distances to either side are distinguished
    window: Positive | None = None  # how far local layers look to either side; none: all layers look everywhere
    global_every: Positive = 1  # with a window: of so many layers the first looks everywhere
    local_rotary_base: Annotated[float, Field(gt=1)] = 10000.0  # of local layers
    share_layers: bool = False  # one block, passed through num_layers times
    pooler_activation: Literal["tanh", "relu", "gelu"] = "tanh"  # of the layer over [CLS]
    published_as: str = (
        ""  # the model_type of the directory that it comes from and is written as; "": as far as one fits
    )
    local_start: bool = False  # with rotary positions: heads begin by looking at neighbours
    bias: bool = True  # whether linear layers have one
    norm_eps: Annotated[float, Field(gt=0)] = 1e-12  # added to the variance in norms
    init_std: Annotated[float, Field(gt=0)] = 0.02  # standard deviation of the initial weights
    table_std: Annotated[float, Field(gt=0)] | None = None  # of the token table at first; none: as all weights

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
        if self.window is not None and self.positions not in ("learned", "rotary", "none"):
            raise ValueError(f"a window cannot go with positions={self.positions}: leave it out")
        if self.share_layers and not self.first_norm:
            raise ValueError("share_layers needs blocks that are alike: leave out first_norm=false")
        if self.local_start and (self.positions != "rotary" or self.token_dim != self.hidden_dim):
            raise ValueError("local_start needs positions=rotary and embeddings as wide as the rest: leave it out")
        if not self.first_norm and not self.norm_first:
            raise ValueError("first_norm=false is for norms that come first: set norm_first=true with it")
        return self


class TranslatorConfig(Config):
    """The vocabularies of a network that reads a source and writes a target.

    ``target_vocab_size`` None: both sides share one table.
    """

    vocab_size: Annotated[int, Field(gt=2, le=MAX_VOCAB)] = 32000  # set from the corpus
    target_vocab_size: Annotated[int, Field(gt=2, le=MAX_VOCAB)] | None = (
        None  # none: source and target share one table
    )


class EncoderDecoderConfig(TranslatorConfig):
    """A Transformer encoder and decoder (Vaswani et al. 2017), with T5's choices as options (Raffel et al. 2020).

    ``window`` limits how far self-attention looks.
    """

    hidden_dim: Width = 512  # width of the layers
    num_layers: Layers = 6  # number of layers
    num_decoder_layers: Layers = 6  # number of decoder layers
    num_heads: Width = 8  # attention heads of a layer
    head_dim: Width | None = None  # width of a head; none: hidden_dim / num_heads
    ffn_dim: Width = 2048  # width of the feed-forward layers
    max_positions: Positions = 512  # longest input, in tokens
    dropout_prob: Probability = 0.1  # dropout of layers
    attention_dropout_prob: Probability = 0.0  # dropout of attention weights
    activation_dropout_prob: Probability = 0.0  # dropout inside feed-forward layers
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "relu"  # of feed-forward layers
    gated: bool = False  # gated feed-forward layers
    norm: Literal["layer", "rms"] = "layer"  # layer norm or RMS norm
    norm_first: bool = False  # before each sublayer (pre-norm), not after it
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5  # added to the variance in norms
    positions: Literal["sinusoidal", "learned", "relative", "none"] = "sinusoidal"  # how positions are encoded
    bias: bool = True  # whether linear layers have one
    embedding_scale: Annotated[float, Field(gt=0)] | None = None  # None: √hidden_dim
    output_scale: Annotated[float, Field(gt=0)] = 1.0  # of the states before the output layer
    tied_output: bool = True  # the target table is the output layer, too
    output_bias: bool = True  # whether the output layer has one
    window: Positive | None = None  # how far self-attention looks to either side; none: everywhere

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


class MaskingConfig(ObjectiveConfig):
    """Which tokens are hidden, and how."""

    seq_len: Annotated[int, Field(ge=8)] = 128  # tokens of a row
    mask_prob: Annotated[float, Field(gt=0, lt=1)] = 0.15  # share of the tokens that are hidden
    mask_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.8  # of the hidden ones: become [MASK]
    random_token_prob: Annotated[float, Field(ge=0, le=1)] = (
        0.1  # of the hidden ones: become a random token; the rest stay
    )
    whole_word_mask: bool = False  # all pieces of a word are hidden together
    max_ngram: Annotated[int, Field(ge=1, le=8)] = 1  # above 1: runs of that many whole words are hidden together
    dupe_factor: Annotated[int, Field(ge=0)] = 0  # 0: new masks in every epoch; k: the same k in turn

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.mask_token_prob + self.random_token_prob > 1:
            raise ValueError("mask_token_prob and random_token_prob add up to more than 1: lower one of them")
        return self


class TranslationConfig(ObjectiveConfig):
    """Another language from a sentence, token by token under teacher forcing."""

    kind: Literal["translation"] = "translation"  # what is learned
    batch_tokens: Annotated[int, Field(ge=16)] = 4096  # of a side, padding counted
    label_smoothing: Probability = 0.1  # share of the probability that is spread over all answers
    max_source_len: Positive | None = None  # tokens; a longer source loses its end
    max_target_len: Positive | None = None  # tokens; a longer target loses its end


def sized_encoder(num_layers: int, hidden_dim: int, dropout_prob: float = 0.0) -> EncoderConfig:
    """In the proportions of BERT: heads of 64, a feed-forward layer four times as wide."""
    return EncoderConfig(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=hidden_dim // 64,
        ffn_dim=4 * hidden_dim,
        dropout_prob=dropout_prob,
        attention_dropout_prob=dropout_prob,
    )


def translation_training(
    learning_rate: float, schedule: Literal["cosine", "inverse_sqrt"] = "cosine", average: int = 1
) -> TrainingConfig:
    """A row is a whole batch of pairs here."""
    return TrainingConfig(
        batch_size=1,
        learning_rate=learning_rate,
        schedule=schedule,
        warmup_ratio=0.1,
        weight_decay=0.0,
        adam_eps=1e-9,
        checkpoints=20,
        average=average,
    )


# -- what networks of images may learn: plain settings, without torch.


class ImageObjectiveConfig(ObjectiveConfig):
    """How training images are changed."""

    augment: AugmentConfig = AugmentConfig()


class ImageClassesConfig(ImageObjectiveConfig):
    """The label of an image."""

    kind: Literal["image_classes"] = "image_classes"  # what is learned
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = (
        0.1  # share of the probability that is spread over all classes
    )


class MaskedPatchesConfig(ImageObjectiveConfig):
    """The pixels of hidden patches from those that are seen."""

    kind: Literal["masked_patches"] = "masked_patches"  # what is learned
    mask_prob: Annotated[float, Field(gt=0, lt=1)] = 0.6  # share of the patches that are hidden
    mask_size: Annotated[int, Field(ge=0)] = 0  # pixels along the edge of what is hidden; 0: a token of the last layer


def small_training() -> TrainingConfig:
    """For the smallest sizes: minutes on a laptop."""
    return TrainingConfig(
        batch_size=64,
        optimizer="muon",
        learning_rate=1e-3,
        warmup_ratio=0.1,
        weight_decay=0.05,
        evaluation_batches=64,
    )
