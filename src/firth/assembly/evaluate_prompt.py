"""Labels by prompt on a labelled file: what showing a few examples is worth, beside teaching them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from firth.assembly.evaluate_task import check_labels, check_pair
from firth.assembly.task_data import Reading, read_examples
from firth.core.errors import FirthError
from firth.core.examples import TextExample
from firth.representations.base import Representation
from firth.representations.decoder import DecoderRepresentation
from firth.representations.prompting import TEMPLATE, PromptedLabel, classify_by_prompt
from firth.tasks.bootstrap import confusion_interval
from firth.tasks.metrics import accuracy, classify_scores

Shown = Sequence[tuple[str, str]]


def read_shown(path: Path, reading: Reading) -> list[TextExample]:
    """Examples to be shown or to be scored: one text and its label each."""
    found: list[TextExample] = [example for example in read_examples("classify", path, reading) if example.label]
    if not found:
        raise FirthError(f"{path}: no labelled texts in it; check the file")
    for example in found:
        check_pair(example, pairs=False)
    return found


def label_by_prompt(model: Representation, shown: Path | Shown, texts: Sequence[str], template: str | None) -> Any:
    """The label of each text after the examples of a file, or after pairs of text and label."""
    if not isinstance(model, DecoderRepresentation):
        raise FirthError(f"a model of kind '{model.kind}' cannot classify by prompt: use a decoder such as gpt-mini")
    if isinstance(shown, Path):
        shown = [(example.text, str(example.label)) for example in read_shown(shown, Reading())]
    found: list[PromptedLabel] = classify_by_prompt(model, list(shown), list(texts), template or TEMPLATE)
    return found


def evaluate_prompt(
    model: Representation, shown: Path, data: Path, template: str | None, reading: Reading
) -> dict[str, Any]:
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
