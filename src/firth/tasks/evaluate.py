"""A task on a labelled file that it was not trained on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from firth.core.errors import FirthError
from firth.core.run import Run
from firth.data.examples import TextExample
from firth.models.gpt.model import DecoderModel
from firth.models.gpt.prompting import TEMPLATE, PromptedLabel, classify_by_prompt
from firth.models.shared.model import Model
from firth.tasks.data import Reading, build_data, read_examples
from firth.tasks.model import TaskModel
from firth.tasks.scores import accuracy, classify_scores, confusion_interval
from firth.tasks.write.data import read_writing
from firth.tasks.write.model import WritingModel


def stored_reading(run: Path) -> Reading:
    """How the files that a run learned from were read."""
    found = Run.find(run)
    if found is None or found.record.made_from is None:
        return Reading()
    try:
        return TypeAdapter(Reading).validate_python(found.record.made_from.reading)
    except ValidationError as error:
        name = ".".join(map(str, error.errors()[0]["loc"]))
        raise FirthError(f"{found.path}: damaged ('made_from.reading.{name}'); train it again") from None


def check_pair(example: TextExample, pairs: bool) -> None:
    """What compares two texts wants two, and what reads one wants one."""
    if (example.second is not None) != pairs:
        there, wanted = ("one text", "two") if pairs else ("two texts", "one")
        raise FirthError(
            f"{example.where}: {there} where this model reads {wanted}; give another file, or name its columns with --text and --second"
        )


def evaluate_task(model: TaskModel | WritingModel, run: Path, data: Path, reading: Reading) -> dict[str, Any]:
    """All scores of the model of ``run``, and the interval in which the main one lies 95 times in 100. What ``reading``
    does not say is read as it was to learn."""
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


Shown = Sequence[tuple[str, str]]


def read_shown(path: Path, reading: Reading) -> list[TextExample]:
    """Examples to be shown or to be scored: one text and its label each."""
    found: list[TextExample] = [example for example in read_examples("classify", path, reading) if example.label]
    if not found:
        raise FirthError(f"{path}: no labelled texts in it; check the file")
    for example in found:
        check_pair(example, pairs=False)
    return found


def label_by_prompt(model: Model, shown: Path | Shown, texts: Sequence[str], template: str | None) -> Any:
    """The label of each text after the examples of a file, or after pairs of text and label."""
    if not isinstance(model, DecoderModel):
        raise FirthError(f"a model of kind '{model.kind}' cannot classify by prompt: use a decoder such as gpt-mini")
    if isinstance(shown, Path):
        shown = [(example.text, str(example.label)) for example in read_shown(shown, Reading())]
    found: list[PromptedLabel] = classify_by_prompt(model, list(shown), list(texts), template or TEMPLATE)
    return found


def evaluate_prompt(model: Model, shown: Path, data: Path, template: str | None, reading: Reading) -> dict[str, Any]:
    """The scores that ``firth evaluate`` gives for a classifier, so that both can be compared."""
    examples = [(example.text, str(example.label)) for example in read_shown(shown, reading)]
    asked = read_shown(data, reading)
    labels = list(dict.fromkeys(label for _, label in examples))
    check_labels(labels, asked, data, "these examples")
    found = label_by_prompt(model, examples, [example.text for example in asked], template)
    true = np.asarray([labels.index(str(example.label)) for example in asked])
    guessed = np.asarray([labels.index(one.label) for one in found])
    low, high = confusion_interval(true, guessed, len(labels), accuracy)
    scores = classify_scores(true, guessed, len(labels))
    return {
        "examples": len(asked),
        "shown": len(examples),
        **scores,
        "interval": {"metric": "accuracy", "low": low, "high": high},
    }
