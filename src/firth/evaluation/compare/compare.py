"""The comparison: which representation is worth its cost for this text and these labels, from raw text to one table.

    corpora/   the raw text, prepared once for each kind of tokens      bases/    a pre-training run for each recipe
    tasks/     a fine-tuned run for each base                           shares/   trainings on shares of the labels
    cells.json, compare.json, report.html

The budget: seven tenths for pre-training, in equal parts, and what static vectors leave over goes to the others; the
rest for fine-tuning, in equal parts. A training that was started keeps its number of seconds.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from firth.core.config import parse_duration, show_duration
from firth.core.errors import FirthError, going_on
from firth.core.files import disk_errors, fingerprint, lock_folder, read_json, write_json
from firth.core.run import Run, TaskResult, TestResult, versions
from firth.core.storage import Cluster, run_jobs
from firth.core.types import Progress
from firth.evaluation.compare.bases import Base, Corpora, base_inputs, find_base, is_finished, pretrain_base
from firth.evaluation.compare.ranking import PRETRAIN_SHARE, Outcome, Row, Shares, share_budget, write_compare_report
from firth.evaluation.compare.tasks import (
    Cache,
    Cell,
    CompareConfig,
    Note,
    StoredCell,
    Trainings,
    fit_there,
    fit_to_time,
    model_files,
    read_labels,
    train_there,
)
from firth.evaluation.floors import floor_rows
from firth.tasks.finetune import MADE, SCRATCH, load_base
from firth.tasks.run import PREDICTIONS, Source

Stage = Callable[[str], AbstractContextManager[Progress | None]]
SMALL = ("word2vec", "fasttext", "elmo-tiny", "modernbert-1m", SCRATCH)
USUAL = ("word2vec", "fasttext", "glove", "lstm-lm", "elmo-tiny", "modernbert-10m", SCRATCH)
_SMALL_S = 900.0


@dataclass(frozen=True)
class Place:
    """The path of a base, the time of its pre-training, and what it was made from."""

    base: str
    pretrain_s: float
    inputs: dict[str, object]


class Comparison:
    """A comparison with all its files below one folder; finished parts are not made again."""

    def __init__(
        self,
        options: CompareConfig,
        out: Path,
        stage: Stage | None = None,
        note: Note | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """On a ``cluster`` trainings are jobs; ``out``, files and models are at the same path on every node."""
        options.check()
        self.options, self.out, self.cluster = options, out if cluster is None else out.absolute(), cluster
        self.stage: Stage = _without_evaluations(stage) if stage else lambda title: nullcontext(None)
        self.note: Note = note or (lambda text: None)
        self.budget_s = parse_duration(options.budget)
        self.labels = read_labels(options, self.note)
        self.corpora = Corpora(options.corpus, options.raw, options.vocab_size, lowercase=not options.cased)
        self.bases = self._find_bases()
        self.made = 0

    def _find_bases(self) -> list[Base]:
        options, small = self.options, self.budget_s < _SMALL_S
        bases = (
            self._usual(SMALL if small else USUAL)
            if options.recipes is None
            else [find_base(word) for word in dict.fromkeys(options.recipes)]
        )
        for base in bases:
            if not self.corpora.serves(base):
                if options.recipes is not None:
                    raise FirthError(self.corpora.refusal(base))
                self.note(f"left out: {self.corpora.refusal(base)}")
        bases = [base for base in bases if self.corpora.serves(base)]
        if not any(base.path is not None for base in bases) and not options.corpus and options.recipes is None:
            raise FirthError("nothing to learn from: name raw text with --corpus, or models that exist with --recipes")
        if not bases:
            raise FirthError("nothing to compare: name at least one recipe or model with --recipes")
        names = [base.name for base in bases]
        return [
            base if names.count(base.name) == 1 or base.path is None else replace(base, name=str(base.path))
            for base in bases
        ]

    def _usual(self, words: Sequence[str]) -> list[Base]:
        """The default bases; those that need a missing package are skipped."""
        found = []
        for word in words:
            try:
                found.append(find_base(word))
            except FirthError as error:
                self.note(f"left out: {word}: {error}")
        return found

    def run(self) -> dict[str, object]:
        """The table as plain data, also written as ``compare.json`` with ``report.html``."""
        with disk_errors(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        with lock_folder(self.out, "another process is at work here; wait for it or choose another --out"):
            self.cache = Cache(self.out)
            with going_on("what is finished stays, go on with the same command"):
                places = self._pretrain()
                metric, rows = floor_rows(self.labels, self.out)
                rows += self._finetune(places)
                return self._finish(metric, rows, time.perf_counter() - started)

    def _say_changed(self, name: str, cell: Cell) -> None:
        if cell.changed:
            self.note(f"{name}: {cell.note}")

    # -- pre-training

    def _pretrain(self) -> dict[str, Place]:
        """Every base by name; static vectors first, because the others share the time that those do not use."""
        found: dict[str, Place] = {}
        trained = [base for base in self.bases if base.config is not None]
        ordered = sorted(trained, key=lambda base: not base.static)
        for _, group in groupby(ordered, key=lambda base: base.static):
            for some in [list(group)] if self.cluster else [[base] for base in group]:  # what is trained at once
                found |= self._pretrain_some(some, trained, [place.pretrain_s for place in found.values()])
        for base in self.bases:
            if base.path is not None:
                path = base.path if self.cluster is None else base.path.absolute()
                found[base.name] = Place(str(path), 0.0, {"model": fingerprint(base.path)})
            elif base.config is None:
                found[base.name] = Place(base.name, 0.0, {"made": base.name} if base.name != SCRATCH else {})
        return found

    def _pretrain_some(
        self, bases: Sequence[Base], trained: Sequence[Base], spent: Sequence[float]
    ) -> dict[str, Place]:
        """One base here, or several on a cluster."""
        cells: dict[str, Cell] = {}
        jobs: list[tuple[Base, Cell, Path, float, Progress | None]] = []
        for base in bases:
            with self.stage(f"{base.name}: text") as progress:
                corpus = self.corpora.find(base, self.cache, progress)
            cell = self.cache.cell("bases", base.name, base_inputs(base, corpus, self.options.budget))
            self._say_changed(base.name, cell)
            cells[base.name] = cell
            if not is_finished(cell):
                seconds = self._seconds(base, trained, spent)
                if Run.find(cell.folder) is None:
                    self.cache.choose(cell, seconds=None if base.has_length else seconds)
                jobs.append((base, cell, corpus.absolute() if self.cluster else corpus, seconds, None))
        if jobs:
            with self.stage(", ".join(base.name for base, *_ in jobs)) as progress:
                each = progress if self.cluster is None else None
                run_jobs(self.cluster, pretrain_base, [(*job[:-1], each) for job in jobs], progress)
        self.made += len(jobs)
        for base, cell, *_ in jobs:
            self.note(f"{base.name}: pre-trained in {show_duration(Run.open(cell.folder).record.seconds)}")
        return {
            name: Place(str(cell.folder), Run.open(cell.folder).record.seconds, {"run": cell.name, **cell.inputs})
            for name, cell in cells.items()
        }

    def _seconds(self, base: Base, trained: Sequence[Base], spent: Sequence[float]) -> float:
        """Equal parts for static vectors; what they do not use is shared equally by the others. A recipe that is added later
        gets the time that the others had."""
        free = [one for one in trained if not one.has_length]
        equal = self._shares().pretrain_s
        if base.static:
            return equal
        known = [cell["chosen"].get("seconds") for cell in self.cache.cells.values() if self._alike(cell)]
        for seconds in known:
            if seconds:
                return seconds
        static = [one for one in free if one.static]
        used = min(sum(spent), equal * len(static))
        return (PRETRAIN_SHARE * self.budget_s - used) / max(1, len(free) - len(static))

    def _alike(self, cell: StoredCell) -> bool:
        """Whether a cell is a base that the loop trained under the same budget."""
        recipe, budget = cell["inputs"].get("recipe"), cell["inputs"].get("budget")
        return isinstance(recipe, dict) and "objective" in recipe and budget == self.options.budget

    def _shares(self) -> Shares:
        num_pretrained = sum(base.config is not None and not base.has_length for base in self.bases)
        return share_budget(self.budget_s, num_pretrained, len(self.bases), self._num_trainings)

    @property
    def _num_trainings(self) -> int:
        """Of each base."""
        return self.options.seeds * (1 + len(self.options.small_shares))

    # -- fine-tuning

    def _task_inputs(self, base: dict[str, object], share: float) -> dict[str, object]:
        options = self.options
        files = {"train": options.train, "dev": options.dev, "test": options.test}
        return {
            "base": base,
            **{name: None if path is None else fingerprint(path) for name, path in files.items()},
            "settings": options.config.model_dump(mode="json"),
            "given": sorted(options.given),
            "reading": vars(options.reading),
            "seeds": options.seeds,
            "budget": options.budget,
            "share": share,
            "limits": [options.max_dev, options.max_test],
        }

    def _finetune(self, places: dict[str, Place]) -> list[Row]:
        """The fast bases first: the time that they do not use is shared by the others."""
        rows: dict[str, Row] = {}
        left_s = self._shares().finetune_s * len(self.bases) * self._num_trainings
        ordered = sorted(self.bases, key=_is_slow)
        for _, group in groupby(ordered, key=_is_slow):
            some = list(group)
            if self.cluster is not None:
                seconds = max(left_s, 0.0) / ((len(self.bases) - len(rows)) * self._num_trainings)
                self._finetune_there(self.cluster, {base.name: places[base.name] for base in some}, seconds)
            for base in some:
                seconds = max(left_s, 0.0) / ((len(self.bases) - len(rows)) * self._num_trainings)
                rows[base.name], spent = self._finetune_one(base, places[base.name], seconds)
                left_s -= spent
        return [rows[base.name] for base in self.bases]

    def _finetune_there(self, cluster: Cluster, places: Mapping[str, Place], seconds: float) -> None:
        """Every cell of these bases on a cluster: first how long it is, then the trainings. They are read from disk later."""
        cells: list[tuple[Cell, Place, int, bool]] = []
        for name, place in places.items():
            for share in (1.0, *self.options.small_shares):
                room, stem = ("tasks", name) if share == 1 else ("shares", f"{name}-{share:g}")
                cell = self.cache.cell(room, stem, self._task_inputs(place.inputs, share))
                if not (share == 1 and is_finished(cell)):
                    cells.append((cell, place, self._num_examples(share), share == 1))
        labels = cluster.put(self.labels)
        new = [one for one in cells if not one[0].chosen]
        with self.stage("timing") as progress:
            jobs = [(labels, place.base, num_train, seconds) for _, place, num_train, _ in new]
            for (cell, *_), chosen in zip(new, run_jobs(cluster, fit_there, jobs, progress), strict=True):
                self.cache.choose(cell, **chosen)
        with self.stage(self.options.task) as progress:
            todo = [(cell, labels, self._source(place), self.options.seeds, whole) for cell, place, _, whole in cells]
            run_jobs(cluster, train_there, todo, progress)
        self.made += sum(whole for *_, whole in cells)

    def _num_examples(self, share: float) -> int:
        total = len(self.labels.data.train)
        return total if share == 1 else min(total, max(self.labels.config.batch_size, round(share * total)))

    def _finetune_one(self, base: Base, place: Place, seconds: float) -> tuple[Row, float]:
        """A row of the table, and the seconds that its trainings took."""
        num_train = len(self.labels.data.train)
        cell = self.cache.cell("tasks", base.name, self._task_inputs(place.inputs, 1.0))
        self._say_changed(base.name, cell)
        if not is_finished(cell):
            self._choose(cell, place, num_train, seconds)
            with self.stage(f"{base.name}: {self.options.task}") as progress:
                self._trainings(cell, place).finetune(progress)
            self.made += 1
        if cell.chosen["num_train"] < num_train:
            used = f"{cell.chosen['num_train']:,} of {num_train:,}"
            self.note(f"{base.name}: only {used} labelled examples fitted into its time")
        run = Run.open(cell.folder)
        assert run.record.task is not None
        shares = {f"{share:g}": self._share(base, place, share, seconds) for share in self.options.small_shares}
        by_share = {share: tuple(test.score for test in _tests(results)) for share, results in shares.items()}
        trained = [*run.record.task.results, *(one for results in shares.values() for one in results)]
        return _row(base, run, place.pretrain_s, by_share, self.out), sum(result.seconds for result in trained)

    def _trainings(self, cell: Cell, place: Place) -> Trainings:
        return Trainings(cell, self.labels, self._source(place), self.options.seeds)

    def _source(self, place: Place) -> Source:
        train, dev = self.options.train.absolute(), self.options.dev
        return Source(place.base, train, None if dev is None else dev.absolute(), self.options.reading)

    def _choose(self, cell: Cell, place: Place, num_train: int, seconds: float) -> None:
        """Decides once how long a fine-tuning is, so that it is the same when it is continued."""
        if not cell.chosen:
            base = load_base(place.base, self.labels.data, self.labels.config)
            self.cache.choose(cell, **fit_to_time(self.labels, base, num_train, seconds))

    def _share(self, base: Base, place: Place, share: float, seconds: float) -> list[TaskResult]:
        cell = self.cache.cell("shares", f"{base.name}-{share:g}", self._task_inputs(place.inputs, share))
        self._choose(cell, place, self._num_examples(share), seconds)
        with self.stage(f"{base.name}: {share:.0%} of the labels") as progress:
            results, made = self._trainings(cell, place).share(progress)
        self.made += made
        return results

    # -- the end

    def _finish(self, metric: str, rows: list[Row], seconds: float) -> dict[str, object]:
        outcome = Outcome(
            task=self.options.task,
            metric=metric,
            scored_on="test" if self.options.test is not None else "dev",
            num_train=len(self.labels.data.train),
            num_scored=len(self.labels.test),
            budget=self.options.budget,
            seeds=self.options.seeds,
            rows=tuple(rows),
        )
        found = {**outcome.as_dict(), "versions": versions()}
        write_json(self.out / "compare.json", found)
        predictions = {row.name: read_json(_predictions(self.out / row.folder)) for row in rows}
        write_compare_report(self.out, outcome, self.labels.test, predictions)
        return found | {"out": str(self.out), "cached": self.made == 0, "seconds": seconds}


def _is_slow(base: Base) -> bool:
    """Whether its fine-tuning takes long; the others leave time over."""
    return not (base.static or base.name in MADE)


def _without_evaluations(stage: Stage) -> Stage:
    """The same display without the evaluations during training, which are too many to read."""

    @contextlib.contextmanager
    def shown(title: str) -> Iterator[Progress | None]:
        with stage(title) as progress:
            yield None if progress is None else lambda event: None if event["event"] == "evaluate" else progress(event)

    return shown


def _predictions(place: Path) -> Path:
    return place if place.suffix == ".json" else place / PREDICTIONS


def _tests(results: Sequence[TaskResult]) -> list[TestResult]:
    return [result.test for result in results if result.test is not None]


def _row(base: Base, run: Run, pretrain_s: float, by_share: dict[str, tuple[float, ...]], out: Path) -> Row:
    task = run.record.task
    assert task is not None
    tested = _tests(task.results)
    return Row(
        base.name,
        "given" if base.path is not None else "scratch" if base.config is None else "trained",
        tuple(test.score for test in tested),
        sum(test.low for test in tested) / len(tested),
        sum(test.high for test in tested) / len(tested),
        parameters=run.record.parameters,
        pretrain_s=pretrain_s,
        finetune_s=sum(result.seconds for result in task.results) / len(task.results),
        ms_per_text=min(test.ms_per_text for test in tested),
        num_bytes=sum(path.stat().st_size for path in model_files(run.folder)),
        layer_weights=next((mix.weights for mix in task.mixes.values()), ()),
        by_share=by_share,
        folder=str(run.folder.relative_to(out)),
    )
