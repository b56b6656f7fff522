"""How a model is found and loaded from a path."""

from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.core.limits import foreign_errors
from firth.core.registry import ModelSpec, find_spec, model_types, spec_of_model_type, specs
from firth.core.run import Run, is_run
from firth.models.shared.model import Model
from firth.models.shared.sentences import SentenceEncoder, is_sentence_folder, pool_by_reader, read_sentence_modules


def find_model(path: Path) -> ModelSpec:
    """The spec of the model at a path: a run names it, a published directory has its ``model_type``."""
    if not path.exists():
        raise FirthError(f"{path}: no such run or model; check the path")
    run = Run.find(path)
    if run is not None:
        if run.record.export is not None:
            raise FirthError(f"{path}: an exported model, which does not learn; name {run.record.export.source}")
        if run.record.task is not None and not find_spec(run.record.model).reads_images:
            raise FirthError(f"{path}: a task, where a pre-trained model is needed; name another run")
        if not run.record.finished:
            again = "the same command" if run.record.task is not None else f"firth pretrain --resume {path}"
            raise FirthError(f"{path}: this run is not finished; go on with: {again}")
        return find_spec(run.record.model)
    if (path / "config.json").is_file():
        data = read_json(path / "config.json")
        if not isinstance(data, dict):
            raise FirthError(f"{path / 'config.json'}: not the description of a model; copy it again")
        kind = str(data.get("model_type"))
        found = spec_of_model_type(kind)
        if found is None:
            raise FirthError(
                f"{path / 'config.json'}: a model of type '{kind}', which Firth does not read; it reads {', '.join(model_types())}"
            )
        return found
    for spec in specs().values():
        if spec.recognizes(path):
            return spec
    raise FirthError(f"{path}: no model here (no config.json); name a run of Firth or a Hugging Face directory")


def load_model(path: Path) -> Model:
    """The model at a path, with its tokenizer; of a directory of sentence-transformers with its modules."""
    with foreign_errors(path, "a model that can be read"):
        return _load_model(path)


def _load_model(path: Path) -> Model:
    modules = read_sentence_modules(path) if is_sentence_folder(path) else None
    where = path if modules is None else path / modules.config.network
    spec = find_model(path if is_run(path) else where)
    model = spec.load(where)
    model.spec_name, model.path = spec.name, path
    if modules is not None and model.sentence is None:
        model.sentence = SentenceEncoder(modules, pool_by_reader(model.reader()))
    return model
