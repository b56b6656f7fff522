"""ELMo in its published sizes (Peters et al. 2018), and one for minutes."""

from collections.abc import Callable

from firth.core.configs import RunConfig, TrainingConfig
from firth.models.elmo.config import BothDirectionsConfig, ElmoConfig


def elmo_tiny() -> RunConfig:
    """256 cells, 64 numbers a direction, 256 filters: minutes on a laptop."""
    model = ElmoConfig(
        filters=((1, 16), (2, 32), (3, 64), (4, 64), (5, 80)),
        num_highway=1,
        projection_dim=64,
        cell_dim=256,
        dropout_prob=0.0,
    )
    return _elmo("elmo-tiny", model, 8e-3, 1024, 20_000, batch_size=16, evaluation_batches=64)


def elmo_small() -> RunConfig:
    """1024 cells, 128 numbers a direction: the published small size."""
    model = ElmoConfig(num_highway=1, projection_dim=128, cell_dim=1024, dropout_prob=0.0)
    return _elmo("elmo-small", model, 4e-3, 2048, 50_000, batch_size=16, evaluation_batches=64)


def elmo_medium() -> RunConfig:
    """2048 cells, 256 numbers a direction: the published medium size."""
    model = ElmoConfig(num_highway=1, projection_dim=256, cell_dim=2048)
    return _elmo("elmo-medium", model, 1e-3, 8192, 200_000)


def elmo_original() -> RunConfig:
    """4096 cells, 512 numbers a direction: the published size."""
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
