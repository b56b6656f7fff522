"""Static vectors, with the defaults of the published programs."""

from firth.vectors.configs import AnyVectorsConfig, GloveConfig


def glove() -> AnyVectorsConfig:
    """Weighted least squares on log co-occurrence."""
    return GloveConfig()
