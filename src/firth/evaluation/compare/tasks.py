"""The fine-tunings of a comparison: each base on the same labels, within its seconds, with several seeds."""

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from firth.core.configs import TrainingConfig
from firth.core.files import read_json, write_json
from firth.core.records import MadeFrom, TaskResult, TestResult
from firth.core.run import RECORD, Run
from firth.core.types import Progress
from firth.evaluation.compare.cache import Cell
from firth.evaluation.compare.ranking import fit_length
from firth.models.shared.model import Model
from firth.tasks.cells import HISTORY, PREDICTIONS, RESULT, TaskContext, train_cell
from firth.tasks.cells import Cell as Training
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData
from firth.tasks.finetune import default_settings, load_base
from firth.tasks.model import TaskModel, build_model
from firth.tasks.run import Source, finish_run, task_record
from firth.tasks.training import Finetuning
from firth.training.loop import Loop

_TIMED_TRAIN, _TIMED_DEV = 640, 200
_TOLD = ("label", "probabilities", "score", "tags", "answer")
_NOT_MODEL = ("report.html", HISTORY, RECORD, PREDICTIONS)


@dataclass(frozen=True)
class Labels:
    """The labelled examples of a comparison; ``test`` decides nothing and gives the scores of the table."""

    data: TaskData
    test: list[Any]
    config: TaskConfig  # of the task, with its labels
    given: frozenset[str]  # settings that the user named

    def some(self, num_train: int, num_dev: int) -> TaskData:
        """The first of them: small parts lie in larger ones."""
        return replace(self.data, train=self.data.train[:num_train], dev=self.data.dev[:num_dev])


def fit_to_time(labels: Labels, base: Model, num_train: int, seconds: float) -> dict[str, Any]:
    """How many epochs, and of how many examples, a training may take to keep to its seconds."""
    config = default_settings(labels.config, base, num_train, labels.given)
    sample = labels.some(min(num_train, _TIMED_TRAIN), _TIMED_DEV)
    model = build_model(config, base, sample.pairs)
    model.network.start(torch.Generator().manual_seed(config.seed))
    model.task.learn_from(labels.data.train)
    trainable = Finetuning(config.replace(epochs=1), model.task, model.network, sample.train, sample.dev)
    training = TrainingConfig(batch_size=config.batch_size, steps=trainable.steps, device=config.device)
    with tempfile.TemporaryDirectory() as folder:
        timing = Loop(trainable, training, Path(folder), saves=False).time_steps(0.05 * seconds)
    epoch_steps = max(1, round(trainable.steps * num_train / len(sample.train)))
    text_s = timing.evaluation_s / len(sample.dev)
    num_dev = min(len(labels.data.dev), max(_TIMED_DEV, int(0.1 * seconds / max(text_s, 1e-9))))
    epochs, steps = fit_length(seconds, timing.step_s, text_s * num_dev, epoch_steps, config.epochs)
    part = num_train if steps >= epoch_steps else max(config.batch_size, num_train * steps // epoch_steps)
    return {"epochs": epochs, "num_train": min(part, num_train), "num_dev": num_dev}


# -- trainings


def test_model(model: TaskModel, examples: list[Any], path: Path) -> TestResult:
    """Scores on examples that decided nothing, and the time that a text takes; the predictions are kept."""
    started = time.perf_counter()
    predictions = model.predict_examples(examples)
    seconds = time.perf_counter() - started
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    metric, (low, high) = model.task.interval(examples, predictions)
    write_json(path, [{key: found[key] for key in _TOLD if key in found} for found in predictions])
    return TestResult(
        metric=metric,
        score=model.task.score(examples, items, predictions)[metric],
        low=low,
        high=high,
        ms_per_text=1000 * seconds / len(examples),
    )


@dataclass(frozen=True)
class Trainings:
    """Some trainings of one base: where, how long, on what, with which seeds."""

    cell: Cell
    labels: Labels
    source: Source
    seeds: int

    def data(self) -> TaskData:
        return self.labels.some(self.cell.chosen["num_train"], self.cell.chosen["num_dev"])

    def context(self) -> TaskContext:
        return TaskContext(
            self.source.base, self.data(), None, load_base(self.source.base, self.data(), self.labels.config)
        )

    def config(self, base: Model) -> TaskConfig:
        config = default_settings(self.labels.config, base, self.cell.chosen["num_train"], self.labels.given)
        return config.replace(epochs=self.cell.chosen["epochs"])

    def train(
        self, folder: Path, context: TaskContext, config: TaskConfig, keep: bool, progress: Progress | None
    ) -> list[TaskResult]:
        """All seeds; those that are there are not trained again."""
        return [
            train_cell(
                folder / str(number),
                Training(config.replace(seed=config.seed + number)),
                context,
                progress,
                keep,
                lambda model, place: test_model(model, self.labels.test, place / PREDICTIONS),
            )
            for number in range(self.seeds)
        ]

    def finetune(self, progress: Progress | None) -> Run:
        """A run of ``firth finetune``'s kind: every seed is trained, the best on dev is kept."""
        context = self.context()
        assert context.base is not None
        config = self.config(context.base)
        folder = self.cell.folder
        made_from = MadeFrom(reading=vars(self.source.reading))  # the cache knows the files
        record = task_record(config, self.source, context.base, made_from, self.seeds)
        run = Run.find(folder) or Run.create(folder, record)
        with run.lock():
            finish_run(run, self.train(folder / "seeds", context, config, True, progress), context)
        return run

    def share(self, progress: Progress | None) -> tuple[list[TaskResult], int]:
        """The results of trainings whose weights are not kept, and how many were trained now."""
        places = [self.cell.folder / str(number) / RESULT for number in range(self.seeds)]
        missing = sum(not place.is_file() for place in places)
        if not missing:
            return [TaskResult.build(read_json(place), place) for place in places], 0
        context = self.context()
        assert context.base is not None
        return self.train(self.cell.folder, context, self.config(context.base), False, progress), missing


def model_files(folder: Path) -> list[Path]:
    """What predicting needs: the size on disk."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in _NOT_MODEL and "seeds" not in path.relative_to(folder).parts
    ]
