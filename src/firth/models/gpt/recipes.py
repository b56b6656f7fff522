"""GPT in its sizes (Radford et al. 2018, 2019)."""

from collections.abc import Callable

from firth.core.configs import RunConfig, TrainingConfig
from firth.models.gpt.config import DecoderConfig, NextTokenConfig


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
        model=char.model.replace(num_heads=4),
        objective=NextTokenConfig(seq_len=64, rows="stream"),
        training=char.training.replace(batch_size=12),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "gpt-tiny": gpt_tiny,
    "gpt-mini": gpt_mini,
    "gpt-small": gpt_small,
    "gpt-char": gpt_char,
}
