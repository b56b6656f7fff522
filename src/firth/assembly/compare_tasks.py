"""The fine-tunings of a comparison: each base on the same labels, within its seconds, with several seeds."""

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from firth.assembly.compare_book import Cell
from firth.assembly.finetune import load_base, usual_settings
from firth.assembly.task_data import TaskData
from firth.assembly.task_model import TaskModel, build_model
from firth.assembly.task_run import PREDICTIONS, RESULT, Ground, Source, finish_run, train_cell
from firth.assembly.task_run import Cell as Training
from firth.core.configs import TrainingConfig
from firth.core.files import read_json, write_json
from firth.core.runs import Run
from firth.core.task_configs import TaskConfig
from firth.core.types import Progress
from firth.probes.comparison import fit_length
from firth.representations.base import Representation
from firth.tasks.finetuning import Finetuning
from firth.training.loop import Loop

_TIMED_TRAIN, _TIMED_DEV = 640, 200
_RATES = ((192, 1e-3), (256, 4e-4), (384, 1e-4))  # up to a width; published rates above
_FEW = 2000  # labelled texts
_TABLES = ("static vectors", "scratch")
_TRANSFORMERS = ("encoder", "unified encoder", "two-stream encoder", "decoder")
_TOLD = ("label", "probabilities", "score", "tags", "answer")
_NOT_MODEL = ("report.html", "metrics.jsonl", "firth.json", PREDICTIONS)


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


# -- settings


def fitting_settings(config: TaskConfig, base: Representation, num_train: int, given: frozenset[str]) -> TaskConfig:
    """The usual settings of a base, for models as small and labels as few as a comparison on one machine has (found by
    trying on a few hundred film reviews): small Transformers learn with higher rates, an encoder whose first token has
    not learned to sum up gives the mean, few texts with word vectors need no body, and few labels are read more often."""
    changes: dict[str, Any] = {"epochs": min(20, max(3, round(16_000 / max(num_train, 1)))), "patience": 4}
    whole = config.task in ("classify", "score")
    if base.kind in _TRANSFORMERS:
        changes["learning_rate"] = next((rate for dim, rate in _RATES if base.dim <= dim), 5e-5)
        if whole and base.kind == "encoder" and base.reader().pooler is None:
            changes["pool"] = "mean"
    elif whole and base.kind in _TABLES and num_train < _FEW:
        changes |= {"body": "none", "pool": "mean", "learning_rate": 1e-2}
    config = usual_settings(config, base, set(given))
    return config.replace(**{name: value for name, value in changes.items() if name not in given})


def fit_to_time(labels: Labels, base: Representation, num_train: int, seconds: float) -> dict[str, Any]:
    """How many epochs, and of how many examples, a training may take to keep to its seconds."""
    config = fitting_settings(labels.config, base, num_train, labels.given)
    sample = labels.some(min(num_train, _TIMED_TRAIN), _TIMED_DEV)
    model = build_model(config, base, sample.pairs)
    model.network.start(torch.Generator().manual_seed(config.seed))
    model.task.learn_from(labels.data.train)
    trainee = Finetuning(config.replace(epochs=1), model.task, model.network, sample.train, sample.dev)
    training = TrainingConfig(batch_rows=config.batch_rows, steps=trainee.steps, device=config.device)
    with tempfile.TemporaryDirectory() as folder:
        timing = Loop(trainee, training, Path(folder), saves=False).time_steps(0.05 * seconds)
    epoch_steps = max(1, round(trainee.steps * num_train / len(sample.train)))
    text_s = timing.evaluation_s / len(sample.dev)
    num_dev = min(len(labels.data.dev), max(_TIMED_DEV, int(0.1 * seconds / max(text_s, 1e-9))))
    epochs, steps = fit_length(seconds, timing.step_s, text_s * num_dev, epoch_steps, config.epochs)
    part = num_train if steps >= epoch_steps else max(config.batch_rows, num_train * steps // epoch_steps)
    return {"epochs": epochs, "num_train": min(part, num_train), "num_dev": num_dev}


# -- trainings


def test_model(model: TaskModel, examples: list[Any], path: Path) -> dict[str, Any]:
    """Scores on examples that decided nothing, and the time that a text takes; the predictions are kept."""
    started = time.perf_counter()
    predictions = model.predict_examples(examples)
    seconds = time.perf_counter() - started
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    metric, (low, high) = model.task.interval(examples, predictions)
    write_json(path, [{key: found[key] for key in _TOLD if key in found} for found in predictions])
    return {
        "metric": metric,
        "score": model.task.score(examples, items, predictions)[metric],
        "low": low,
        "high": high,
        "ms_per_text": 1000 * seconds / len(examples),
    }


@dataclass(frozen=True)
class Trainings:
    """Some trainings of one base: where, how long, on what, with which seeds."""

    cell: Cell
    labels: Labels
    source: Source
    seeds: int

    def data(self) -> TaskData:
        return self.labels.some(self.cell.chosen["num_train"], self.cell.chosen["num_dev"])

    def ground(self) -> Ground:
        return Ground(self.source, self.data(), None, load_base(self.source.base, self.data(), self.labels.config))

    def config(self, base: Representation) -> TaskConfig:
        config = fitting_settings(self.labels.config, base, self.cell.chosen["num_train"], self.labels.given)
        return config.replace(epochs=self.cell.chosen["epochs"])

    def train(self, folder: Path, ground: Ground, config: TaskConfig, keep: bool, progress: Progress | None) -> Any:
        """All seeds; those that are there are not trained again."""
        return [
            train_cell(
                folder / str(number),
                Training(config.replace(seed=config.seed + number)),
                ground,
                progress,
                keep,
                lambda model, place: {"test": test_model(model, self.labels.test, place / PREDICTIONS)},
            )
            for number in range(self.seeds)
        ]

    def finetune(self, progress: Progress | None) -> Run:
        """A run of ``firth finetune``'s kind: every seed is trained, the best on dev is kept."""
        ground = self.ground()
        assert ground.base is not None
        config = self.config(ground.base)
        folder = self.cell.folder
        if (folder / "firth.json").is_file():
            run = Run.open(folder)
        else:
            facts: dict[str, Any] = {
                "kind": "task",
                "recipe": config.task,
                "config": config.model_dump(),
                "cells": self.seeds,
                "shares": [],
            }
            run = Run.create(folder, facts | self.source.facts())
        with run.lock():
            finish_run(run, self.train(folder / "seeds", ground, config, True, progress), ground)
        return run

    def share(self, progress: Progress | None) -> tuple[list[dict[str, Any]], int]:
        """The results of trainings whose weights are not kept, and how many were trained now."""
        places = [self.cell.folder / str(number) / RESULT for number in range(self.seeds)]
        missing = sum(not place.is_file() for place in places)
        if missing:
            ground = self.ground()
            assert ground.base is not None
            self.train(self.cell.folder, ground, self.config(ground.base), False, progress)
        return [read_json(place) for place in places], missing


def model_files(folder: Path) -> list[Path]:
    """What predicting needs: the size on disk."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in _NOT_MODEL and "seeds" not in path.relative_to(folder).parts
    ]
