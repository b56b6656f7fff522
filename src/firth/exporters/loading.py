"""From a path to whatever was trained or exported there: the one function behind ``firth.load``."""

from pathlib import Path

from firth.core.errors import FirthError
from firth.core.run import Run
from firth.models.shared.model import Model, load_model
from firth.tasks.model import TaskModel
from firth.tasks.predict import is_task, load_task
from firth.tasks.write.model import WritingModel


def load_any(path: Path) -> Model:
    """An exported model, a task, or a model."""
    model = _load(path)
    model.path = path
    return model


def _load(path: Path) -> Model:
    run = Run.find(path)
    kind = None if run is None else run.record.kind
    if kind == "ctranslate2":
        from firth.exporters.ctranslate2 import load_ctranslate2

        return load_ctranslate2(path)
    if kind == "onnx":
        from firth.exporters.onnx_model import load_onnx

        return load_onnx(path)
    return load_task(path) if is_task(path) else load_model(path)


def load_any_task(path: Path) -> TaskModel | WritingModel:
    """A task, exported or not."""
    model = load_any(path)
    if not isinstance(model, TaskModel | WritingModel):
        raise FirthError(f"{path}: no task was learned here ({model.kind}); name a run that firth finetune made")
    return model
