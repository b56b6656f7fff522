"""word2vec (Mikolov et al. 2013): CBOW and skip-gram."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec
from firth.models.word2vec.recipes import RECIPES
from firth.vectors.configs import Word2VecConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model


def _load(folder: Path) -> "Model":
    from firth.models.shared.static import load_static

    return load_static(folder)


def _is_vectors(path: Path) -> bool:
    """Any file of vectors, whichever program made it."""
    return path.is_file() and path.suffix not in (".hdf5", ".h5")


SPEC = ModelSpec(
    name="word2vec",
    recipes=RECIPES,
    load=_load,
    vectors=Word2VecConfig,
    tokens=("words",),
    is_table=True,
    recognizes=_is_vectors,
)
