"""GloVe (Pennington et al. 2014): least squares on log co-occurrence counts."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec
from firth.vectors.configs import GloveConfig, VectorsConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.vectors.learners import BuildLearner


def glove() -> VectorsConfig:
    """Weighted least squares on log co-occurrence."""
    return GloveConfig()


RECIPES: dict[str, Callable[[], VectorsConfig]] = {
    "glove": glove,
}


def _load(folder: Path) -> "Model":
    from firth.models.shared.static import load_static

    return load_static(folder)


def _learner() -> "BuildLearner":
    from firth.vectors.glove import GloveLearner

    return GloveLearner.build


SPEC = ModelSpec(
    name="glove",
    recipes=RECIPES,
    load=_load,
    vectors=GloveConfig,
    vectors_learner=_learner,
    tokens=("words",),
    is_table=True,
    abilities=("nearest", "analogy"),
)
