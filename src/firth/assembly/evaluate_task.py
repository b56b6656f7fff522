"""A task on a labelled file that it was not trained on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from firth.assembly.loading import load_model
from firth.assembly.task_data import Reading, build_data, read_examples
from firth.assembly.task_model import TaskModel
from firth.assembly.writing_data import read_writing
from firth.assembly.writing_model import WritingModel
from firth.core.errors import FirthError
from firth.core.examples import TextExample
from firth.core.files import read_json


def load_task(run: Path) -> TaskModel | WritingModel:
    model = load_model(run)
    if not isinstance(model, TaskModel | WritingModel):
        raise FirthError(f"{run}: no task was learned here ({model.kind}); name a run that firth finetune made")
    return model


def stored_reading(run: Path) -> Reading:
    """How the files that a run learned from were read."""
    facts = read_json(run / "firth.json") if (run / "firth.json").is_file() else {}
    return Reading(**facts.get("made_from", {}).get("reading", {}))


def check_pair(example: TextExample, pairs: bool) -> None:
    """What compares two texts wants two, and what reads one wants one."""
    if (example.second is not None) != pairs:
        there, wanted = ("one text", "two") if pairs else ("two texts", "one")
        raise FirthError(
            f"{example.where}: {there} where this model reads {wanted}; give another file, or name its columns with --text and --second"
        )


def evaluate_task(run: Path, data: Path, reading: Reading) -> dict[str, Any]:
    """All scores, and the interval in which the main one lies 95 times in 100. What ``reading`` does not say is read
    as it was to learn."""
    model = load_task(run)
    given = {name: value for name, value in vars(reading).items() if value}
    reading = replace(stored_reading(run), **given)
    if isinstance(model, WritingModel):
        written = read_writing(model.config, data, None, reading, learning=False).train
        if model.config.form == "classify":
            for example in written:
                check_pair(example, model.config.pairs)
            check_labels(model.config.labels, written, data)
        return {"examples": len(written), **model.score_examples(written)}
    examples = read_examples(model.config.task, data, reading, for_scoring=True)
    if not examples:
        raise FirthError(f"{data}: no examples in it; check the file")
    build_data(model.config.task, examples, []).check.refuse(learning=False)
    if model.config.task in ("classify", "score") and not model.either:
        for example in examples:
            check_pair(example, model.pairs)
    if model.config.scheme == "bio":
        examples = build_data(model.config.task, examples, []).train
    if model.config.task == "classify":
        check_labels(model.config.labels, examples, data)
    predictions = model.predict_examples(examples)
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    name, (low, high) = model.task.interval(examples, predictions)
    scores = model.task.score(examples, items, predictions)
    return {"examples": len(examples), **scores, "interval": {"metric": name, "low": low, "high": high}}


def check_labels(known: Sequence[str], examples: Sequence[Any], data: Path, knows: str = "this model") -> None:
    for example in examples:
        if str(example.label) not in known:
            raise FirthError(
                f"{example.where or data}: the label '{example.label}' is unknown to {knows} ({', '.join(known[:8])}); mend the file or train again"
            )
