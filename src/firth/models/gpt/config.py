"""GPT's settings: the decoder's shape, what a row of training text is, and its recipes from tiny to GPT-2 small."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from firth.core.config import MAX_VOCAB, Config, Layers, Probability, Width
from firth.core.registry import ObjectiveConfig, RunConfig, TrainingConfig


class RopeScaling(Config):
    """How rotary positions reach further than those of training."""

    kind: Literal["linear", "llama3"] = "linear"
    factor: Annotated[float, Field(ge=1)] = 1.0
    low_freq_factor: Annotated[float, Field(gt=0)] = 1.0
    high_freq_factor: Annotated[float, Field(gt=0)] = 4.0
    trained_positions: Annotated[int, Field(gt=0)] = 8192


class DecoderConfig(Config):
    """A Transformer decoder, norm first: by default GPT-2's (Radford et al. 2019: learned positions, tied head). The modern
    shape (Touvron et al. 2023: Llama; Qwen) has rotary positions, RMS norms, gated feed-forward layers without biases."""

    vocab_size: Annotated[int, Field(gt=2, le=MAX_VOCAB)] = 50257  # set from the corpus
    hidden_dim: Width = 768  # width of the layers
    num_layers: Layers = 12  # number of layers
    num_heads: Width = 12  # attention heads of a layer
    ffn_dim: Width = 3072  # width of the feed-forward layers
    max_positions: Annotated[int, Field(gt=1, le=1 << 24)] = 1024  # longest input, in tokens
    dropout_prob: Probability = 0.1  # dropout of layers
    attention_dropout_prob: Probability = 0.1  # dropout of attention weights
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu_tanh"  # of feed-forward layers
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5  # added to the variance in norms
    init_std: Annotated[float, Field(gt=0)] = 0.02  # standard deviation of the initial weights
    table_std: Annotated[float, Field(gt=0)] | None = None  # of the token table at first; none: as all weights

    positions: Literal["learned", "rotary"] = "learned"  # how positions are encoded
    norm: Literal["layer", "rms"] = "layer"  # layer norm or RMS norm
    gated: bool = False  # gated feed-forward layers
    bias: bool = True  # whether linear layers have one
    tied_output: bool = True  # whether the token table is the output layer, too
    # Only with rotary positions:
    num_kv_heads: Width | None = None  # heads of keys and values; none: as many as of queries
    head_dim: Width | None = None  # none: the hidden size divided by the heads
    qkv_bias: bool = False  # of queries, keys and values
    qk_norm: bool = False  # RMS norm of queries and keys
    rotary_base: Annotated[float, Field(gt=1)] = 10000.0  # of rotary positions
    rotary_scaling: RopeScaling | None = None  # to reach further than in training
    local_start: bool = False  # heads begin by looking at the tokens before
    bos_id: int | None = None  # stands before a text; none: the token that ends texts

    norm_first: ClassVar[bool] = True

    @model_validator(mode="after")
    def _heads_divide(self) -> "DecoderConfig":
        if self.head_dim is None and self.hidden_dim % self.num_heads:
            raise ValueError(
                f"num_heads ({self.num_heads}) does not divide hidden_dim ({self.hidden_dim}): choose heads that do"
            )
        if self.num_heads % self.kv_heads:
            raise ValueError(
                f"num_kv_heads ({self.kv_heads}) does not divide num_heads ({self.num_heads}): choose one that does"
            )
        modern = self.num_kv_heads or self.head_dim or self.qkv_bias or self.qk_norm or self.rotary_scaling
        if modern and self.positions != "rotary":
            raise ValueError(
                "num_kv_heads, head_dim, qkv_bias, qk_norm and rotary_scaling are for positions=rotary: set that, too"
            )
        shape = {"norm": self.norm, "gated": self.gated, "bias": self.bias}
        wanted = dict(
            zip(shape, ("rms", True, False) if self.positions == "rotary" else ("layer", False, True), strict=True)
        )
        if shape != wanted or (self.positions == "learned" and not self.tied_output):
            said = " ".join(f"{name}={str(value).lower()}" for name, value in wanted.items())
            raise ValueError(f"positions={self.positions} goes with {said}, as in published decoders: set these")
        if self.local_start and (self.positions != "rotary" or self.kv_heads != self.num_heads):
            raise ValueError("local_start needs positions=rotary and a head of keys for each of queries: leave it out")
        if self.positions == "rotary" and self.head_size % 2:
            raise ValueError(f"rotary positions need an even head size, not {self.head_size}: choose other heads")
        return self

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_dim // self.num_heads

    @property
    def kv_heads(self) -> int:
        return self.num_kv_heads or self.num_heads


class NextTokenConfig(ObjectiveConfig):
    """Next-token prediction: what a row of training text is."""

    kind: Literal["next_token"] = "next_token"  # what is learned
    seq_len: Annotated[int, Field(ge=2)] = 128  # tokens of a row
    rows: Literal["documents", "stream"] = "documents"  # a row is a piece of one document, or of all text in a row


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
        tokens=("characters",),
        model=char.model.replace(num_heads=4),
        objective=NextTokenConfig(seq_len=64, rows="stream"),
        training=char.training.replace(batch_size=12),
    )


def llama_tiny() -> RunConfig:
    """2 layers of 128 in Llama's shape (rotary positions, RMS norm, gated, grouped queries): minutes on a laptop."""
    tiny = _gpt("llama-tiny", 2, 128, 256, 2e-3)
    model = tiny.model.replace(
        num_heads=4,
        num_kv_heads=2,
        ffn_dim=352,
        positions="rotary",
        norm="rms",
        gated=True,
        bias=False,
        activation="silu",
        norm_eps=1e-6,
    )
    return tiny.replace(model=model)


