"""ELECTRA's settings: the share of masks, the width of the generator, the weight of the second loss; and its recipes.

The network is the shared encoder (``EncoderConfig``), over embeddings that may be narrower than it is.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from firth.core.registry import RunConfig, TrainingConfig
from firth.models.shared.configs import MaskingConfig, sized_encoder


class ReplacedTokensConfig(MaskingConfig):
    """Replaced-token detection with a small masked generator (ELECTRA, Clark et al. 2020)."""

    kind: Literal["replaced_tokens"] = "replaced_tokens"  # what is learned
    mask_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.85  # of the chosen tokens: become [MASK] for the generator
    random_token_prob: Annotated[float, Field(ge=0, le=1)] = (
        0.0  # of the hidden ones: become a random token; the rest stay
    )
    generator_ratio: Annotated[float, Field(gt=0, le=1)] = 0.25  # the generator's width
    replaced_weight: Annotated[float, Field(ge=0)] = 50.0  # of the loss of the discriminator


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
