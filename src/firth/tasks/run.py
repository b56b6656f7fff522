"""A run of ``firth finetune``: files, base and trainings put together; several seeds or shares, the best one kept."""

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError, Interrupted
from firth.core.files import checksum, fingerprint, read_json, write_json
from firth.core.run import Run
from firth.core.types import Progress
from firth.models.shared.extra_vectors import ExtraVectors
from firth.models.shared.model import Model
from firth.tasks.adapt import adapt_base, plan_adaptation
from firth.tasks.config import TaskConfig
from firth.tasks.curve import points_of, predict_one_in
from firth.tasks.data import Reading, TaskData, check_shares, read_task
from firth.tasks.distillation import Teacher, build_teacher
from firth.tasks.finetune import SCRATCH, default_settings, load_base, rehearse, train_model
from firth.tasks.model import TaskModel, count_trained, load_extra_vectors
from firth.tasks.report import write_task_report

GRID = [
    {"batch_size": rows, "learning_rate": rate, "epochs": epochs}
    for rows in (16, 32)
    for rate in (5e-5, 3e-5, 2e-5)
    for epochs in (3, 4)
]
"""The published grid (Devlin et al. 2018, A.3)."""
RESULT, PREDICTIONS = "result.json", "predictions.json"


@dataclass(frozen=True)
class Source:
    """What a run is made from."""

    base: str
    train: Path
    dev: Path | None
    reading: Reading
    extra_vectors: Path | None = None  # word vectors
    teacher: Path | None = None

    def paths(self) -> list[Path]:
        named = [
            self.train,
            self.dev,
            self.extra_vectors,
            self.teacher,
            None if self.base == SCRATCH else Path(self.base),
        ]
        return [path for path in named if path is not None]

    def fingerprints(self) -> dict[str, Any]:
        """What the same result needs: the content of the files, and how they are read."""
        return {"files": [fingerprint(path) for path in self.paths()], "reading": vars(self.reading)}

    def facts(self) -> dict[str, Any]:
        return {
            "base": self.base if self.base == SCRATCH else str(Path(self.base).absolute()),
            "extra_vectors": None if self.extra_vectors is None else str(self.extra_vectors.absolute()),
            "teacher": None if self.teacher is None else str(self.teacher.absolute()),
            "corpus": {
                "path": str(self.train.absolute()),
                "dev": None if self.dev is None else str(self.dev.absolute()),
            },
        }


@dataclass(frozen=True)
class Cell:
    """One training: its settings, and the share of the examples that it learns from."""

    config: TaskConfig
    share: float = 1.0


@dataclass
class TaskContext:
    """What trainings stand on: the examples, word vectors, and a base that none has changed yet; and what
    the best one so far said about the dev examples."""

    source: Source
    data: TaskData
    extra_vectors: ExtraVectors | None
    base: Model | None
    teacher: Teacher | None = None
    said: dict[Path, list[dict[str, Any]]] = field(default_factory=dict)  # by the training's folder; one at most
    best: tuple[float, float] | None = None  # its share and score

    def note(self, folder: Path, share: float, score: float, predictions: list[dict[str, Any]]) -> None:
        if self.best is None or (share, score) > self.best:
            self.best, self.said = (share, score), {folder: predictions}

    def take_base(self, config: TaskConfig, data: TaskData) -> Model:
        """A base as it was. One that is tuned is read again for the next training."""
        found = self.base if self.source.base != SCRATCH else None
        if found is None:
            return load_base(self.source.base, data, config)
        if config.tune:
            self.base = None
        return found


