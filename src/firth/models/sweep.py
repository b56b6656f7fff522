"""A sweep of pre-training: the same recipe with every combination of a grid of settings, each for the same time or number of steps;
the run with the lowest held-out loss is kept.

The trainings stand in ``OUT.sweep`` until all are done, so ``OUT`` is whole or absent; the same command goes on with a sweep that
was stopped.
"""

import itertools
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from firth.core.config import named
from firth.core.errors import FirthError
from firth.core.files import fingerprint, read_json, write_json
from firth.core.registry import RunConfig
from firth.core.run import Run, SweptRun, is_run
from firth.core.storage import Cluster, run_jobs
from firth.core.types import Progress
from firth.models.pretrain import resume_run, start_run
from firth.training.checkpoints import learning, same_command
from firth.training.ranks import process_count

Grid = Mapping[str, Sequence[object]]
_PLAN = "sweep.json"
_EQUAL = ("training.steps", "training.epochs", "training.budget", "training.seed", "training.device")
_EXAMPLE = "write for example learning_rate=1e-3,3e-4 batch_size=8,16"


def sweep_points(config: RunConfig, sweep: bool | Grid) -> list[dict[str, object]]:
    """All combinations of the grid, each checked; the usual grid is half, once and twice the recipe's learning rate."""
    rate = config.training.learning_rate
    usual: Grid = {"learning_rate": (rate / 2, rate, 2 * rate)}
    grid = usual if isinstance(sweep, bool) else sweep
    for name, values in grid.items():
        full = _full_name(config, name, values)
        reason = "has no values" if not values else ""
        if full in _EQUAL:
            reason = "is the same for every training"
        elif not full.startswith(("training.", "model.")):
            reason = "changes what the held-out loss measures"
        elif full == "training.batch_size" and getattr(config.objective, "half_weight", False):
            reason = "changes among how many texts halves are found, and so the held-out loss; set half_weight=0 for it"
        if reason:
            raise FirthError(f"sweep: {name} {reason}; {_EXAMPLE}")
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if len(points) < 2:
        raise FirthError(f"sweep: one combination of settings leaves nothing to choose; {_EXAMPLE}")
    return [_read(config, point) for point in points]


def _read(config: RunConfig, point: Mapping[str, object]) -> dict[str, object]:
    """The values as the settings have them."""
    plain = config.update(point).model_dump(mode="json")
    found: dict[str, object] = {}
    for name in point:
        value: object = plain
        for part in _full_name(config, name, (point[name],)).split("."):
            assert isinstance(value, dict)
            value = value[part]
        found[name] = value
    return found


def _full_name(config: RunConfig, name: str, values: Sequence[object]) -> str:
    """With its section; an unknown name, or one of several sections, is an error."""
    config.update({name: values[0]} if values else {})
    return next((key for key in config.keys() if key == name or key.endswith(f".{name}")), name)


def start_sweep(
    config: RunConfig,
    sweep: bool | Grid,
    corpus: Path,
    out: Path,
    base: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    cluster: Cluster | None = None,
) -> Run:
    """The best of all trainings, as a run in ``out``; its record says what was tried. On a cluster corpus, base and ``out`` are
    at the same path on every node."""
    if process_count() > 1:
        raise FirthError("a sweep of pre-training runs in one process: start it without torchrun")
    points = sweep_points(config, sweep)
    Run.keep_apart(out, (corpus, *([base] if base else [])), overwrite)
    if out.exists() and (not overwrite or not is_run(out)):
        Run.clear(out, overwrite)  # says what is in the way
    work = out.with_name(f"{out.name}.sweep")
    plan = {
        "config": config.model_dump(mode="json"),
        "points": points,
        "corpus": fingerprint(corpus),
        "base": None if base is None else fingerprint(base),
    }
    _open_work(work, json.loads(json.dumps(plan)))
    with learning(work, same_command(False), lambda: any(is_run(path) for path in work.iterdir())):
        each, start = progress if cluster is None else None, base and base.absolute()
        jobs = [
            (work.absolute() / str(number), config.update(point), Path(named(corpus)), start, point, each)
            for number, point in enumerate(points)
        ]
        results = run_jobs(cluster, _train, jobs, progress)
    best = min(range(len(results)), key=lambda number: (results[number].loss, number))
    run = Run.open(work / str(best))
    run.save(sweep=[one.replace(chosen=number == best) for number, one in enumerate(results)])
    if out.exists():
        Run.clear(out, overwrite)
    os.replace(run.folder, out)
    shutil.rmtree(work)
    return Run.open(out)


def _open_work(work: Path, plan: dict[str, object]) -> None:
    """A sweep of the same settings is gone on with."""
    if (work / _PLAN).is_file():
        if read_json(work / _PLAN) != plan:
            raise FirthError(
                f"{work}: a sweep of other settings or text was started here; remove it, or choose another --out"
            )
        return
    if work.exists() and any(work.iterdir()):
        raise FirthError(f"{work}: exists already; choose another --out")
    work.mkdir(parents=True, exist_ok=True)
    try:
        write_json(work / _PLAN, plan)
    except FirthError:
        work.rmdir()
        raise


def _train(
    folder: Path,
    config: RunConfig,
    corpus: Path,
    base: Path | None,
    point: Mapping[str, object],
    progress: Progress | None,
) -> SweptRun:
    """One combination; one that is there already is not trained again."""
    begun = is_run(folder)
    run = resume_run(folder, progress) if begun else start_run(config, corpus, folder, base, progress=progress)
    loss = run.record.metrics.get("loss")
    if loss is None:
        raise FirthError("a sweep chooses by the loss on held-out text: prepare the corpus with a larger --heldout")
    if (folder / "checkpoints").is_dir():
        shutil.rmtree(folder / "checkpoints")  # a finished run is not gone on with
    steps = run.record.steps or 0
    return SweptRun(settings=json.loads(json.dumps(point)), loss=loss, steps=steps, seconds=run.record.seconds)
