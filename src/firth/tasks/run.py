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
from firth.models.shared.extra_vectors import WordsBeside
from firth.models.shared.model import Representation
from firth.reports.task import write_task_report
from firth.tasks.adapt import plan_tuning, tune_base
from firth.tasks.config import TaskConfig
from firth.tasks.curve import points_of, share_of
from firth.tasks.data import Reading, TaskData, check_shares, read_task
from firth.tasks.distillation import Teacher, load_teacher
from firth.tasks.finetune import SCRATCH, load_base, rehearse, train_model, usual_settings
from firth.tasks.model import TaskModel, count_trained, load_beside

GRID = [
    {"batch_rows": rows, "learning_rate": rate, "epochs": epochs}
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
    beside: Path | None = None  # word vectors
    teacher: Path | None = None

    def paths(self) -> list[Path]:
        named = [self.train, self.dev, self.beside, self.teacher, None if self.base == SCRATCH else Path(self.base)]
        return [path for path in named if path is not None]

    def fingerprints(self) -> dict[str, Any]:
        """What the same result needs: the content of the files, and how they are read."""
        return {"files": [fingerprint(path) for path in self.paths()], "reading": vars(self.reading)}

    def facts(self) -> dict[str, Any]:
        return {
            "base": self.base if self.base == SCRATCH else str(Path(self.base).absolute()),
            "beside": None if self.beside is None else str(self.beside.absolute()),
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
class Ground:
    """What trainings stand on: the examples, word vectors, and a base that none has changed yet; and what
    the best one so far said about the dev examples."""

    source: Source
    data: TaskData
    beside: WordsBeside | None
    base: Representation | None
    teacher: Teacher | None = None
    said: dict[Path, list[dict[str, Any]]] = field(default_factory=dict)  # by the training's folder; one at most
    best: tuple[float, float] | None = None  # its share and score

    def note(self, folder: Path, share: float, score: float, predictions: list[dict[str, Any]]) -> None:
        if self.best is None or (share, score) > self.best:
            self.best, self.said = (share, score), {folder: predictions}

    def take_base(self, config: TaskConfig, data: TaskData) -> Representation:
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
    ground = Ground(source, data, None if source.beside is None else load_beside(source.beside), None)
    ground.base = load_base(source.base, data, config)
    plain, base, total = config, ground.base, len(data.train)
    config = usual_settings(plain, base, total, given)
    settings = {share: usual_settings(plain, base, round(share * total), given) for share in check_shares(shares)}
    cells = [
        Cell(settings.get(share, config).replace(**point, seed=config.seed + number), share)
        for point in (GRID if sweep else [{}])
        for share in check_shares(shares) or [1.0]
        for number in range(seeds)
    ]
    if config.tune_base_epochs:
        plan_tuning(source.base, config)
    if source.teacher is not None:
        ground.teacher = load_teacher(source.teacher, config, ground.base, data.pairs)
    rehearse(config, ground.base, data, ground.beside, ground.teacher)
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
            if config.tune_base_epochs:
                _tune(run, config, ground, progress)
            return _train_cells(run, cells, ground, progress)
        except FirthError as error:
            learned = [*run.folder.glob(f"seeds/*/{RESULT}"), *run.folder.glob(f"{_TUNED}/run/firth.json")]
            if not isinstance(error, Interrupted) and not learned:
                shutil.rmtree(run.folder)  # a mistake in the settings: nothing is lost
            raise


_TUNED = "tuned_base"


def _tune(run: Run, config: TaskConfig, ground: Ground, progress: Progress | None) -> None:
    """From now on the trainings stand on a base that has read the task's text."""
    base = Path(ground.source.base)
    out, found = tune_base(base, ground.data, config, run.folder / _TUNED, progress)
    run.save(tuned_base=found)
    ground.source = replace(ground.source, base=str(out))
    ground.base = None


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


def _train_cells(run: Run, cells: Sequence[Cell], ground: Ground, progress: Progress | None) -> Run:
    seeds = run.folder / "seeds"
    finish_run(
        run, [train_cell(seeds / str(number), cell, ground, progress) for number, cell in enumerate(cells)], ground
    )
    return run


def finish_run(run: Run, results: list[dict[str, Any]], ground: Ground) -> None:
    """The best training on the largest share becomes the run's model; the weights of all are removed."""
    metric = results[0]["metric"]
    best = max(
        range(len(results)), key=lambda number: (results[number]["share"], results[number]["scores"].get(metric, 0.0))
    )
    chosen = run.folder / "seeds" / str(best)
    model = TaskModel.load(chosen)
    model.save(run.folder, _base_path(chosen, ground.source.base))
    if (chosen / PREDICTIONS).is_file():
        shutil.copy2(chosen / PREDICTIONS, run.folder / PREDICTIONS)
    data = ground.data
    predictions = ground.said.get(chosen) or (model.predict_examples(data.dev) if data.dev else [])
    _finish(run, model, results, best, data, predictions)


def _base_path(folder: Path, base: str) -> Path | None:
    if (folder / "base").is_dir():
        return folder / "base"
    return None if base == SCRATCH else Path(base)


def train_cell(
    folder: Path,
    cell: Cell,
    ground: Ground,
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
    data = share_of(ground.data, cell.share, config.seed)
    base = ground.take_base(config, data)
    model, trainee, seconds = train_model(config, base, data, folder, progress, ground.beside, ground.teacher)
    if keep:
        model.save(folder, None if ground.source.base == SCRATCH else Path(ground.source.base))
    result = {
        "seed": config.seed,
        "share": cell.share,
        "examples": len(data.train),
        "settings": {"batch_rows": config.batch_rows, "learning_rate": config.learning_rate, "epochs": config.epochs},
        "metric": trainee.task.metric,
        "scores": dict(trainee.best or {}),
        "train_s": seconds,
        "seconds": time.perf_counter() - started,
        "trained_parameters": count_trained(model.network),
        "parameters": model.num_parameters,
        "mixes": model.network.learned_mixes(),
    }
    if judge is not None:
        result |= judge(model, folder)
    write_json(folder / RESULT, result)
    ground.note(folder, cell.share, (trainee.best or {}).get(trainee.task.metric, 0.0), trainee.predictions)
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
