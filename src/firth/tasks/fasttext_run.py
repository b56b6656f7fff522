"""A run of ``firth finetune classify --base fasttext``: settings searched in a budget, several seeds or shares, the best kept."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from firth.core.config import parse_duration
from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.run import CellSettings, CorpusRecord, Run, RunRecord, ScoreInterval, TaskRecord, TaskResult, versions
from firth.core.types import Progress
from firth.data.labelled import TextExample
from firth.models.fasttext.classifier import FastTextClassifierConfig
from firth.models.fasttext.training import Examples, Stop, Tuning, Vectors, fit
from firth.reports.card import write_card
from firth.tasks.checking import AnyExample
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData, check_shares, take_share
from firth.tasks.fasttext import FASTTEXT, FastTextTask, text_examples
from firth.tasks.finetune import SCRATCH, with_share
from firth.tasks.judging import Predictions
from firth.tasks.model import load_extra_vectors
from firth.tasks.report import write_task_report
from firth.tasks.run import (
    HISTORY,
    RESULT,
    Source,
    drop_weights,
    finished_task,
    model_checksums,
    move_model,
    open_or_create,
    read_data,
)
from firth.tasks.scores import classify_scores
from firth.training.checkpoints import History, learning, same_command, stop_signals

_TRIALS = "trials.json"
_HELDOUT = 0.2  # of the examples, on which settings are judged where there is no dev file
_SEEDS = "seeds"


@dataclass(frozen=True)
class FastTextCell:
    """One training: its settings, and the share of the examples that it learns from."""

    config: FastTextClassifierConfig
    share: float


@dataclass
class _Context:
    """What all trainings of a run have in common."""

    data: TaskData
    labels: tuple[str, ...]
    vectors: Vectors | None
    stop: Stop
    progress: Progress | None
    predictions: dict[int, Predictions]  # by the number of the training


def start_fasttext(
    task: str,
    given: Mapping[str, object],
    source: Source,
    out: Path,
    seeds: int = 1,
    shares: Sequence[float] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Run:
    """A new run; the same command goes on with one that was interrupted. Everything is looked at before a run that
    exists is removed."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise FirthError("a task is trained in one process: start firth finetune without torchrun")
    if task != "classify":
        raise FirthError(f"fasttext gives texts a class: use firth finetune classify, or another --base for {task}")
    source = replace(source, base=SCRATCH)  # there is no file behind it
    data = read_data("classify", source, seeds > 1 or bool(shares), progress)
    data.refuse_several("fasttext")
    if data.pairs or any(example.second is not None for example in text_examples(data.dev)):
        raise FirthError(
            f"{source.train}: pairs of texts; fasttext reads one text, so name another --base or one column"
        )
    vectors = None if source.extra_vectors is None else _read_vectors(source.extra_vectors)
    config = _configured(given, vectors).fitted([example.text for example in text_examples(data.train)], set(given))
    Run.keep_apart(out, source.paths(), overwrite)
    shares = check_shares(shares)
    cells = [
        FastTextCell(_of_share(config, data, share, given).replace(seed=config.seed + number), share)
        for share in shares or (1.0,)
        for number in range(seeds)
    ]
    run = open_or_create(out, _record(config, source, len(cells), shares), overwrite)
    labels = tuple(data.configured(TaskConfig(task="classify")).labels)
    with stop_signals() as stop:
        context = _Context(data, labels, vectors, stop, progress, {})
        return _train(run, config, set(given) - {"budget", "seed", "metric"}, cells, context)


def _read_vectors(path: Path) -> Vectors:
    """Where the rows of words begin."""
    found = load_extra_vectors(path).vectors.vectors
    return {word: found[word] for word in found.words if word.strip() and "\n" not in word}


def _configured(given: Mapping[str, object], vectors: Vectors | None) -> FastTextClassifierConfig:
    """The settings; vectors decide their own width."""
    config = FastTextClassifierConfig().update(given)
    if config.budget is not None:
        parse_duration(config.budget)
    if vectors:
        dim = len(next(iter(vectors.values())))
        if "dim" in given and config.dim != dim:
            raise FirthError(f"the vectors have {dim} dimensions, but dim is {config.dim}: leave out dim")
        config = config.replace(dim=dim)
    return config


def _of_share(
    config: FastTextClassifierConfig, data: TaskData, share: float, given: Mapping[str, object]
) -> FastTextClassifierConfig:
    """Fewer texts are read more often."""
    texts = [example.text for example in text_examples(data.train)[: round(share * len(data.train))]]
    return config.fitted(texts, set(given))


def _record(config: FastTextClassifierConfig, source: Source, cells: int, shares: Sequence[float]) -> RunRecord:
    dev = None if source.dev is None else str(source.dev.absolute())
    vectors = None if source.extra_vectors is None else str(source.extra_vectors.absolute())
    return RunRecord(
        kind="task",
        model=FASTTEXT,
        recipe="classify",
        versions=versions(),
        config=config.model_dump(mode="json"),
        corpus=CorpusRecord(path=str(source.train.absolute()), dev=dev),
        base=FASTTEXT,
        made_from=source.fingerprints(),
        task=TaskRecord(cells=cells, shares=tuple(shares), extra_vectors=vectors),
        word_split="whitespace" if config.word_split == "whitespace" else "words",
    )


