"""A look at labelled files before anything is trained on them; labels that are probably wrong, by what cross-validation
says of them (confident learning, Northcutt et al. 2021).

An example is suspected if a model that has not seen it gives another class at least the probability that this class gets on
average where it is the label. Of these the ones with the least probability for their own label come first.

N examples, K classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from firth.core.errors import FirthError
from firth.data.labelled import TextExample
from firth.data.tables import output_format, table_writer
from firth.tasks.checking import Problem, all_of, check_lines
from firth.tasks.config import TaskConfig, task_config, writing_config
from firth.tasks.counts import fit_counts
from firth.tasks.data import Reading, TaskData, read_task
from firth.tasks.embed.config import EmbedConfig
from firth.tasks.embed.run import describe_data
from firth.tasks.linear import NUM_FOLDS, Floats, Ints, stratified_folds
from firth.tasks.write.data import describe_writing


@dataclass(frozen=True)
class Suspect:
    """An example by its number, its label, the one that it looks like, and the probability of both."""

    number: int
    label: str
    likely: str
    label_prob: float
    likely_prob: float


def suspect_labels(outside_NK: Floats, targets_N: Ints, labels: Sequence[str]) -> list[Suspect]:
    """From probabilities that were given by models which had not seen the example."""
    own_N = outside_NK[np.arange(len(targets_N)), targets_N]
    usual_K = np.asarray([own_N[targets_N == k].mean() if (targets_N == k).any() else 2.0 for k in range(len(labels))])
    sure_NK = np.where(outside_NK >= usual_K, outside_NK, 0.0)
    sure_NK[np.arange(len(targets_N)), targets_N] = 0.0
    likely_N = sure_NK.argmax(1)
    found = np.flatnonzero((sure_NK.max(1) > own_N) & (sure_NK.max(1) > 0))
    return [
        Suspect(
            number,
            labels[targets_N[number]],
            labels[likely_N[number]],
            float(own_N[number]),
            float(outside_NK[number, likely_N[number]]),
        )
        for number in found[np.argsort(own_N[found], kind="stable")].tolist()
    ]


def find_suspects(examples: Sequence[TextExample]) -> list[Suspect]:
    """By counts. Nothing where these know too little: fewer than half of what is beyond the most frequent label."""
    labels = sorted({str(example.label) for example in examples})
    if len(labels) < 2 or len(examples) < 4 * NUM_FOLDS:
        return []
    targets_N = np.asarray([labels.index(str(example.label)) for example in examples])
    folds_N = stratified_folds(targets_N.tolist(), NUM_FOLDS, 0)
    pairs = any(example.second is not None for example in examples)
    _, linear = fit_counts(TaskConfig(task="classify", labels=tuple(labels)), examples, pairs, folds_N)
    right = (linear.outside.argmax(1) == targets_N).mean()
    majority = np.bincount(targets_N).max() / len(targets_N)
    return suspect_labels(linear.outside, targets_N, labels) if right - majority >= (1 - majority) / 2 else []


# -- files

_SHOWN = 5


@dataclass(frozen=True)
class Checked:
    """What is said of the files, and whether training would refuse them."""

    lines: list[str]
    refused: bool = False


def check_files(
    task: str,
    train: Path,
    dev: Path | None,
    reading: Reading,
    settings: Mapping[str, object],
    closely: bool = False,
    suspects: Path | None = None,
) -> Checked:
    """Labels, counts, lengths and problems, as lines for a terminal; of writing, the first example. ``closely``: labels
    that are probably wrong as well, which takes a training; all of them go to the file ``suspects``."""
    if suspects is not None and task != "classify":
        raise FirthError(f"--suspects is for the labels of classify, not {task}: leave it out")
    if task == "embed":
        return Checked(describe_data(train, EmbedConfig().update(settings), reading, dev))
    if task == "write":
        return Checked(describe_writing(writing_config(settings)[0], train, dev, reading))
    data = read_task(task_config(task).task, train, dev, reading)
    check, refused = data.check, any(problem.grave for problem in data.check.problems)
    if closely and task == "classify" and not refused and not data.several:
        found = find_suspects(all_of(TextExample, data.train))
        check = replace(check, problems=[*check.problems, *_wrong_labels(data, found)])
        if suspects is not None:
            write_suspects(found, all_of(TextExample, data.train), suspects)
    return Checked(check_lines(check), refused)


def write_suspects(found: Sequence[Suspect], examples: Sequence[TextExample], out: Path) -> None:
    """A table of all of them, the surest first."""
    output_format(out)
    names = ["where", "label", "likely", "label_probability", "likely_probability", "text", "second"]
    with table_writer(out, names, {}) as write:
        for one in found:
            example, chances = examples[one.number], (round(one.label_prob, 4), round(one.likely_prob, 4))
            write([example.where, one.label, one.likely, *chances, example.text, example.second])


def _wrong_labels(data: TaskData, found: Sequence[Suspect]) -> list[Problem]:
    """The surest ones by name."""
    if not found:
        return []
    shown = [
        f"{data.train[one.number].where or one.number + 1}: '{one.label}', looks like '{one.likely}' ({one.likely_prob:.2f})"
        for one in found[:_SHOWN]
    ]
    first = data.train[found[0].number].where or str(found[0].number + 1)
    return [Problem("labels that are probably wrong", len(found), first, remedy=f"look at {'; '.join(shown)}")]
