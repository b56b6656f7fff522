"""ERNIE: phrases and entities hidden as wholes, several tasks at once (Sun et al. 2019; Sun et al. 2020)."""

from collections.abc import Callable

from firth.core.configs import RunConfig, TrainingConfig
from firth.models.ernie.config import KnowledgeMaskingConfig
from firth.models.shared.recipes import sized_encoder


def _ernie(name: str, num_layers: int, hidden_dim: int, learning_rate: float) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="ernie",
        model=sized_encoder(num_layers, hidden_dim),
        objective=KnowledgeMaskingConfig(),
        training=TrainingConfig(learning_rate=learning_rate),
    )


def ernie_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _ernie("ernie-tiny", 2, 128, 2e-3)


def ernie_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _ernie("ernie-mini", 4, 256, 1e-3)


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "ernie-tiny": ernie_tiny,
    "ernie-mini": ernie_mini,
}
