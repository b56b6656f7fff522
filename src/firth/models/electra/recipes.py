"""ELECTRA in its sizes (Clark et al. 2020): every token learns, not only the masked ones."""

from collections.abc import Callable

from firth.core.configs import RunConfig, TrainingConfig
from firth.models.electra.config import ReplacedTokensConfig
from firth.models.shared.recipes import sized_encoder


def _electra(
    name: str, num_layers: int, hidden_dim: int, embedding_dim: int, learning_rate: float, dropout_prob: float
) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="electra",
        model=sized_encoder(num_layers, hidden_dim, dropout_prob).replace(embedding_dim=embedding_dim),
        objective=ReplacedTokensConfig(),
        training=TrainingConfig(learning_rate=learning_rate),
    )


def electra_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _electra("electra-tiny", 2, 128, 128, 2e-3, 0.0)


def electra_mini() -> RunConfig:
    """4 layers of 256 over embeddings of 128: an hour on a laptop."""
    return _electra("electra-mini", 4, 256, 128, 1e-3, 0.0)


def electra_small() -> RunConfig:
    """12 layers of 256 over embeddings of 128, the published small size."""
    return _electra("electra-small", 12, 256, 128, 5e-4, 0.1)


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "electra-tiny": electra_tiny,
    "electra-mini": electra_mini,
    "electra-small": electra_small,
}
