"""The settings of objectives: what is predicted from what; ``kind`` says which."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from firth.core.config import Config, Positive, Probability


class MaskingConfig(Config):
    """Which tokens are hidden, and how."""

    row_len: Annotated[int, Field(ge=8)] = 128
    mask_share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    mask_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.8
    random_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    whole_words: bool = False
    max_ngram: Annotated[int, Field(ge=1, le=8)] = 1  # above 1: runs of that many whole words are hidden together
    copies: Annotated[int, Field(ge=0)] = 0  # 0: new masks in every epoch; k: the same k in turn

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.mask_token_prob + self.random_token_prob > 1:
            raise ValueError("mask_token_prob and random_token_prob add up to more than 1: lower one of them")
        return self


class MaskedTokensConfig(MaskingConfig):
    """Masked-token prediction (Devlin et al. 2019), and the pairs that go with it."""

    kind: Literal["masked_tokens"] = "masked_tokens"
    pairs: Literal["none", "next_sentence", "sentence_order"] = "none"
    short_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    mask_weight: Annotated[float, Field(ge=0)] = 1.0
    pair_weight: Annotated[float, Field(ge=0)] = 1.0


class ReplacedTokensConfig(MaskingConfig):
    """Replaced-token detection with a small masked generator (ELECTRA, Clark et al. 2020)."""

    kind: Literal["replaced_tokens"] = "replaced_tokens"
    mask_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.85
    random_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.0
    generator_share: Annotated[float, Field(gt=0, le=1)] = 0.25  # the generator's width
    replaced_weight: Annotated[float, Field(ge=0)] = 50.0


class UnifiedMasksConfig(MaskingConfig):
    """Hidden tokens under four kinds of attention mask, each with its share of the rows (UniLM, Dong et al. 2019)."""

    kind: Literal["unified_masks"] = "unified_masks"
    both_ways_share: Annotated[float, Field(ge=0)] = 2.0
    leftward_share: Annotated[float, Field(ge=0)] = 1.0
    rightward_share: Annotated[float, Field(ge=0)] = 1.0
    sequence_share: Annotated[float, Field(ge=0)] = 2.0

    @model_validator(mode="after")
    def _something_is_trained(self) -> "UnifiedMasksConfig":
        if self.both_ways_share + self.leftward_share + self.rightward_share + self.sequence_share == 0:
            raise ValueError("all four shares of masks are 0: raise one of them")
        return self


class MaskedTargetsConfig(MaskingConfig):
    """A target written after its source: each of its tokens is predicted by a [MASK] of its own that sees all before it,
    as when the model writes (Bao et al. 2021), or a share of them is hidden in their places (Dong et al. 2019)."""

    kind: Literal["masked_targets"] = "masked_targets"
    targets: Literal["each", "share"] = "each"
    mask_share: Annotated[float, Field(gt=0, lt=1)] = 0.7

    @model_validator(mode="after")
    def _settings_do_something(self) -> Self:
        chances = ("mask_share", "mask_token_prob", "random_token_prob", "copies")
        idle = [name for name in chances if getattr(self, name) != type(self).model_fields[name].default]
        if self.targets == "each" and idle:
            raise ValueError(f"{idle[0]} is for targets=share: with targets=each every token has a mask of its own")
        return self

    @model_validator(mode="after")
    def _tokens_are_hidden_singly(self) -> Self:
        if self.whole_words or self.max_ngram > 1:
            raise ValueError("tokens of a target are hidden one by one: leave out whole_words and max_ngram")
        return self


class KnowledgeMaskingConfig(MaskingConfig):
    """Tokens, phrases and entities hidden as wholes, and several tasks on pairs at once (ERNIE, Sun et al. 2019, 2020)."""

    kind: Literal["knowledge_masking"] = "knowledge_masking"
    schedule: Literal["mixed", "stages"] = "mixed"
    basic_share: Annotated[float, Field(ge=0)] = 1.0  # mixed: shares of the rows
    phrase_share: Annotated[float, Field(ge=0)] = 1.0
    entity_share: Annotated[float, Field(ge=0)] = 1.0  # counts only with a list of entities
    stage_epochs: Annotated[float, Field(gt=0)] = 1.0  # stages: so long basic, so long phrases, then entities
    entities: str | None = None  # a file with an entity a line
    phrase_score: Annotated[float, Field(gt=-1, lt=1)] = 0.3  # normalised mutual information of two words
    phrase_count: Annotated[int, Field(ge=1)] = 5  # how often they must have met
    longest_phrase: Annotated[int, Field(ge=2)] = 4  # in words
    sample_tokens: Positive = 4_000_000  # of which phrases are found
    next_sentence: bool = True
    sentence_order: bool = True
    sentence_distance: bool = True
    short_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    pair_weight: Annotated[float, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _something_is_hidden(self) -> "KnowledgeMaskingConfig":
        if self.basic_share + self.phrase_share + (self.entity_share if self.entities else 0) == 0:
            raise ValueError("nothing would be hidden: raise basic_share or phrase_share, or give entities and a share")
        return self


class PermutedOrderConfig(Config):
    """Tokens predicted in a random order (XLNet, Yang et al. 2019)."""

    kind: Literal["permuted_order"] = "permuted_order"
    row_len: Annotated[int, Field(ge=8)] = 128
    share_of: Annotated[int, Field(ge=2)] = 6  # one token in so many is predicted
    longest_span: Annotated[int, Field(ge=1)] = 5
    memory_len: Annotated[int, Field(ge=0)] = 64
    both_ways: bool = True  # every second lane reads its text backward


class TranslationConfig(Config):
    """Another language from a sentence, token by token under teacher forcing."""

    kind: Literal["translation"] = "translation"
    batch_tokens: Annotated[int, Field(ge=16)] = 4096  # of a side, padding counted
    label_smoothing: Probability = 0.1
    max_source_len: Positive | None = None  # tokens; a longer source loses its end
    max_target_len: Positive | None = None


class CorruptedSpansConfig(Config):
    """Spans of text taken out and written by the decoder (T5, Raffel et al. 2020)."""

    kind: Literal["corrupted_spans"] = "corrupted_spans"
    row_len: Annotated[int, Field(ge=8)] = 128  # of the encoder's input
    noise_share: Annotated[float, Field(gt=0, lt=1)] = 0.15  # of the tokens is taken out
    mean_span_len: Annotated[float, Field(ge=1)] = 3.0
    num_sentinels: Positive = 100


class BothDirectionsConfig(Config):
    """The next word and the one before, jointly (Peters et al. 2018). ``batch_rows`` of training is the number of lanes."""

    kind: Literal["both_directions"] = "both_directions"
    window_len: Positive = 20  # words until backpropagation is cut; the state goes on
    max_vocab: Positive | None = None  # of the softmax; the characters of every word are read
    min_count: Positive = 1
    softmax: Literal["table", "characters"] = "table"
    num_samples: Annotated[int, Field(ge=0)] = 8192  # noise words of a batch; 0: the whole vocabulary
    softmax_network: Literal["own", "shared"] = "own"  # for characters: a network apart, or the token layer
    correction_dim: Positive = 128
    forget_between_sentences: bool = False


class NextTokenStreamsConfig(Config):
    """Each token from all before it, in streams with carried state."""

    kind: Literal["next_token_streams"] = "next_token_streams"
    row_len: Annotated[int, Field(ge=2)] = 70  # how far gradients reach back
    random_windows: bool = False  # of varying length about row_len, so that borders fall elsewhere in every epoch
    carry: bool = True  # the state goes on from one window to the next
    unit: Literal["document", "sentence"] = "document"  # what ends with an end token
    min_count: Positive = 1  # of words, where the corpus is one of words
    max_vocab: Positive | None = 50_000
    output: Literal["full", "adaptive", "sampled", "nce"] = "full"
    noise: Literal["unigram", "uniform", "log_uniform"] = "unigram"
    num_noise: Positive = 1024  # drawn once a batch
    activation_penalty: Annotated[float, Field(ge=0)] = 0.0  # on large outputs (AR)
    change_penalty: Annotated[float, Field(ge=0)] = 0.0  # on outputs that change from step to step (TAR)


class NextTokenConfig(Config):
    """Next-token prediction: what a row of training text is."""

    kind: Literal["next_token"] = "next_token"
    row_len: Annotated[int, Field(ge=2)] = 128
    rows: Literal["documents", "stream"] = "documents"


AnyObjectiveConfig = Annotated[
    MaskedTokensConfig
    | NextTokenConfig
    | ReplacedTokensConfig
    | UnifiedMasksConfig
    | MaskedTargetsConfig
    | KnowledgeMaskingConfig
    | PermutedOrderConfig
    | TranslationConfig
    | CorruptedSpansConfig
    | BothDirectionsConfig
    | NextTokenStreamsConfig,
    Field(discriminator="kind"),
]
"""Told apart by ``kind``."""
