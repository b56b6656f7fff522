"""XLNet: tokens predicted in any order, with a memory (Yang et al. 2019)."""

from collections.abc import Callable

from firth.core.configs import RunConfig, TrainingConfig
from firth.models.xlnet.config import PermutedOrderConfig, TwoStreamConfig


def _xlnet(name: str, num_layers: int, hidden_dim: int, learning_rate: float) -> RunConfig:
    model = TwoStreamConfig(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=hidden_dim // 64,
        ffn_dim=4 * hidden_dim,
        dropout_prob=0.0,
    )
    return RunConfig(
        recipe=name,
        spec="xlnet",
        model=model,
        objective=PermutedOrderConfig(),
        training=TrainingConfig(learning_rate=learning_rate),
    )


def xlnet_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _xlnet("xlnet-tiny", 2, 128, 2e-3)


def xlnet_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _xlnet("xlnet-mini", 4, 256, 1e-3)


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "xlnet-tiny": xlnet_tiny,
    "xlnet-mini": xlnet_mini,
}
