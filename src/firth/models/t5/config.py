"""T5's settings: how much text is taken out and in how long spans; and its recipes.

The network is the shared encoder-decoder (``EncoderDecoderConfig``) with T5's choices: relative positions, RMS norms
first, no biases.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from firth.core.config import Positive
from firth.core.registry import ObjectiveConfig, RunConfig, TrainingConfig
from firth.models.shared.configs import EncoderDecoderConfig, TranslationConfig


class CorruptedSpansConfig(ObjectiveConfig):
    """Spans of text taken out and written by the decoder (T5, Raffel et al. 2020)."""

    kind: Literal["corrupted_spans"] = "corrupted_spans"  # what is learned
    seq_len: Annotated[int, Field(ge=8)] = 128  # of the encoder's input
    noise_density: Annotated[float, Field(gt=0, lt=1)] = 0.15  # of the tokens is taken out
    mean_span_len: Annotated[float, Field(ge=1)] = 3.0  # tokens
    num_sentinels: Positive = 100  # marks that stand for spans


def _t5(name: str, num_layers: int, hidden_dim: int, learning_rate: float, dropout_prob: float = 0.0) -> RunConfig:
    model = EncoderDecoderConfig(
        num_layers=num_layers,
        num_decoder_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=max(4, hidden_dim // 64),  # all that a token knows of distances is one number per head
        ffn_dim=4 * hidden_dim,
        dropout_prob=dropout_prob,
        attention_dropout_prob=dropout_prob,
        activation_dropout_prob=dropout_prob,
        positions="relative",
        norm="rms",
        norm_first=True,
        norm_eps=1e-6,
        bias=False,
        embedding_scale=1.0,
        output_bias=False,
        output_scale=hidden_dim**-0.5,
    )
    return RunConfig(
        recipe=name,
        spec="t5",
        model=model,
        objective=CorruptedSpansConfig(),
        training=TrainingConfig(learning_rate=learning_rate, weight_decay=0.0),
    )


def t5_tiny() -> RunConfig:
    """2 + 2 layers of 128: minutes on a laptop."""
    return _t5("t5-tiny", 2, 128, 2e-3)


def t5_mini() -> RunConfig:
    """4 + 4 layers of 256: an hour on a laptop."""
    return _t5("t5-mini", 4, 256, 1e-3)


def t5_small() -> RunConfig:
    """6 + 6 layers of 512 that read 512 tokens, the published small size."""
    small = _t5("t5-small", 6, 512, 1e-3, 0.1)
    return small.replace(objective=CorruptedSpansConfig(seq_len=512))


def t5_write() -> RunConfig:
    """Targets written from their sources, on a corpus of pairs; best with the weights of a T5 run (--base)."""
    mini = t5_mini()
    return mini.replace(
        recipe="t5-write",
        objective=TranslationConfig(batch_tokens=4096, label_smoothing=0.0),
        training=mini.training.replace(batch_size=1, learning_rate=5e-4, warmup_ratio=0.1),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "t5-tiny": t5_tiny,
    "t5-mini": t5_mini,
    "t5-small": t5_small,
    "t5-write": t5_write,
}
