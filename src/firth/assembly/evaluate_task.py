"""A task on a labelled file that it was not trained on."""

from pathlib import Path
from typing import Any

from firth.assembly.loading import load_model
from firth.assembly.task_data import Reading, build_data, read_examples
from firth.assembly.task_model import TaskModel
from firth.assembly.writing_data import read_writing
from firth.assembly.writing_model import WritingModel
from firth.core.errors import FirthError


def load_task(run: Path) -> TaskModel | WritingModel:
    model = load_model(run)
    if not isinstance(model, TaskModel | WritingModel):
        raise FirthError(f"{run}: no task was learned here ({model.kind}); name a run that firth finetune made")
    return model


def evaluate_task(run: Path, data: Path, reading: Reading) -> dict[str, Any]:
    """All scores, and the interval in which the main one lies 95 times in 100."""
    model = load_task(run)
    if isinstance(model, WritingModel):
        written = read_writing(model.config, data, None, reading, learning=False).train
        return {"examples": len(written), **model.score_examples(written)}
    examples = read_examples(model.config.task, data, reading, for_scoring=True)
    if not examples:
        raise FirthError(f"{data}: no examples in it; check the file")
    build_data(model.config.task, examples, []).check.refuse(learning=False)
    if model.config.scheme == "bio":
        examples = build_data(model.config.task, examples, []).train
    _known_labels(model, examples, data)
    predictions = model.predict_examples(examples)
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    name, (low, high) = model.task.interval(examples, predictions)
    scores = model.task.score(examples, items, predictions)
    return {"examples": len(examples), **scores, "interval": {"metric": name, "low": low, "high": high}}


def _known_labels(model: TaskModel, examples: list[Any], data: Path) -> None:
    if model.config.task != "classify":
        return
    for example in examples:
        if str(example.label) not in model.config.labels:
            raise FirthError(
                f"{example.where or data}: the label '{example.label}' is unknown to this model ({', '.join(model.config.labels[:8])}); mend the file or train again"
            )
