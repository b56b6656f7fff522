"""One training of a task among several: its seed, settings and share of the examples, and what came out of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firth.core.files import read_json, write_json
from firth.core.records import CellSettings, LayerMix, ScoreInterval, TaskResult, TestResult
from firth.core.types import Progress
from firth.models.shared.extra_vectors import ExtraVectors
from firth.models.shared.model import Model
from firth.tasks.config import TaskConfig
from firth.tasks.curve import with_share
from firth.tasks.data import TaskData
from firth.tasks.distillation import Teacher
from firth.tasks.finetune import SCRATCH, load_base, train_model
from firth.tasks.model import TaskModel, count_trained
from firth.tasks.training import Finetuning

RESULT, PREDICTIONS, HISTORY = "result.json", "predictions.json", "metrics.jsonl"
Predictions = list[dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One training: its settings, and the share of the examples that it learns from."""

    config: TaskConfig
    share: float = 1.0


@dataclass
class TaskContext:
    """What trainings stand on: the examples, word vectors, and a base that none has changed yet; and what the best one
    so far predicts for the dev examples."""

    base_path: str  # or "scratch"
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
        found = self.base if self.base_path != SCRATCH else None
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
    base = context.take_base(cell.config, data)
    model, trainable, train_s = train_model(
        cell.config, base, data, folder, progress, context.extra_vectors, context.teacher
    )
    if keep:
        model.save(folder, None if context.base_path == SCRATCH else Path(context.base_path))
    seconds = time.perf_counter() - started
    result = _result(cell, model, trainable, data, train_s, seconds)
    if judge is not None:
        result = result.replace(test=judge(model, folder))
    write_json(folder / RESULT, result.model_dump(mode="json"))
    context.note(folder, result, trainable.predictions)
    return result


def _result(
    cell: Cell, model: TaskModel, trainable: Finetuning, data: TaskData, train_s: float, seconds: float
) -> TaskResult:
    config = cell.config
    assert config.learning_rate is not None
    return TaskResult(
        seed=config.seed,
        share=cell.share,
        examples=len(data.train),
        settings=CellSettings(batch_size=config.batch_size, learning_rate=config.learning_rate, epochs=config.epochs),
        metric=trainable.task.metric,
        scores=dict(trainable.best or {}),
        interval=_interval(model, data, trainable.predictions),
        train_s=train_s,
        seconds=seconds,
        trained_parameters=count_trained(model.network),
        parameters=model.num_parameters,
        mixes={place: LayerMix(**mix) for place, mix in model.network.learned_mixes().items()},
    )


def _interval(model: TaskModel, data: TaskData, predictions: Predictions) -> ScoreInterval | None:
    """In which the dev score lies by chance."""
    if not data.dev:
        return None
    metric, (low, high) = model.task.interval(data.dev, predictions)
    return ScoreInterval(metric=metric, low=low, high=high)
