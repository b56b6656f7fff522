"""What the recipes of several models have in common."""

from typing import Literal

from firth.core.configs import TrainingConfig
from firth.models.shared.configs import EncoderConfig


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
