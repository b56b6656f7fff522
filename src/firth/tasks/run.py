"""A run of ``firth finetune``: reads the files, adapts the base to the task's text if asked, trains with several seeds, shares
or settings, and keeps the best model. A ``Cell`` is one of these trainings."""

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import checksum, fingerprint, read_json, write_json, write_text
from firth.core.run import (
    RECORD,
    CellSettings,
    CorpusRecord,
    MadeFrom,
    Run,
    RunRecord,
    ScoreInterval,
    Spread,
    TaskRecord,
    TaskResult,
    TestResult,
    versions,
)
from firth.core.storage import Cluster, run_jobs
from firth.core.types import Prediction, Progress
from firth.data.labelled import TextExample
from firth.models.shared.model import Model
from firth.models.shared.static import ExtraVectors
from firth.reports.card import write_card
from firth.tasks.adaptation import Unlabelled, adapt_base, left_of_budget, plan_adaptation
from firth.tasks.candidates import fit_best
from firth.tasks.checking import all_of, check_lines
from firth.tasks.config import TaskConfig
from firth.tasks.data import Reading, TaskData, check_shares, read_task
from firth.tasks.distillation import Teacher, build_teacher
from firth.tasks.finetune import (
    MADE,
    Cell,
    Grid,
    default_settings,
    load_base,
    plain_point,
    plan_cells,
    points_of,
    sweep_points,
    try_settings,
    tuned_together,
    with_share,
)
from firth.tasks.judging import Fitted, Predictions, suspects_of, write_suspects
from firth.tasks.model import TaskModel, TaskSettings, load_extra_vectors
from firth.tasks.predict import load_task
from firth.tasks.report import write_task_report
from firth.training.checkpoints import learning, same_command
from firth.training.ranks import Ranks, process_count, rank_folder

RESULT, PREDICTIONS, HISTORY = "result.json", "predictions.json", "metrics.jsonl"
OUTSIDE = "folds.jsonl"  # what was said of training examples by models that had not learned from them
SUSPECTS = "suspects.tsv"


@dataclass
class TaskContext:
    """What trainings stand on: the examples, word vectors, and a base that none has changed yet; and what the best one
    so far predicts for the dev examples."""

    base_path: str  # or one of ``MADE``
    data: TaskData
    extra_vectors: ExtraVectors | None
    base: Model | None
    teacher: Teacher | None = None
    unlabelled: Unlabelled | None = None
    predictions: dict[Path, Predictions] = field(default_factory=dict)  # by the training's folder; one at most
    best: tuple[float, float] | None = None  # its share and score
    cluster: Cluster | None = (
        None  # for trainings or, of one, for its folds; the base is at the same path on every node
    )

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
        None if context.cluster is None else (context.cluster, context.base_path),
    )
    if keep:
        fitted.model.save(folder, None if context.base_path in MADE else Path(context.base_path))
        _write_outside(fitted, folder)
    seconds = time.perf_counter() - started
    result = _result(cell, fitted, data, seconds)
    if judge is not None:
        result = result.replace(test=judge(fitted.model, folder))
    write_json(folder / RESULT, result.model_dump(mode="json"))
    context.note(folder, result, fitted.predictions)
    return result


def _train_there(folder: Path, cell: Cell, context: TaskContext) -> TaskResult:
    """One job of a cluster."""
    return train_cell(folder, cell, context, None)


def _train_remotely(
    cluster: Cluster, folders: Sequence[Path], cells: Sequence[Cell], context: TaskContext, progress: Progress | None
) -> list[TaskResult]:
    """Every cell is a job."""
    if context.teacher is not None:
        raise FirthError("a teacher is not sent to a cluster: leave out --teacher or --engine ray")
    there = cluster.put(replace(context, base=None, cluster=None))
    jobs = [(folder.absolute(), cell, there) for folder, cell in zip(folders, cells, strict=True)]
    return run_jobs(cluster, _train_there, jobs, progress)


def _result(cell: Cell, fitted: Fitted, data: TaskData, seconds: float) -> TaskResult:
    config, model = fitted.model.config, fitted.model
    return TaskResult(
        seed=cell.config.seed,
        share=cell.share,
        point=plain_point(cell.point),
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
        curve=fitted.curve,
    )


