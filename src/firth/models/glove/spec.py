"""GloVe (Pennington et al. 2014): least squares on log co-occurrence counts."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec
from firth.vectors.configs import AnyVectorsConfig, GloveConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model


def glove() -> AnyVectorsConfig:
    """Weighted least squares on log co-occurrence."""
    return GloveConfig()


RECIPES: dict[str, Callable[[], AnyVectorsConfig]] = {
    "glove": glove,
}


def _load(folder: Path) -> "Model":
    from firth.models.shared.static import load_static

    return load_static(folder)


SPEC = ModelSpec(
    name="glove",
    recipes=RECIPES,
    load=_load,
    vectors=GloveConfig,
    tokens=("words",),
    is_table=True,
)
