"""word2vec, with the defaults of the published program."""

from collections.abc import Callable

from firth.vectors.configs import AnyVectorsConfig, Word2VecConfig


def word2vec() -> AnyVectorsConfig:
    """CBOW with negative sampling."""
    return Word2VecConfig()


def word2vec_skipgram() -> AnyVectorsConfig:
    """Skip-gram with negative sampling."""
    return Word2VecConfig(architecture="skipgram")


RECIPES: dict[str, Callable[[], AnyVectorsConfig]] = {
    "word2vec": word2vec,
    "word2vec-skipgram": word2vec_skipgram,
}