def start_finetune(
    config: TaskConfig,
    given: set[str],
    source: Source,
    out: Path,
    seeds: int = 1,
    sweep: bool = False,
    shares: Sequence[float] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
    teacher: Model | None = None,
) -> Run:
    """A new run; a run of the same settings that was interrupted goes on with the seeds that are left. ``shares`` of the
    examples are learned from apart, to see how the score grows; the model that is kept has learned from the largest.

    Everything is looked at before a run that exists is removed."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise FirthError("a task is taught in one process: start firth finetune without torchrun")
    data = read_task(config.task, source.train, source.dev, source.reading)
    data.check.refuse()
    if (seeds > 1 or sweep or shares) and not data.dev:
        raise FirthError("several seeds, shares or a sweep are judged on a dev file: name one with --dev")
    if sweep and shares:
        raise FirthError("a sweep of settings and shares of the examples cannot be had at once: leave out one of them")
    Run.keep_apart(out, source.paths(), overwrite)
    config = data.configured(config)
    context = TaskContext(
        source, data, None if source.extra_vectors is None else load_extra_vectors(source.extra_vectors), None
    )
    context.base = load_base(source.base, data, config)
    plain, base, total = config, context.base, len(data.train)
    config = default_settings(plain, base, total, given)
    settings = {share: default_settings(plain, base, round(share * total), given) for share in check_shares(shares)}
    cells = [
        Cell(settings.get(share, config).replace(**point, seed=config.seed + number), share)
        for point in (GRID if sweep else [{}])
        for share in check_shares(shares) or [1.0]
        for number in range(seeds)
    ]
    if config.adapt_epochs:
        plan_adaptation(source.base, config)
    if source.teacher is not None and teacher is not None:
        context.teacher = build_teacher(teacher, source.teacher, config, context.base, data.pairs)
    rehearse(config, context.base, data, context.extra_vectors, context.teacher)
    facts = {
        "kind": "task",
        "recipe": config.task,
        "config": config.model_dump(),
        **source.facts(),
        "made_from": source.fingerprints(),
        "cells": len(cells),
        "sweep": sweep,
        "shares": check_shares(shares),
    }
    run = _open_or_create(out, facts, overwrite)
    with run.lock():
        try:
            if config.adapt_epochs:
                _tune(run, config, context, progress)
            return _train_cells(run, cells, context, progress)
        except FirthError as error:
            learned = [*run.folder.glob(f"seeds/*/{RESULT}"), *run.folder.glob(f"{_TUNED}/run/firth.json")]
            if not isinstance(error, Interrupted) and not learned:
                shutil.rmtree(run.folder)  # a mistake in the settings: nothing is lost
            raise


_TUNED = "tuned_base"


def _tune(run: Run, config: TaskConfig, context: TaskContext, progress: Progress | None) -> None:
    """From now on the trainings stand on a base that has read the task's text."""
    base = Path(context.source.base)
    out, found = adapt_base(base, context.data, config, run.folder / _TUNED, progress)
    run.save(tuned_base=found)
    context.source = replace(context.source, base=str(out))
    context.base = None


def _open_or_create(out: Path, facts: dict[str, Any], overwrite: bool) -> Run:
    """A started run with the same settings is gone on with."""
    if not overwrite and (out / "firth.json").is_file():
        run = Run.open(out)
        same = all(run.facts.get(name) == _plain(value) for name, value in facts.items())
        if run.facts["status"] == "started" and same:
            return run
        raise FirthError(f"{out}: exists already; choose another --out or replace it with --overwrite")
    return Run.create(out, facts, overwrite)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _train_cells(run: Run, cells: Sequence[Cell], context: TaskContext, progress: Progress | None) -> Run:
    seeds = run.folder / "seeds"
    finish_run(
        run, [train_cell(seeds / str(number), cell, context, progress) for number, cell in enumerate(cells)], context
    )
    return run


def finish_run(run: Run, results: list[dict[str, Any]], context: TaskContext) -> None:
    """The best training on the largest share becomes the run's model; the weights of all are removed."""
    metric = results[0]["metric"]
    best = max(
        range(len(results)), key=lambda number: (results[number]["share"], results[number]["scores"].get(metric, 0.0))
    )
    chosen = run.folder / "seeds" / str(best)
    model = TaskModel.load(chosen)
    model.save(run.folder, _base_path(chosen, context.source.base))
    if (chosen / PREDICTIONS).is_file():
        shutil.copy2(chosen / PREDICTIONS, run.folder / PREDICTIONS)
    data = context.data
    predictions = context.said.get(chosen) or (model.predict_examples(data.dev) if data.dev else [])
    _finish(run, model, results, best, data, predictions)