def _interval(model: TaskModel, data: TaskData, predictions: Predictions) -> ScoreInterval | None:
    """In which the dev score lies by chance."""
    if not data.dev:
        return None
    metric, (low, high) = model.task.interval(data.dev, predictions)
    return ScoreInterval(metric=metric, low=low, high=high)


_SEEDS, _TUNED = "seeds", "tuned_base"


@dataclass(frozen=True)
class Source:
    """What a run is made from."""

    base: str
    train: Path
    dev: Path | None
    reading: Reading
    extra_vectors: Path | None = None  # word vectors
    teacher: Path | None = None
    unlabelled: Path | None = None  # text of the task that the base reads first

    def paths(self) -> list[Path]:
        named = [
            self.train,
            self.dev,
            self.extra_vectors,
            self.teacher,
            self.unlabelled,
            None if self.base in MADE else Path(self.base),
        ]
        return [path for path in named if path is not None]

    def fingerprints(self) -> MadeFrom:
        """What the same result needs: the content of the files, and how they are read."""
        return MadeFrom(files=tuple(fingerprint(path) for path in self.paths()), reading=vars(self.reading))


def task_record(
    config: TaskConfig,
    source: Source,
    base: Model,
    made_from: MadeFrom,
    cells: int,
    grid: Sequence[Mapping[str, object]] = (),
    shares: Sequence[float] = (),
) -> RunRecord:
    """Of a task that is about to be trained ``cells`` times."""
    return RunRecord(
        kind="task",
        model=base.spec_name,
        recipe=config.task,
        versions=versions(),
        config=config.model_dump(mode="json"),
        corpus=CorpusRecord(path=str(source.train.absolute()), dev=_absolute(source.dev)),
        base=source.base if source.base in MADE else str(Path(source.base).absolute()),
        made_from=made_from,
        task=TaskRecord(
            cells=cells,
            sweep=bool(grid),
            grid=tuple(plain_point(point) for point in grid),
            shares=tuple(shares),
            extra_vectors=_absolute(source.extra_vectors),
            teacher=_absolute(source.teacher),
            unlabelled=_absolute(source.unlabelled),
        ),
    )


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def start_finetune(
    config: TaskConfig,
    given: Set[str],
    source: Source,
    out: Path,
    seeds: int = 1,
    sweep: bool | Grid = False,
    shares: Sequence[float] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
    teacher: Model | None = None,
    cluster: Cluster | None = None,
) -> Run:
    """A new run; a run of the same settings that was interrupted goes on with the seeds that are left. ``shares`` of the
    examples are learned from apart, to see how the score grows; the model that is kept has learned from the largest. ``sweep``
    tries all combinations of a grid of settings, or of the usual one for the base.

    Everything is looked at before a run that exists is removed."""
    if process_count() > 1:
        if cluster is not None:
            raise FirthError("torchrun and a cluster do not go together: leave out --engine ray")
        config = tuned_together(config, str(source.fingerprints()), source.unlabelled is not None)
    if config.folds and (source.dev is not None or config.task == "answer"):
        raise FirthError(
            "folds judge classes, scores and tags, and only where no dev file does: leave out folds or --dev"
        )
    data = read_data(config.task, source, seeds > 1 or bool(sweep) or bool(shares), progress)
    floor = bool(sweep) and not config.candidates and source.extra_vectors is None and source.teacher is None
    if (sweep or source.extra_vectors is not None or source.teacher is not None) and not config.candidates:
        config = config.replace(candidates=("tuned",))
    if sweep and shares:
        raise FirthError("a sweep of settings and shares of the examples cannot be had at once: leave out one of them")
    Run.keep_apart(out, source.paths(), overwrite)
    extra = None if source.extra_vectors is None else load_extra_vectors(source.extra_vectors)
    plain = data.configured(config)
    base = load_base(source.base, data, plain)
    context = TaskContext(source.base, data, extra, base, cluster=cluster)
    if cluster is not None and source.base not in MADE:
        context.base_path = str(Path(source.base).absolute())
    shares = check_shares(shares)
    config = default_settings(plain, base, len(data.train), given)
    grid = sweep_points(config, base, sweep) if sweep else []
    cells = plan_cells(plain, base, len(data.train), given, seeds, grid, shares)
    if floor and config.task != "answer":  # what a sweep stands on, so that it never ends below it
        untuned = ("counts",) if source.base in MADE else ("counts", "linear")
        cells.append(Cell(plain.replace(candidates=untuned)))
    if config.adapt_epochs or source.unlabelled is not None:
        plan_adaptation(source.base, config)
    if source.unlabelled is not None:
        context.unlabelled = Unlabelled.of(source.unlabelled, source.reading.text, source.reading.encoding)
        context.unlabelled.check()
    if source.teacher is not None and teacher is not None:
        context.teacher = build_teacher(teacher, source.teacher, config, base, data.pairs)
    try_settings(config, base, data, extra, context.teacher)
    record = task_record(config, source, base, source.fingerprints(), len(cells), grid, shares)
    del base  # the context hands it out; a tuned one may go before the next is read
    with rank_folder(out) as folder:
        run = _train(open_or_create(folder, record, overwrite), config, cells, context, progress)
    return run if folder == out else Run(out, run.record)


