"""The registry of models: every model is one ``ModelSpec``, which says all that the rest of the package asks about it.

To add a model to the package: a folder in ``firth/models`` with a ``spec.py`` that has ``SPEC``, and its name in
``MODELS``. A model from outside the package joins by ``register(SPEC)``, or by an entry point of the group
``firth.models`` that names its ``ModelSpec``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.config import Config
from firth.core.errors import FirthError, nearest

if TYPE_CHECKING:
    from firth.core.configs import ObjectiveConfig
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining

MODELS = (
    "word2vec",
    "fasttext",
    "glove",
    "scratch",
    "recurrent",
    "elmo",
    "seq2seq",
    "transformer",
    "gpt",
    "bert",
    "ernie",
    "unilm",
    "xlnet",
    "t5",
    "electra",
)
"""The folders of ``firth.models``, a line a model."""


@dataclass(frozen=True)
class ModelSpec:
    """One model: its settings, recipes, training, files and traits. Nothing in it imports torch before it is called."""

    name: str
    load: Callable[[Path], Model]  # from a finished run or a published directory
    recipes: Mapping[str, Callable[[], Config]] = field(default_factory=dict)
    network: type[Config] | None = None  # the settings of the network; none: nothing is pre-trained by the loop
    objectives: tuple[type[ObjectiveConfig], ...] = ()  # what it can learn from, told apart by ``kind``
    pretraining: Callable[[ObjectiveConfig], type[Pretraining]] | None = None
    vectors: type[Config] | None = None  # the settings of static vectors, which have a training of their own
    tokens: tuple[str, ...] = ()  # kinds of corpus that it trains on, the usual one first; "pairs": sentence pairs
    model_types: tuple[str, ...] = ()  # ``model_type`` in the config.json of directories that ``load`` reads
    recognizes: Callable[[Path], bool] = lambda path: False  # a file or folder without config.json that ``load`` reads
    continues: str | None = None  # the recipe with which a published directory is trained further

    # traits
    is_transformer: bool = False
    is_table: bool = False  # one vector per word, whatever stands around it
    carries_state: bool = False  # from batch to batch, so that text is read in order
    has_task_heads: bool = False  # its published directories may hold a task (transformers' ...For classes)
    mixes_layers: bool = False  # tasks use a learned mix of its layers unless they say otherwise
    can_fill: bool = False
    can_generate: bool = False
    can_translate: bool = False

    def objective(self, kind: str) -> type[ObjectiveConfig] | None:
        return next((one for one in self.objectives if one.model_fields["kind"].default == kind), None)


_added: dict[str, ModelSpec] = {}


def register(spec: ModelSpec) -> None:
    """Adds a model from outside the package; a name that is taken is refused."""
    if spec.name in specs():
        raise FirthError(f"there is a model '{spec.name}' already: choose another name")
    taken = [name for name in spec.recipes if any(name in other.recipes for other in specs().values())]
    if taken:
        raise FirthError(f"there is a recipe '{taken[0]}' already: choose another name")
    _added[spec.name] = spec


@cache
def _installed() -> dict[str, ModelSpec]:
    own = [import_module(f"firth.models.{name}.spec").SPEC for name in MODELS]
    found = {spec.name: spec for spec in own}
    for entry in metadata.entry_points(group="firth.models"):
        spec = entry.load()
        if isinstance(spec, ModelSpec) and spec.name not in found:
            found[spec.name] = spec
    return found


def specs() -> dict[str, ModelSpec]:
    """Every model by name."""
    return {**_installed(), **_added}


def find_spec(name: str) -> ModelSpec:
    known = specs()
    if name not in known:
        raise FirthError(f"unknown model '{name}': {nearest(name, list(known))}")
    return known[name]


def recipes() -> dict[str, ModelSpec]:
    """Every recipe by name, with the model that it trains."""
    return {recipe: spec for spec in specs().values() for recipe in spec.recipes}


def find_recipe(name: str) -> Config:
    """The settings of a recipe."""
    known = recipes()
    if name not in known:
        raise FirthError(f"unknown recipe '{name}': {nearest(name, list(known))}")
    return known[name].recipes[name]()


def spec_of_model_type(model_type: str) -> ModelSpec | None:
    """The model whose published directories have this ``model_type`` in config.json."""
    return next((spec for spec in specs().values() if model_type in spec.model_types), None)


def model_types() -> list[str]:
    return [kind for spec in specs().values() for kind in spec.model_types]
