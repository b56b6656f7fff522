"""word2vec (Mikolov et al. 2013): CBOW and skip-gram."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec
from firth.vectors.configs import VectorsConfig, Word2VecConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.vectors.learners import BuildLearner


def word2vec() -> VectorsConfig:
    """CBOW with negative sampling."""
    return Word2VecConfig()


def word2vec_skipgram() -> VectorsConfig:
    """Skip-gram with negative sampling."""
    return Word2VecConfig(architecture="skipgram")


RECIPES: dict[str, Callable[[], VectorsConfig]] = {
    "word2vec": word2vec,
    "word2vec-skipgram": word2vec_skipgram,
}


def _load(folder: Path) -> "Model":
    from firth.models.shared.static import load_static

    return load_static(folder)


def _is_vectors(path: Path) -> bool:
    """Any file of vectors, whichever program made it."""
    return path.is_file() and path.suffix not in (".hdf5", ".h5")


def _learner() -> "BuildLearner":
    from firth.vectors.learners import WordLearner

    return WordLearner.build


SPEC = ModelSpec(
    name="word2vec",
    recipes=RECIPES,
    suggested={"words": "word2vec"},
    load=_load,
    vectors=Word2VecConfig,
    vectors_learner=_learner,
    tokens=("words",),
    is_table=True,
    abilities=("nearest", "analogy"),
    recognizes=_is_vectors,
)