def read_data(task: str, source: Source, judged: bool, progress: Progress | None) -> TaskData:
    """The labelled files, read and checked once. An event ``examples`` has what was found in them, as lines."""
    data = read_task(task, source.train, source.dev, source.reading)
    if progress is not None:
        progress({"event": "examples", "lines": check_lines(data.check)})
    data.check.refuse()
    if judged and not data.dev:
        raise FirthError("several seeds, shares or a sweep are judged on a dev file: name one with --dev")
    return data


def open_or_create(out: Path, wanted: RunRecord, overwrite: bool) -> Run:
    """A started run with the same settings is gone on with."""
    run = None if overwrite else Run.find(out)
    if run is None:
        return Run.create(out, wanted, overwrite)
    begun = run.record.task
    if begun is not None:
        known = run.record.replace(versions=wanted.versions, task=begun.replace(tuned_base=None))
        if known == wanted:
            return run
    raise FirthError(f"{out}: exists already; choose another --out or replace it with --overwrite")


def _train(run: Run, config: TaskConfig, cells: Sequence[Cell], context: TaskContext, progress: Progress | None) -> Run:
    """All trainings, then the best. A mistake in the settings leaves nothing behind."""

    def learned() -> bool:
        found = [*run.folder.glob(f"{_SEEDS}/*/{RESULT}"), *run.folder.glob(f"{_TUNED}/run/{RECORD}")]
        return bool(found)

    with run.lock(), learning(run.folder, same_command(run.replaces), learned):
        if config.adapt_epochs or context.unlabelled is not None:
            cells = _tune_base(run, config, cells, context, progress)
        folders = [run.folder / _SEEDS / str(number) for number in range(len(cells))]
        if context.cluster is not None and len(cells) > 1:
            finish_run(run, _train_remotely(context.cluster, folders, cells, context, progress), context)
            return run
        ranks = Ranks()
        done = ranks.sum_counts(
            {str(number): (folder / RESULT).is_file() for number, folder in enumerate(folders)}
        )  # of an earlier start; the first rank has them
        results = [
            train_cell(folder, cell, context, progress)
            for number, (folder, cell) in enumerate(zip(folders, cells, strict=True))
            if ranks.first or not done[str(number)]
        ]
        if ranks.first:
            finish_run(run, results, context)
        ranks.wait()
        return run


def _tune_base(
    run: Run, config: TaskConfig, cells: Sequence[Cell], context: TaskContext, progress: Progress | None
) -> list[Cell]:
    """From now on the trainings stand on a base that has read the task's text; the time for it is part of their budget."""
    task = run.record.task
    assert task is not None
    base, folder = Path(context.base_path), run.folder / _TUNED
    out, found = adapt_base(base, context.data, config, folder, progress, context.unlabelled)
    run.save(task=task.replace(tuned_base=found))
    context.base_path, context.base = str(out.absolute()), None
    return [replace(cell, config=left_of_budget(cell.config, found)) for cell in cells]


# -- the end


