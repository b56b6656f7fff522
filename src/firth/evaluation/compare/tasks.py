"""The settings, the cache and the fine-tunings of a comparison.

``CompareConfig`` is what the user asked for. ``Cache`` finds the folder that was made from the same inputs, so that nothing
is trained twice. ``Trainings`` fine-tunes one base on the labels, within its time, with several seeds.
"""

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

import torch

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.registry import TrainingConfig
from firth.core.run import RECORD, MadeFrom, Run, TaskResult, TestResult
from firth.core.types import Progress, generator
from firth.data.readers import ReadingConfig
from firth.evaluation.compare.ranking import fit_length
from firth.models.shared.model import Model
from firth.tasks.checking import AnyExample
from firth.tasks.config import TaskConfig
from firth.tasks.data import (
    Reading,
    TaskData,
    build_data,
    check_shares,
    copies_of,
    nested_order,
    read_examples,
    read_task,
    strata,
)
from firth.tasks.finetune import Cell as Training
from firth.tasks.finetune import default_settings, load_base, usual_candidates
from firth.tasks.model import TaskModel, build_model
from firth.tasks.run import (
    HISTORY,
    OUTSIDE,
    PREDICTIONS,
    RESULT,
    SUSPECTS,
    Source,
    TaskContext,
    finish_run,
    task_record,
    train_cell,
)
from firth.tasks.training import Finetuning
from firth.training.loop import Loop

_FILE = "cells.json"
_DEV_PART = 5  # of the training examples one in so many is held out where no dev file is given
_TIMED_TRAIN, _TIMED_DEV = 640, 200  # examples on which the speed of a training is measured
_KEPT_KEYS = ("label", "probabilities", "score", "tags", "answer")  # of predictions
_NOT_MODEL = ("report.html", HISTORY, RECORD, PREDICTIONS, OUTSIDE, SUSPECTS)
Note = Callable[[str], None]


# -- the cache


class Chosen(TypedDict, total=False):
    """What was decided once for a cell, so that a continued run uses the same."""

    seconds: float | None  # of a pre-training
    epochs: int  # of a fine-tuning
    num_train: int
    num_dev: int


class StoredCell(TypedDict):
    """A cell in ``cells.json``."""

    inputs: dict[str, object]
    chosen: Chosen


@dataclass
class Cell:
    """The folder of something made from ``inputs``; ``changed`` names inputs that differ from those of an older one."""

    name: str  # of the folder, below the comparison's
    folder: Path
    inputs: dict[str, object]
    chosen: Chosen
    changed: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A sentence if this is made again because something changed."""
        return f"{', '.join(self.changed)} changed: made again in {self.folder}" if self.changed else ""


class Cache:
    """All cells of a comparison."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / _FILE
        found = read_json(self.path) if self.path.is_file() else {}
        if not isinstance(found, dict) or not all(isinstance(cell, dict) for cell in found.values()):
            raise FirthError(f"{self.path}: not a list of cells; choose another --out")
        self.cells: dict[str, StoredCell] = found

    def cell(self, room: str, name: str, inputs: Mapping[str, object]) -> Cell:
        """The folder made from these inputs, or a new one."""
        stem = f"{room}/{slug(name)}"
        older = [place for place in self.cells if re.fullmatch(rf"{re.escape(stem)}(-v\d+)?", place)]
        for place in older:
            if self.cells[place].get("inputs") == inputs:
                return Cell(place, self.folder / place, dict(inputs), self.cells[place].get("chosen") or {})
        place, number = stem, 1
        while place in self.cells or (self.folder / place).exists():
            number += 1
            place = f"{stem}-v{number}"
        last: Mapping[str, object] = self.cells[older[-1]].get("inputs", {}) if older else {}
        changed = tuple(key for key in inputs if older and last.get(key) != inputs[key])
        return Cell(place, self.folder / place, dict(inputs), {}, changed)

    def choose(self, cell: Cell, **chosen: Unpack[Chosen]) -> None:
        """Stores a cell with what was chosen for it; from now on ``cell`` finds it."""
        cell.chosen.update(chosen)
        self.cells[cell.name] = {"inputs": cell.inputs, "chosen": cell.chosen}
        write_json(self.path, self.cells)


def slug(name: str) -> str:
    """The name as a folder name."""
    return re.sub(r"[^\w.=-]+", "-", name).strip("-.")[:80] or "unnamed"


# -- labelled examples


@dataclass(frozen=True)
class Labels:
    """The labelled examples of a comparison; ``test`` is used for the scores of the table only."""

    data: TaskData
    test: list[AnyExample]
    config: TaskConfig  # of the task, with its labels
    given: frozenset[str]  # settings that the user named

    def settings(self, base: Model, num_train: int) -> TaskConfig:
        """Of a base, frozen under a linear model or tuned, whichever is better on dev; counting, which needs no base, is a row
        of its own."""
        config = self.config
        if not config.candidates:
            usual = usual_candidates(config, base, self.given)
            config = config.replace(candidates=tuple(name for name in usual if name != "counts"))
        return default_settings(config, base, num_train, self.given)

    def some(self, num_train: int, num_dev: int) -> TaskData:
        """The first examples: smaller parts are contained in larger ones."""
        return replace(self.data, train=self.data.train[:num_train], dev=self.data.dev[:num_dev])


def fit_to_time(labels: Labels, base: Model, num_train: int, seconds: float) -> Chosen:
    """How many epochs and examples a training can use within its seconds; some steps are timed."""
    config = labels.settings(base, num_train)
    if config.candidates == ("counts",):
        return {"epochs": config.epochs, "num_train": num_train, "num_dev": len(labels.data.dev)}  # seconds
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


