"""GloVe (Pennington et al. 2014): least squares on log co-occurrence counts."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec
from firth.models.glove.recipes import RECIPES
from firth.vectors.configs import GloveConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model


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