def finish_run(run: Run, results: Sequence[TaskResult], context: TaskContext) -> None:
    """The model of the best training on the largest share becomes that of the run; the weights of all others go."""
    assert run.record.task is not None
    best = max(range(len(results)), key=lambda number: (results[number].share, results[number].score))
    chosen, data = run.folder / _SEEDS / str(best), context.data
    move_model(chosen, run.folder)
    config = TaskSettings.read(run.folder).config
    asked = TaskConfig.build(run.record.config, run.path).replace(
        null_threshold=config.null_threshold, thresholds=config.thresholds
    )
    run.change(
        config=asked.model_dump(mode="json"),
        metrics={name: value for name, value in results[best].scores.items() if name != "null_threshold"},
        parameters=results[best].parameters,
        seconds=sum(result.train_s for result in results),
        task=finished_task(run.record.task, results, best),
    )
    _report(
        run,
        config,
        with_share(data, results[best].share, results[best].seed),
        _predictions(run.folder, chosen, context),
    )
    write_card(run)
    if (run.folder / _TUNED).is_dir():
        shutil.rmtree(run.folder / _TUNED)  # a copy of it went into the model
    run.save(status="finished", checksums=model_checksums(run.folder))
    drop_weights(run.folder / _SEEDS)


def _report(run: Run, config: TaskConfig, data: TaskData, predictions: Predictions) -> None:
    """The report, and the training examples whose label is probably wrong; without dev examples the report is about what was
    said of training examples in cross-validation."""
    outside, of_all = _read_outside(run.folder)
    examples = all_of(TextExample, data.train)
    suspects = suspects_of(config, examples, of_all or outside)
    if suspects:
        write_suspects(suspects, examples, run.folder / SUSPECTS)
        run.change(notes={**run.record.notes, "probably wrong labels": f"{len(suspects):,}, listed in {SUSPECTS}"})
    if not data.dev:
        data, predictions = replace(data, dev=[data.train[number] for number in outside]), list(outside.values())
    chosen = run.record.task.chosen if run.record.task is not None else None
    if data.dev or (chosen is not None and chosen.candidates):
        write_task_report(run, config, data, predictions, suspects)


def _write_outside(fitted: Fitted, folder: Path) -> None:
    """A line each: the number of the training example, whether the model that was kept is meant, the prediction."""
    sides = ((True, fitted.outside), (False, fitted.of_all))
    lines = [[number, kept, one] for kept, found in sides for number, one in found.items()]
    if lines:
        write_text(folder / OUTSIDE, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))


def _read_outside(folder: Path) -> tuple[dict[int, Prediction], dict[int, Prediction]]:
    """Of the model that was kept, and of a linear model where that is not for all examples."""
    sides: tuple[dict[int, Prediction], dict[int, Prediction]] = ({}, {})
    path = folder / OUTSIDE
    for line in path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []:
        number, kept, found = json.loads(line)
        sides[not kept][number] = found
    return sides


_KEPT = (RESULT, HISTORY, PREDICTIONS)
"""Of every training."""


def move_model(chosen: Path, goal: Path) -> None:
    """From the folder of its training to that of the run: what was moved before a kill stays moved."""
    for path in sorted(chosen.iterdir()):
        if path.name not in _KEPT:
            os.replace(path, goal / path.name)
    for name in (PREDICTIONS, HISTORY):
        if (chosen / name).is_file():
            shutil.copy2(chosen / name, goal / name)


def _predictions(folder: Path, chosen: Path, context: TaskContext) -> Predictions:
    """Of the best training for the dev examples. One that was trained before a kill is asked again."""
    known = context.predictions.get(chosen)
    if known is not None or not context.data.dev:
        return known or []
    model = load_task(folder)
    assert isinstance(model, TaskModel)
    return model.predict_examples(context.data.dev)


def finished_task(task: TaskRecord, results: Sequence[TaskResult], best: int) -> TaskRecord:
    swept = [result for result in results if result.point or not task.grid]
    alike = [result.score for result in swept if result.share == results[best].share]
    spread = None
    if len(alike) > 1:
        spread = Spread(mean=statistics.mean(alike), deviation=statistics.stdev(alike), count=len(alike))
    points = [(result.share, result.examples, result.score) for result in results] if task.shares else []
    return task.replace(results=tuple(results), best=best, spread=spread, efficiency=tuple(points_of(points)))


def model_checksums(folder: Path) -> dict[str, str]:
    """Of the files of the model."""
    found = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path): checksum(folder / path)
        for path in found
        if path.suffix in (".safetensors", ".json")
        and path.name not in (RECORD, RESULT, PREDICTIONS)
        and _SEEDS not in path.parts
    }


def drop_weights(seeds: Path) -> None:
    """The models of the trainings that were not the best."""
    for folder in seeds.iterdir():
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in _KEPT:
                path.unlink()