def test_model(model: TaskModel, examples: list[AnyExample], path: Path) -> TestResult:
    """Scores on the test examples and the time per text; the predictions are written to a file."""
    started = time.perf_counter()
    predictions = model.predict_examples(examples)
    seconds = time.perf_counter() - started
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    metric, (low, high) = model.task.interval(examples, predictions)
    plain: list[Mapping[str, object]] = [*predictions]
    write_json(path, [{key: found[key] for key in _KEPT_KEYS if key in found} for found in plain])
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
        config = self.labels.settings(base, self.cell.chosen["num_train"])
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


def fit_there(labels: Labels, base: str, num_train: int, seconds: float) -> Chosen:
    """One job of a cluster."""
    return fit_to_time(labels, load_base(base, labels.data, labels.config), num_train, seconds)


def train_there(cell: Cell, labels: Labels, source: Source, seeds: int, whole: bool) -> None:
    """One job of a cluster: a run, or results of trainings on a share of the labels; both are written below the comparison."""
    trainings = Trainings(cell, labels, source, seeds)
    if whole:
        trainings.finetune(None)
    else:
        trainings.share(None)


def model_files(folder: Path) -> list[Path]:
    """What predicting needs: the size on disk."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in _NOT_MODEL and "seeds" not in path.relative_to(folder).parts
    ]


# -- settings


@dataclass(frozen=True)
class CompareConfig:
    """What the user asked for."""

    config: TaskConfig
    corpus: tuple[str, ...]
    train: Path
    dev: Path | None  # none: a fifth of train is held out
    test: Path | None
    budget: str
    recipes: tuple[str, ...] | None = None  # none: some of each kind
    seeds: int = 3
    shares: tuple[float, ...] = ()
    given: frozenset[str] = frozenset()
    reading: Reading = field(default_factory=Reading)
    raw: ReadingConfig = field(default_factory=ReadingConfig)
    vocab_size: int = 8000
    cased: bool = False
    max_dev: int = 1000
    max_test: int = 3000

    @property
    def task(self) -> str:
        return self.config.task

    @property
    def small_shares(self) -> list[float]:
        return sorted(share for share in self.shares if share < 1)

    def check(self) -> None:
        """Raises an error for impossible settings, before anything is made."""
        if self.seeds < 1:
            raise FirthError(f"seeds is {self.seeds}: at least 1 is needed")
        check_shares(self.shares)
        if min(self.max_dev, self.max_test) < 1:
            raise FirthError("max_dev and max_test are numbers of examples: at least 1 is needed")


def read_labels(options: CompareConfig, note: Note) -> Labels:
    """The examples in a fixed, stratified order (every prefix has about the same share of each label); a large dev or test
    set is sampled."""
    data = read_task(options.task, options.train, options.dev, options.reading)
    data.check.refuse()
    if options.dev is None:
        data = _with_dev(data, options, note)
    data.refuse_several("compare")
    _say_problems(data, note)
    scored = data.dev
    if options.test is not None:
        more = read_examples(options.task, options.test, options.reading, for_scoring=True)
        if not more:
            raise FirthError(f"{options.test}: no examples in it; check the file")
        tested = build_data(options.task, data.train, more, options.reading.repair_tags)
        tested.check.refuse()
        _say_problems(tested, note, "test")
        scored = tested.dev
    test = _sample(scored, options.max_test, 0x7E57)
    if len(test) < len(scored):
        note(f"scores are those of {len(test):,} of the {len(scored):,} examples (--max-test)")
    config = data.configured(options.config)
    train = [data.train[number] for number in nested_order(strata(data.train), 0).tolist()]
    ordered = replace(data, train=train, dev=_sample(data.dev, options.max_dev, 0xDE))
    return Labels(ordered, test, config, options.given)


def _with_dev(data: TaskData, options: CompareConfig, note: Note) -> TaskData:
    """A fifth of the training examples as dev examples, with about the same share of each label."""
    num_dev = len(data.train) // _DEV_PART
    if num_dev == 0:
        raise FirthError(
            f"{options.train}: {len(data.train)} examples are too few to hold some out: name others with --dev"
        )
    ordered = [data.train[number] for number in nested_order(strata(data.train), 0).tolist()]
    kept, held = _apart(ordered, num_dev)
    note(f"no --dev: {len(held):,} of the {len(ordered):,} examples of {options.train.name} are held out in its place")
    return build_data(options.task, kept, held)


def _apart(ordered: Sequence[AnyExample], num_dev: int) -> tuple[list[AnyExample], list[AnyExample]]:
    """The last of them as dev examples, and whatever says the same as one of these; many copies of one text stay together
    on the other side."""
    copies = copies_of(ordered)
    sizes, held, num_held = Counter(copies), set[int](), 0
    for first in reversed(copies):
        if num_held >= num_dev:
            break
        if first not in held and sizes[first] <= num_dev:
            held.add(first)
            num_held += sizes[first]
    if not held:  # all say the same
        return list(ordered[:-num_dev]), list(ordered[-num_dev:])
    sides: tuple[list[AnyExample], list[AnyExample]] = ([], [])
    for example, first in zip(ordered, copies, strict=True):
        sides[first in held].append(example)
    return sides


def _say_problems(data: TaskData, note: Note, part: str = "dev") -> None:
    for problem in data.check.problems:
        if "also in train" in problem.what:
            note(f"{problem.count:,} × {problem.what.replace('dev example', f'{part} example')}, first {problem.first}")


def _sample(examples: list[AnyExample], most: int, key: int) -> list[AnyExample]:
    order = generator(0, key).permutation(len(examples))[:most]
    return [examples[number] for number in order.tolist()]
