"""From a path to the task that was learned there."""

from pathlib import Path

from firth.core.files import read_json
from firth.core.registry import spec_of_model_type
from firth.core.run import is_run
from firth.models.shared.encoder_format import load_encoder
from firth.tasks.model import SETTINGS, TaskModel, load_published
from firth.tasks.write.model import SETTINGS as WRITING
from firth.tasks.write.model import WritingModel

_PRETRAINED = ("Model", "ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction")  # classes without a task


def is_task(path: Path) -> bool:
    """Whether a task was learned here: by Firth, or by the head of a published directory."""
    if (path / SETTINGS).is_file() or (path / WRITING).is_file():
        return True
    return not is_run(path) and (path / "config.json").is_file() and _has_head(path)


def _has_head(path: Path) -> bool:
    data = read_json(path / "config.json")
    spec = spec_of_model_type(str(data.get("model_type"))) if isinstance(data, dict) else None
    if spec is None or not spec.has_task_heads:
        return False
    classes = data.get("architectures")
    if classes:
        return not str(classes[0]).endswith(_PRETRAINED)
    return bool({"classifier", "spans"} & load_encoder(path)[2].keys())


def load_task(path: Path) -> TaskModel | WritingModel:
    """A run of ``firth finetune``, or a published directory with the head of a task."""
    if (path / SETTINGS).is_file():
        return TaskModel.load(path)
    if (path / WRITING).is_file():
        return WritingModel.load(path)
    return load_published(path)
