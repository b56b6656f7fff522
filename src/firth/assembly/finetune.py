"""Fine-tuning: files, base, network and loop put together into a run; several seeds, the best one kept."""

import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from firth.assembly.loading import load_model
from firth.assembly.task_data import Reading, TaskData, read_task
from firth.assembly.task_model import TaskModel, build_model, count_trained
from firth.assembly.task_report import write_task_report
from firth.core.configs import TrainingConfig
from firth.core.errors import FirthError, Interrupted
from firth.core.files import checksum, read_json, write_json
from firth.core.runs import Run
from firth.core.task_configs import TaskConfig
from firth.core.types import Progress
from firth.representations.base import Representation
from firth.representations.elmo import ElmoRepresentation
from firth.representations.scratch import ScratchRepresentation
from firth.tasks.finetuning import Finetuning
from firth.training.loop import Loop

SCRATCH = "scratch"
_TRANSFORMERS = ("encoder", "unified encoder", "two-stream encoder", "decoder")
GRID = [
    {"batch_rows": rows, "learning_rate": rate, "epochs": epochs}
    for rows in (16, 32)
    for rate in (5e-5, 3e-5, 2e-5)
    for epochs in (3, 4)
]
"""The published grid (Devlin et al. 2018, A.3)."""


def load_base(base: str, data: TaskData, config: TaskConfig) -> Representation:
    """The representation below the task; ``scratch`` is none at all."""
    if base == SCRATCH:
        texts = [
            text
            for example in data.train
            for text in (
                [example.words]
                if config.task == "tag"
                else [part for part in (getattr(example, "text", None), getattr(example, "second", None)) if part]
            )
        ]
        return ScratchRepresentation.of_texts(texts, seed=config.seed)
    found = load_model(Path(base))
    return found.base if isinstance(found, TaskModel) else found


def usual_settings(config: TaskConfig, base: Representation, given: set[str]) -> TaskConfig:
    """What is not said is chosen by the base: Transformers are tuned whole, word vectors get a body to read them."""
    changes: dict[str, Any] = {}
    if base.kind not in _TRANSFORMERS:
        usual = {"body": "bilstm", "dropout_prob": 0.3, "epochs": 10, "patience": 3, "warmup_share": 0.0}
        if base.kind != SCRATCH:
            usual["tune"] = False
        if base.kind == ElmoRepresentation.kind:
            usual["layers"] = "mix"  # Peters et al. 2018, eq. 1
        changes = {name: value for name, value in usual.items() if name not in given}
    config = config.replace(**changes) if changes else config
    if config.learning_rate is None:
        tuned = base.kind in _TRANSFORMERS and config.tune and config.body == "none"
        config = config.replace(learning_rate=5e-5 if tuned else 1e-3)
    return config


