"""Static vectors, with the defaults of the published programs."""

from firth.vectors.configs import AnyVectorsConfig, Word2VecConfig


def word2vec() -> AnyVectorsConfig:
    """CBOW with negative sampling."""
    return Word2VecConfig()


def word2vec_skipgram() -> AnyVectorsConfig:
    """Skip-gram with negative sampling."""
    return Word2VecConfig(architecture="skipgram")
