"""Tasks, in a few functions: ``finetune``, ``check_task``, ``evaluate_task``, ``predict_file``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.api import AnyPath, load
from firth.core.errors import FirthError, nearest
from firth.core.task_configs import TaskConfig
from firth.core.types import Progress

if TYPE_CHECKING:
    from firth.representations.base import Representation


def finetune(
    task: str,
    *,
    base: AnyPath,
    train: AnyPath,
    dev: AnyPath | None = None,
    out: AnyPath,
    beside: AnyPath | None = None,
    settings: Sequence[str] = (),
    seeds: int | None = None,
    sweep: bool = False,
    shares: Sequence[float] = (),
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    skip_bad: bool = False,
    repair_tags: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    **more: Any,
) -> Representation:
    """A task (classify, score, tag or answer) learned on top of a representation: a run, a Hugging Face directory, a file
    of vectors, or ``"scratch"``; ``beside`` it may stand word vectors, which do not learn. ``epochs=``, ``learning_rate=``
    and all other settings of ``TaskConfig`` may be given. With ``shares`` (0.01, 0.1, 1, say) it learns from shares of the
    examples, three seeds each unless ``seeds`` says otherwise; the model is the best of the largest share."""
    import json

    from firth.assembly.task_data import Reading
    from firth.assembly.task_run import Source, start_finetune

    given = {name: value for name, value in more.items() if value is not None}
    words = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()
    ] + list(settings)
    config = task_config(task).override(words)
    named = {word.partition("=")[0].strip() for word in words}
    source = Source(
        str(base),
        Path(train),
        Path(dev) if dev is not None else None,
        Reading(text, second, label, skip_bad, repair_tags),
        Path(beside) if beside is not None else None,
    )
    count = seeds if seeds is not None else 3 if shares else 1
    run = start_finetune(config, named, source, Path(out), count, sweep, shares, overwrite, progress)
    return load(run.folder)


def task_config(task: str) -> TaskConfig:
    """The usual settings of a kind of task."""
    kinds = {"classify": "classify", "score": "score", "tag": "tag", "answer": "answer", "span": "answer"}
    if task not in kinds:
        raise FirthError(f"unknown task '{task}': {nearest(task, list(kinds))}")
    return TaskConfig.build({"task": kinds[task]}, "task")


def check_task(
    task: str,
    *,
    train: AnyPath,
    dev: AnyPath | None = None,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    skip_bad: bool = False,
) -> list[str]:
    """What is in labelled files: labels, counts, lengths, problems, as lines for a terminal."""
    from firth.assembly.task_data import Reading, read_task
    from firth.tasks.check_table import check_lines

    reading = Reading(text, second, label, skip_bad)
    kind = task_config(task).task
    return check_lines(read_task(kind, Path(train), Path(dev) if dev is not None else None, reading).check)


def evaluate_task(
    run: AnyPath, data: AnyPath, text: str | None = None, second: str | None = None, label: str | None = None
) -> dict[str, Any]:
    """A fine-tuned run on a labelled file: its scores, and where the main one could lie by chance."""
    from firth.assembly.evaluate_task import evaluate_task as evaluate_file
    from firth.assembly.task_data import Reading

    return evaluate_file(Path(run), Path(data), Reading(text, second, label))


def predict_file(
    run: AnyPath, source: str, text: str | None = None, second: str | None = None
) -> Iterator[dict[str, Any]]:
    """Predictions for a file (or ``-``, standard input, one text a line), one after the other."""
    from firth.assembly.predict import predict_source

    return predict_source(Path(run), source, text, second)