def _llama(name: str, num_layers: int, hidden_dim: int, head_dim: int, rows: tuple[int, int], rate: float) -> RunConfig:
    """What teaches a small decoder most in a given time, in Llama's shape, so that transformers reads the run: a token table that
    begins with skip-gram vectors, heads that begin by looking at the tokens before, Muon, small batches (``rows`` and their length).
    Smaller models with more steps learn more in minutes (benchmarks/RESULTS.md)."""
    model = DecoderConfig(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=hidden_dim // head_dim,
        ffn_dim=-(-8 * hidden_dim // 3 // 32) * 32,
        max_positions=rows[1],
        dropout_prob=0.0,
        attention_dropout_prob=0.0,
        activation="silu",
        norm_eps=1e-6,
        positions="rotary",
        norm="rms",
        gated=True,
        bias=False,
        local_start=True,
        table_std=0.08,
    )
    return RunConfig(
        recipe=name,
        spec="gpt",
        model=model,
        objective=NextTokenConfig(seq_len=rows[1]),
        training=TrainingConfig(
            batch_size=rows[0], learning_rate=rate, optimizer="muon", embeddings="auto", precision="auto"
        ),
    )


def llama_10m() -> RunConfig:
    """4 layers of 128, for about 10 minutes on a laptop."""
    return _llama("llama-10m", 4, 128, 32, (16, 128), 1.5e-3)


def llama_1h() -> RunConfig:
    """6 layers of 192, for about an hour on a laptop."""
    return _llama("llama-1h", 6, 192, 32, (16, 128), 1.5e-3)


def llama_10h() -> RunConfig:
    """8 layers of 384, for about 10 hours on a laptop."""
    return _llama("llama-10h", 8, 384, 64, (16, 256), 1e-3)


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "gpt-tiny": gpt_tiny,
    "gpt-mini": gpt_mini,
    "gpt-small": gpt_small,
    "gpt-char": gpt_char,
    "llama-tiny": llama_tiny,
    "llama-10m": llama_10m,
    "llama-1h": llama_1h,
    "llama-10h": llama_10h,
}