def start_finetune(
    config: TaskConfig,
    given: set[str],
    base: str,
    train: Path,
    dev: Path | None,
    out: Path,
    reading: Reading,
    seeds: int = 1,
    sweep: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Run:
    """A new run; a run of the same settings that was interrupted goes on with the seeds that are left."""
    data = read_task(config.task, train, dev, reading)
    data.check.refuse()
    if (seeds > 1 or sweep) and not data.dev:
        raise FirthError("several seeds or a sweep are judged on a dev file: name one with --dev")
    config = data.configured(config)
    config = usual_settings(config, load_base(base, data, config), given)
    cells = [
        config.replace(**point, seed=config.seed + number)
        for point in (GRID if sweep else [{}])
        for number in range(seeds)
    ]
    facts: dict[str, Any] = {
        "kind": "task",
        "recipe": config.task,
        "config": config.model_dump(),
        "base": base if base == SCRATCH else str(Path(base).absolute()),
        "corpus": {"path": str(train.absolute()), "dev": None if dev is None else str(dev.absolute())},
        "cells": len(cells),
    }
    run = _open_or_create(out, facts, overwrite)
    with run.lock():
        try:
            return _train_cells(run, cells, data, base, progress)
        except FirthError as error:
            if not isinstance(error, Interrupted) and not any(run.folder.glob("seeds/*/result.json")):
                shutil.rmtree(run.folder)  # a mistake in the settings: nothing was learned yet
            raise


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
    import json

    return json.loads(json.dumps(value))


def _train_cells(run: Run, cells: Sequence[TaskConfig], data: TaskData, base: str, progress: Progress | None) -> Run:
    results = [_cell(run, number, cell, data, base, progress) for number, cell in enumerate(cells)]
    metric = results[0]["metric"]
    best = max(range(len(results)), key=lambda number: results[number]["scores"].get(metric, 0.0))
    model = TaskModel.load(run.folder / "seeds" / str(best))
    model.save(run.folder, _base_path(run.folder / "seeds" / str(best), base))
    _finish(run, model, results, best, data)
    return run


def _base_path(folder: Path, base: str) -> Path | None:
    if (folder / "base").is_dir():
        return folder / "base"
    return None if base == SCRATCH else Path(base)


def _cell(
    run: Run, number: int, config: TaskConfig, data: TaskData, base: str, progress: Progress | None
) -> dict[str, Any]:
    """One training with one seed; one that is there already is not trained again."""
    folder = run.folder / "seeds" / str(number)
    if (folder / "result.json").is_file():
        found: dict[str, Any] = read_json(folder / "result.json")
        return found
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    model, trainee, seconds = train_model(config, load_base(base, data, config), data, folder, progress)
    model.save(folder, None if base == SCRATCH else Path(base))
    scores = dict(trainee.best or {})
    result = {
        "seed": config.seed,
        "settings": {"batch_rows": config.batch_rows, "learning_rate": config.learning_rate, "epochs": config.epochs},
        "metric": trainee.task.metric,
        "scores": scores,
        "train_s": seconds,
        "seconds": time.perf_counter() - started,
        "trained_parameters": count_trained(model.network),
        "parameters": model.num_parameters,
        "layer_weights": model.network.mix.weights() if model.network.mix is not None else None,
    }
    write_json(folder / "result.json", result)
    return result


def train_model(
    config: TaskConfig, base: Representation, data: TaskData, folder: Path, progress: Progress | None
) -> tuple[TaskModel, Finetuning, float]:
    """The network trained on the data, at its best on the dev examples."""
    model = build_model(config, base, data.pairs)
    network = model.network
    network.start(torch.Generator().manual_seed(config.seed))
    model.task.start(network, data.train)
    model.task.learn_from(data.train)
    trainee = Finetuning(config, model.task, network, data.train, data.dev)
    assert config.learning_rate is not None
    training = TrainingConfig(
        batch_rows=config.batch_rows,
        steps=trainee.steps,
        learning_rate=config.learning_rate,
        warmup_share=config.warmup_share,
        weight_decay=config.weight_decay,
        beta2=0.999,
        adam_eps=1e-8,
        evaluations=config.epochs,
        checkpoints=0,
        seed=config.seed,
        device=config.device,
    )
    loop = Loop(trainee, training, folder, progress, saves=False)
    loop.run(trainee.steps, "the same command")
    trainee.take_best()
    if trainee.best and "null_threshold" in trainee.best:
        model.config = config.replace(null_threshold=trainee.best["null_threshold"])
    network.eval()
    return model, trainee, loop.seconds


def _finish(run: Run, model: TaskModel, results: list[dict[str, Any]], best: int, data: TaskData) -> None:
    metric = results[best]["metric"]
    facts: dict[str, Any] = {
        "config": model.config.model_dump(),
        "metric": metric,
        "metrics": {name: value for name, value in results[best]["scores"].items() if name != "null_threshold"},
        "best": best,
        "results": results,
        "parameters": results[best]["parameters"],
        "seconds": sum(result["train_s"] for result in results),
        "layer_weights": results[best]["layer_weights"],
    }
    if len(results) > 1:
        values = [result["scores"][metric] for result in results]
        facts["spread"] = {"mean": statistics.mean(values), "deviation": statistics.stdev(values), "count": len(values)}
    if data.dev:
        predictions = model.predict_examples(data.dev)
        name, (low, high) = model.task.interval(data.dev, predictions)
        facts["interval"] = {"metric": name, "low": low, "high": high}
        write_task_report(run, facts, model, data, predictions)
    files = [path for path in sorted(run.folder.rglob("*")) if path.is_file()]
    facts["checksums"] = {
        str(path.relative_to(run.folder)): checksum(path)
        for path in files
        if path.suffix in (".safetensors", ".json")
        and path.name not in ("firth.json", "result.json")
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
            elif path.name not in ("result.json", "metrics.jsonl"):
                path.unlink()
