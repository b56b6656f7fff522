"""ELMo (Peters et al. 2018): two language models over the characters of words."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.elmo.config import RECIPES, BothDirectionsConfig, ElmoConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.elmo.objective import ElmoPretraining

    return ElmoPretraining


def _load(folder: Path) -> "Model":
    from firth.models.elmo.model import load_elmo_model

    return load_elmo_model(folder)


def _is_elmo(path: Path) -> bool:
    return path.suffix in (".hdf5", ".h5") or (path.is_dir() and any(path.glob("*options.json")))


def _files(path: Path) -> dict[str, Path]:
    from firth.models.elmo.format import OPTIONS, WEIGHTS
    from firth.models.elmo.model import pair_of

    options, weights = pair_of(path)
    return {OPTIONS: options, WEIGHTS: weights}


def _facts(path: Path) -> dict[str, object]:
    from firth.core.files import read_json
    from firth.models.elmo.format import OPTIONS, config_from_options

    options = _files(path)[OPTIONS]
    return config_from_options(read_json(options), options).model_dump(mode="json")


SPEC = ModelSpec(
    name="elmo",
    recipes=RECIPES,
    pretraining=_pretraining,
    load=_load,
    network=ElmoConfig,
    objectives=(BothDirectionsConfig,),
    tokens=("words",),
    recognizes=_is_elmo,
    files=_files,
    facts=_facts,
    continues="elmo-small",
    mixes_layers=True,
    abilities=("nearest",),
)
