"""Static vectors, with the defaults of the published programs."""

from firth.vectors.configs import AnyVectorsConfig, FastTextConfig, GloveConfig, Word2VecConfig


def word2vec() -> AnyVectorsConfig:
    """CBOW with negative sampling."""
    return Word2VecConfig()


def word2vec_skipgram() -> AnyVectorsConfig:
    """Skip-gram with negative sampling."""
    return Word2VecConfig(architecture="skipgram")


def fasttext() -> AnyVectorsConfig:
    """Skip-gram over words and their character n-grams."""
    return FastTextConfig()


def glove() -> AnyVectorsConfig:
    """Weighted least squares on log co-occurrence."""
    return GloveConfig()
