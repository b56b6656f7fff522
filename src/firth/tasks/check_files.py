"""A look at labelled files before anything is trained on them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from firth.tasks.checking import Problem, check_lines
from firth.tasks.config import task_config, writing_config
from firth.tasks.data import Reading, TaskData, read_task
from firth.tasks.suspects import find_suspects
from firth.tasks.write.data import describe_writing

_SHOWN = 5


@dataclass(frozen=True)
class Checked:
    """What is said of the files, and whether training would refuse them."""

    lines: list[str]
    refused: bool = False


def check_files(
    task: str, train: Path, dev: Path | None, reading: Reading, settings: Mapping[str, object], closely: bool = False
) -> Checked:
    """Labels, counts, lengths and problems, as lines for a terminal; of writing, the first example. ``closely``: labels
    that are probably wrong as well, which takes a training."""
    if task == "write":
        return Checked(describe_writing(writing_config(settings)[0], train, dev, reading))
    data = read_task(task_config(task).task, train, dev, reading)
    check, refused = data.check, any(problem.grave for problem in data.check.problems)
    if closely and task == "classify" and not refused:
        check = replace(check, problems=[*check.problems, *_wrong_labels(data)])
    return Checked(check_lines(check), refused)


def _wrong_labels(data: TaskData) -> list[Problem]:
    """The surest ones by name."""
    found = find_suspects(data.train)
    if not found:
        return []
    shown = [
        f"{data.train[one.number].where or one.number + 1}: '{one.label}', looks like '{one.likely}' ({one.likely_prob:.2f})"
        for one in found[:_SHOWN]
    ]
    first = data.train[found[0].number].where or str(found[0].number + 1)
    return [Problem("labels that are probably wrong", len(found), first, remedy=f"look at {'; '.join(shown)}")]
