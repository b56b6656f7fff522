"""One training of a task among several: its seed, settings and share of the examples, and what came out of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from firth.core.files import read_json, write_json
from firth.core.records import CellSettings, ScoreInterval, TaskResult, TestResult
from firth.core.types import Progress
from firth.models.shared.model import Model
from firth.models.shared.static import ExtraVectors
from firth.tasks.candidates import Fitted, Predictions, fit_best
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData
from firth.tasks.distillation import Teacher
from firth.tasks.finetune import MADE, load_base, with_share
from firth.tasks.model import TaskModel

RESULT, PREDICTIONS, HISTORY = "result.json", "predictions.json", "metrics.jsonl"


@dataclass(frozen=True)
class Cell:
    """One training: its settings, and the share of the examples that it learns from."""

    config: TaskConfig
    share: float = 1.0


@dataclass
class TaskContext:
    """What trainings stand on: the examples, word vectors, and a base that none has changed yet; and what the best one
    so far predicts for the dev examples."""

    base_path: str  # or one of ``MADE``
    data: TaskData
    extra_vectors: ExtraVectors | None
    base: Model | None
    teacher: Teacher | None = None
    predictions: dict[Path, Predictions] = field(default_factory=dict)  # by the training's folder; one at most
    best: tuple[float, float] | None = None  # its share and score

    def note(self, folder: Path, result: TaskResult, predictions: Predictions) -> None:
        if self.best is None or (result.share, result.score) > self.best:
            self.best, self.predictions = (result.share, result.score), {folder: predictions}

    def take_base(self, config: TaskConfig, data: TaskData) -> Model:
        """A base as it was. One that is tuned is read again for the next training."""
        found = self.base if self.base_path not in MADE else None
        if found is None:
            return load_base(self.base_path, data, config)
        if config.tune:
            self.base = None
        return found


def train_cell(
    folder: Path,
    cell: Cell,
    context: TaskContext,
    progress: Progress | None,
    keep: bool = True,
    judge: Callable[[TaskModel, Path], TestResult] | None = None,
) -> TaskResult:
    """One training in a folder; one that is there already is not trained again. ``keep`` its model; ``judge`` tests it
    on examples that decide nothing."""
    if (folder / RESULT).is_file():
        return TaskResult.build(read_json(folder / RESULT), folder / RESULT)
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    data = with_share(context.data, cell.share, cell.config.seed)
    fitted = fit_best(
        cell.config,
        lambda config: context.take_base(config, data),
        data,
        folder,
        progress,
        context.extra_vectors,
        context.teacher,
    )
    if keep:
        fitted.model.save(folder, None if context.base_path in MADE else Path(context.base_path))
    seconds = time.perf_counter() - started
    result = _result(cell, fitted, data, seconds)
    if judge is not None:
        result = result.replace(test=judge(fitted.model, folder))
    write_json(folder / RESULT, result.model_dump(mode="json"))
    context.note(folder, result, fitted.predictions)
    return result


def _result(cell: Cell, fitted: Fitted, data: TaskData, seconds: float) -> TaskResult:
    config, model = fitted.model.config, fitted.model
    return TaskResult(
        seed=cell.config.seed,
        share=cell.share,
        examples=len(data.train),
        settings=CellSettings(
            batch_size=config.batch_size, learning_rate=config.learning_rate or 0.0, epochs=config.epochs
        ),
        metric=model.task.metric,
        scores=fitted.scores,
        interval=_interval(model, data, fitted.predictions),
        train_s=fitted.train_s,
        seconds=seconds,
        trained_parameters=model.num_trained,
        parameters=model.num_parameters,
        mixes=model.mixes(),
        candidates=fitted.candidates,
        calibration=fitted.calibration,
        by_label=fitted.by_label,
    )


def _interval(model: TaskModel, data: TaskData, predictions: Predictions) -> ScoreInterval | None:
    """In which the dev score lies by chance."""
    if not data.dev:
        return None
    metric, (low, high) = model.task.interval(data.dev, predictions)
    return ScoreInterval(metric=metric, low=low, high=high)