def _base_path(folder: Path, base: str) -> Path | None:
    if (folder / "base").is_dir():
        return folder / "base"
    return None if base == SCRATCH else Path(base)


def train_cell(
    folder: Path,
    cell: Cell,
    context: TaskContext,
    progress: Progress | None,
    keep: bool = True,
    judge: Callable[[TaskModel, Path], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """One training with one seed; one that is there already is not trained again. ``keep`` its weights; ``judge`` says
    more about the finished model."""
    config = cell.config
    if (folder / RESULT).is_file():
        found: dict[str, Any] = read_json(folder / RESULT)
        return found
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    data = predict_one_in(context.data, cell.share, config.seed)
    base = context.take_base(config, data)
    model, trainable, seconds = train_model(
        config, base, data, folder, progress, context.extra_vectors, context.teacher
    )
    if keep:
        model.save(folder, None if context.source.base == SCRATCH else Path(context.source.base))
    result = {
        "seed": config.seed,
        "share": cell.share,
        "examples": len(data.train),
        "settings": {"batch_size": config.batch_size, "learning_rate": config.learning_rate, "epochs": config.epochs},
        "metric": trainable.task.metric,
        "scores": dict(trainable.best or {}),
        "train_s": seconds,
        "seconds": time.perf_counter() - started,
        "trained_parameters": count_trained(model.network),
        "parameters": model.num_parameters,
        "mixes": model.network.learned_mixes(),
    }
    if judge is not None:
        result |= judge(model, folder)
    write_json(folder / RESULT, result)
    context.note(folder, cell.share, (trainable.best or {}).get(trainable.task.metric, 0.0), trainable.predictions)
    return result


def _finish(
    run: Run,
    model: TaskModel,
    results: list[dict[str, Any]],
    best: int,
    data: TaskData,
    predictions: list[dict[str, Any]],
) -> None:
    metric = results[best]["metric"]
    facts: dict[str, Any] = {
        "config": model.config.model_dump(),
        "metric": metric,
        "metrics": {name: value for name, value in results[best]["scores"].items() if name != "null_threshold"},
        "best": best,
        "results": results,
        "parameters": results[best]["parameters"],
        "seconds": sum(result["train_s"] for result in results),
        "mixes": results[best]["mixes"],
    }
    values = [result["scores"].get(metric) for result in results if result["share"] == results[best]["share"]]
    if len(values) > 1:
        facts["spread"] = {"mean": statistics.mean(values), "deviation": statistics.stdev(values), "count": len(values)}
    if run.facts.get("shares"):
        facts["efficiency"] = points_of(results, metric)
    if data.dev:
        name, (low, high) = model.task.interval(data.dev, predictions)
        facts["interval"] = {"metric": name, "low": low, "high": high}
        write_task_report(run, facts, model, data, predictions)
    if (run.folder / _TUNED).is_dir():
        shutil.rmtree(run.folder / _TUNED)  # a copy of it went into the model
    files = [path for path in sorted(run.folder.rglob("*")) if path.is_file()]
    facts["checksums"] = {
        str(path.relative_to(run.folder)): checksum(path)
        for path in files
        if path.suffix in (".safetensors", ".json")
        and path.name not in ("firth.json", RESULT, PREDICTIONS)
        and "seeds" not in path.relative_to(run.folder).parts
    }
    run.save(status="finished", **facts)
    _drop_weights(run.folder / "seeds")


def _drop_weights(seeds: Path) -> None:
    """The weights of the seeds that were not the best, and the best one's second copy."""
    for folder in seeds.iterdir():
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in (RESULT, "metrics.jsonl", PREDICTIONS):
                path.unlink()
