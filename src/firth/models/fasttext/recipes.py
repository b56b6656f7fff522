"""fastText, with the defaults of the published program."""

from collections.abc import Callable

from firth.vectors.configs import AnyVectorsConfig, FastTextConfig


def fasttext() -> AnyVectorsConfig:
    """Skip-gram over words and their character n-grams."""
    return FastTextConfig()


RECIPES: dict[str, Callable[[], AnyVectorsConfig]] = {
    "fasttext": fasttext,
}
