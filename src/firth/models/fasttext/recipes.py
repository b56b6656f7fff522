"""Static vectors, with the defaults of the published programs."""

from firth.vectors.configs import AnyVectorsConfig, FastTextConfig


def fasttext() -> AnyVectorsConfig:
    """Skip-gram over words and their character n-grams."""
    return FastTextConfig()
