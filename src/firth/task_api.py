"""Tasks, in a few functions: ``finetune``, ``check_task``, ``evaluate_task``, ``predict_file``, ``compare``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.api import AnyPath, load
from firth.core.errors import FirthError, nearest
from firth.core.types import Progress
from firth.tasks.config import TaskConfig, WritingConfig

if TYPE_CHECKING:
    from firth.evaluation.compare.compare import Stage
    from firth.models.shared.model import Model
    from firth.tasks.data import Reading

WRITE = "write"


def finetune(
    task: str,
    *,
    base: AnyPath,
    train: AnyPath,
    dev: AnyPath | None = None,
    out: AnyPath,
    extra_vectors: AnyPath | None = None,
    teacher: AnyPath | None = None,
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
) -> Model:
    """A task (classify, score, tag, answer or write) learned on top of a representation: a run, a Hugging Face directory, a
    file of vectors, or ``"scratch"``; ``extra_vectors`` are word vectors read in addition to it, which do not learn; a ``teacher`` (a run of the
    same task) may say more than the labels. ``epochs=``, ``learning_rate=`` and all other settings of ``TaskConfig`` may be
    given. With ``shares`` (0.01, 0.1, 1, say) it learns from shares of the
    examples, three seeds each unless ``seeds`` says otherwise; the model is the best of the largest share."""
    import json

    from firth.tasks.data import Reading
    from firth.tasks.run import Source, start_finetune

    given = {name: value for name, value in more.items() if value is not None}
    words = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()
    ] + list(settings)
    if task == WRITE:
        if (seeds or 1) > 1 or sweep or shares or extra_vectors is not None or teacher is not None:
            raise FirthError(
                "write is taught once and to one model: leave out --seeds, --sweep, --shares, --extra-vectors and --teacher"
            )
        reading = Reading(text, second, label, skip_bad, repair_tags)
        return _finetune_writing(words, base, train, dev, out, reading, overwrite, progress)
    config = task_config(task).override(words)
    named = {word.partition("=")[0].strip() for word in words}
    source = Source(
        str(base),
        Path(train),
        Path(dev) if dev is not None else None,
        Reading(text, second, label, skip_bad, repair_tags),
        Path(extra_vectors) if extra_vectors is not None else None,
        Path(teacher) if teacher is not None else None,
    )
    count = seeds if seeds is not None else 3 if shares else 1
    taught = load(teacher) if teacher is not None else None
    run = start_finetune(config, named, source, Path(out), count, sweep, shares, overwrite, progress, taught)
    return load(run.folder)


def writing_settings(words: Sequence[str]) -> tuple[WritingConfig, list[str]]:
    """The settings of a task as text, and the words that are left: settings of its training."""
    mine = [word for word in words if word.partition("=")[0].strip() in WritingConfig.model_fields]
    return WritingConfig().override(mine), [word for word in words if word not in mine]


def _finetune_writing(
    words: list[str],
    base: AnyPath,
    train: AnyPath,
    dev: AnyPath | None,
    out: AnyPath,
    reading: Reading,
    overwrite: bool,
    progress: Progress | None,
) -> Model:
    from firth.tasks.write.run import start_writing

    config, rest = writing_settings(words)
    paths = (Path(base), Path(train), Path(dev) if dev is not None else None, Path(out))
    return load(start_writing(config, rest, *paths, reading, overwrite, progress).folder)


def task_config(task: str) -> TaskConfig:
    """The usual settings of a kind of task."""
    kinds = {"classify": "classify", "score": "score", "tag": "tag", "answer": "answer", "span": "answer"}
    if task not in kinds:
        raise FirthError(f"unknown task '{task}': {nearest(task, [*kinds, WRITE])}")
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
    settings: Sequence[str] = (),
) -> list[str]:
    """What is in labelled files: labels, counts, lengths, problems, as lines for a terminal."""
    from firth.tasks.checking import check_lines
    from firth.tasks.data import Reading, read_task

    reading = Reading(text, second, label, skip_bad)
    if task == WRITE:
        from firth.tasks.write.data import describe_writing

        config, _ = writing_settings(settings)
        return describe_writing(config, Path(train), Path(dev) if dev is not None else None, reading)
    kind = task_config(task).task
    return check_lines(read_task(kind, Path(train), Path(dev) if dev is not None else None, reading).check)


def evaluate_task(
    run: AnyPath, data: AnyPath, text: str | None = None, second: str | None = None, label: str | None = None
) -> dict[str, Any]:
    """A fine-tuned run on a labelled file: its scores, and where the main one could lie by chance. Columns that are not
    named are those that it was taught with."""
    from firth.export.loading import load_any_task
    from firth.tasks.data import Reading
    from firth.tasks.evaluate import evaluate_task as evaluate_file

    return evaluate_file(load_any_task(Path(run)), Path(run), Path(data), Reading(text, second, label))


def evaluate_prompt(
    model: AnyPath,
    examples: AnyPath,
    data: AnyPath,
    template: str | None = None,
    text: str | None = None,
    label: str | None = None,
) -> dict[str, Any]:
    """A decoder that is shown a few examples and trained on none, on a labelled file: the scores of a classifier."""
    from firth.tasks.data import Reading
    from firth.tasks.evaluate import evaluate_prompt as evaluate_file

    return evaluate_file(load(model), Path(examples), Path(data), template, Reading(text, None, label))


def predict_file(
    run: AnyPath, source: str, text: str | None = None, second: str | None = None
) -> Iterator[dict[str, Any]]:
    """Predictions for a file (or ``-``, standard input, one text a line), one after the other."""
    from firth.export.loading import load_any_task
    from firth.tasks.predict import predict_source

    return predict_source(load_any_task(Path(run)), Path(run), source, text, second)


def find_names(run: AnyPath, source: str, text: str | None = None) -> list[tuple[str, int]]:
    """The distinct names that a tagger finds in a file, with their counts, the most frequent first."""
    from firth.export.loading import load_any_task
    from firth.tasks import predict

    return predict.find_names(load_any_task(Path(run)), Path(run), source, text)


def compare(
    task: str,
    *,
    corpus: AnyPath | Sequence[AnyPath],
    train: AnyPath,
    dev: AnyPath,
    test: AnyPath | None = None,
    out: AnyPath,
    budget: str = "30m",
    recipes: str | Sequence[str] | None = None,
    seeds: int = 3,
    shares: Sequence[float] = (),
    settings: Sequence[str] = (),
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    layout: str = "auto",
    column: str = "text",
    vocab_size: int = 8000,
    cased: bool | None = None,
    skip_bad: bool = False,
    max_test: int = 3000,
    stage: Stage | None = None,
    note: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Which representation is worth its cost? Recipes (also ``"scratch"`` and models that exist) pre-trained on the same
    text and fine-tuned on the same labels within a budget, beside the floors; what is finished below ``out`` is kept.

    Gives the table as plain data: ``rows`` with scores, intervals and costs, ``best``, ``cheapest``. A recipe may be
    followed by settings (``"bert-mini num_layers=2"``); ``settings`` are those of the task (``max_len=128``)."""
    from firth.data.readers import ReadingConfig
    from firth.evaluation.compare.bases import split_recipes
    from firth.evaluation.compare.compare import Comparison
    from firth.evaluation.compare.config import CompareConfig
    from firth.tasks.data import Reading

    config = task_config(task).override(list(settings))
    named = frozenset(word.partition("=")[0].strip() for word in settings)
    wish = CompareConfig(
        config if "max_len" in named or config.task == "answer" else config.replace(max_len=256),
        tuple(str(word) for word in ([corpus] if isinstance(corpus, str | Path) else corpus)),
        Path(train),
        Path(dev),
        None if test is None else Path(test),
        budget,
        None if recipes is None else tuple(split_recipes(recipes) if isinstance(recipes, str) else recipes),
        seeds,
        tuple(shares),
        named,
        Reading(text, second, label, skip_bad),
        ReadingConfig.build({"layout": layout, "column": column}, "reading"),
        vocab_size,
        config.task == "tag" if cased is None else cased,
        max_test=max_test,
    )
    return Comparison(wish, Path(out), stage, note).run()


def compare_lines(found: dict[str, Any], names: dict[str, str] | None = None) -> list[str]:
    """What ``compare`` gives as a table for a terminal; ``names`` translate its words."""
    from firth.evaluation.compare.ranking import Row, table_lines

    return table_lines([Row.of(row) for row in found["rows"]], found["metric"], names)
