"""GloVe, with the defaults of the published program."""

from collections.abc import Callable

from firth.vectors.configs import AnyVectorsConfig, GloveConfig


def glove() -> AnyVectorsConfig:
    """Weighted least squares on log co-occurrence."""
    return GloveConfig()


RECIPES: dict[str, Callable[[], AnyVectorsConfig]] = {
    "glove": glove,
}