def _train(
    run: Run, config: FastTextClassifierConfig, fixed: set[str], cells: Sequence[FastTextCell], context: _Context
) -> Run:
    """The search, all trainings, then the best. A mistake in the settings leaves nothing behind."""
    again = same_command(run.replaces)
    with run.lock(), learning(run.folder, again, lambda: any(run.folder.glob(f"{_SEEDS}/*/{RESULT}"))):
        if config.budget is not None:
            cells = _tuned(run, config, fixed, cells, context)
        results = [_train_cell(run, number, cell, context) for number, cell in enumerate(cells)]
        _finish(run, cells, results, context)
        return run


def _tuned(
    run: Run, config: FastTextClassifierConfig, fixed: set[str], cells: Sequence[FastTextCell], context: _Context
) -> list[FastTextCell]:
    """The same trainings with the best settings that were found in the budget."""
    assert config.budget is not None
    data = context.data
    train, dev = data.train, data.dev
    if not dev:
        kept = {id(example) for example in take_share(train, _HELDOUT, config.seed)}
        train, dev = ([one for one in train if (id(one) in kept) == held] for held in (False, True))
    tuning = Tuning(
        _examples(train),
        _examples(dev),
        lambda true, guessed: _score(context.labels, true, guessed)[config.metric],
        parse_duration(config.budget),
        run.folder / _TRIALS,
        context.stop,
        context.progress,
        context.vectors,
    )
    fixed |= {"dim"} if context.vectors else set()
    best, trials = tuning.run(config, fixed)
    top = max(trial.score for trial in trials)
    run.change(notes={"autotune": f"best of {len(trials)} settings in {config.budget}, {config.metric} {top:.4f}"})
    chosen = best.model_dump()
    return [FastTextCell(cell.config.replace(**chosen | {"seed": cell.config.seed}), cell.share) for cell in cells]


def _examples(examples: Sequence[AnyExample]) -> Examples:
    texts = text_examples(examples)
    return Examples([example.text for example in texts], [str(example.label) for example in texts])


def _score(labels: Sequence[str], true: Sequence[str], guessed: Sequence[str]) -> dict[str, float]:
    number = {label: place for place, label in enumerate(labels)}
    true_N, guessed_N = ([number[label] for label in side] for side in (true, guessed))
    return classify_scores(true_N, guessed_N, len(labels))


def _train_cell(run: Run, number: int, cell: FastTextCell, context: _Context) -> TaskResult:
    """One training; one that is there already is not trained again."""
    folder = run.folder / _SEEDS / str(number)
    if (folder / RESULT).is_file():
        return TaskResult.build(read_json(folder / RESULT), folder / RESULT)
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    data = with_share(context.data, cell.share, cell.config.seed)
    texts = _examples(data.train).scanned(cell.config)
    config = cell.config
    base, lines = fit(texts, config, context.stop, context.progress, context.vectors, labels=context.labels)
    model, train_s = FastTextTask(base), time.perf_counter() - started
    model.save(folder, None)
    predictions = model.predict_examples(data.dev)
    scores, interval = _dev_scores(model, text_examples(data.dev), predictions)
    heldout = {f"heldout_{name}": value for name, value in scores.items()}
    evaluated = {"event": "evaluate", "step": len(data.train) * config.epochs, "seconds": train_s, **heldout}
    history = History(folder / HISTORY, 0)
    for line in [*lines, evaluated] if heldout else lines:
        history.add(line)
    result = TaskResult(
        seed=config.seed,
        share=cell.share,
        examples=len(data.train),
        settings=CellSettings(batch_size=1, learning_rate=config.learning_rate, epochs=config.epochs),
        metric=config.metric,
        scores=scores,
        interval=interval,
        train_s=train_s,
        seconds=time.perf_counter() - started,
        trained_parameters=model.num_parameters,
        parameters=model.num_parameters,
        mixes={},
    )
    write_json(folder / RESULT, result.model_dump(mode="json"))
    context.predictions[number] = predictions
    return result


def _dev_scores(
    model: FastTextTask, dev: Sequence[TextExample], predictions: Predictions
) -> tuple[dict[str, float], ScoreInterval | None]:
    """On the dev examples, and in which interval the main score lies by chance."""
    if not dev:
        return {}, None
    guessed, true = [str(found["label"]) for found in predictions], [str(example.label) for example in dev]
    metric, (low, high) = model.task.interval(dev, predictions)
    return _score(model.config.labels, true, guessed), ScoreInterval(metric=metric, low=low, high=high)


def _finish(run: Run, cells: Sequence[FastTextCell], results: Sequence[TaskResult], context: _Context) -> None:
    """The model of the best training on the largest share becomes that of the run; the others go."""
    assert run.record.task is not None
    best = max(range(len(results)), key=lambda number: (results[number].share, results[number].score))
    move_model(run.folder / _SEEDS / str(best), run.folder)
    run.change(
        config=cells[best].config.model_dump(mode="json"),
        metrics=results[best].scores,
        parameters=results[best].parameters,
        seconds=sum(result.train_s for result in results),
        epochs=float(cells[best].config.epochs),
        task=finished_task(run.record.task, results, best),
    )
    if context.data.dev:
        known = context.predictions.get(best)  # one that was trained before a kill is asked again
        model = FastTextTask.load(run.folder)
        predictions = model.predict_examples(context.data.dev) if known is None else known
        write_task_report(run, model.config, context.data, predictions)
    write_card(run)
    run.save(status="finished", checksums=model_checksums(run.folder))
    drop_weights(run.folder / _SEEDS)
