"""fastText (Bojanowski et al. 2017): words as bags of character n-grams."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec
from firth.vectors.configs import FastTextConfig, VectorsConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.vectors.learners import BuildLearner


def fasttext() -> VectorsConfig:
    """Skip-gram over words and their character n-grams."""
    return FastTextConfig()


RECIPES: dict[str, Callable[[], VectorsConfig]] = {
    "fasttext": fasttext,
}


def _load(folder: Path) -> "Model":
    from firth.models.shared.static import load_static

    return load_static(folder)


def _learner() -> "BuildLearner":
    from firth.vectors.learners import WordLearner

    return WordLearner.build


SPEC = ModelSpec(
    name="fasttext",
    recipes=RECIPES,
    load=_load,
    vectors=FastTextConfig,
    vectors_learner=_learner,
    tokens=("words",),
    is_table=True,
    abilities=("nearest", "analogy"),
)
