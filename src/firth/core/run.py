"""A run: its record ``firth.json`` and the folder that it lies in. The record is read and written here and nowhere else.

Every kind of run has the same record. What only a task has is in ``task``, what only an export has in ``export``. The settings
(``config``) are plain data, checked by the class that they belong to: ``RunConfig``, ``TaskConfig`` and so on.
"""

import contextlib
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from pydantic import ConfigDict, Field, JsonValue, ValidationError, model_validator

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import aside, behind_link, disk_errors, empty_dir, lock_folder, move_aside, read_json, write_json


class Record(Config):
    """A part of ``firth.json``. A score may be no number, where there was nothing to score."""

    model_config = ConfigDict(allow_inf_nan=True, coerce_numbers_to_str=False)


class CorpusRecord(Record):
    """What was learned from: a prepared corpus, or the labelled files of a task."""

    path: str
    fingerprint: str = ""  # of a corpus; those of labelled files are in ``made_from``
    tokenizer: str = ""  # fingerprint
    dev: str | None = None  # labelled examples on which the best epoch was chosen


class EmbeddingsRecord(Record):
    """The vectors that a token table began with: what decides them, and what they took."""

    tokens: int  # read
    threads: int
    seconds: float = 0.0
    rows: int = 0  # of the table that have one


class MadeFrom(Record):
    """What the same result needs besides the settings: the content of the files, and how they were read."""

    files: tuple[str, ...] = ()  # fingerprints
    reading: dict[str, str | bool | None] = Field(default_factory=dict)  # see ``firth.tasks.data.Reading``


class Chart(Record):
    """A chart of the report that only this model has."""

    title: str
    note: str
    x: str  # the names of the axes
    y: str
    series: dict[str, tuple[tuple[float, float], ...]]


@dataclass(frozen=True)
class Scores:
    """What was measured, as the record keeps it: numbers, and words about them (signatures of BLEU and the like)."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def together(self) -> dict[str, float | str]:
        return {**self.metrics, **self.notes}


# -- tasks


class ScoreInterval(Record):
    """Where a score lies 95 times in 100."""

    metric: str
    low: float
    high: float


class Spread(Record):
    """Of a score over seeds."""

    mean: float
    deviation: float
    count: int


class LayerMix(Record):
    """The learned share of each layer, and their scale γ (Peters et al. 2018, eq. 1)."""

    weights: tuple[float, ...]
    gamma: float


class SharePoint(Record):
    """The scores of all trainings on one share of the examples."""

    share: float
    examples: int
    scores: tuple[float, ...]
    mean: float
    deviation: float


class CellSettings(Record):
    """In what the trainings of a sweep differ."""

    batch_size: int
    learning_rate: float
    epochs: int


class TestResult(Record):
    """On examples that decided nothing, and the time that a text takes."""

    __test__ = False  # not one of pytest's

    metric: str
    score: float
    low: float
    high: float
    ms_per_text: float


class LabelScore(Record):
    """Of one class, or one type of entity: how often it is right where it is guessed and where it is true, and both counts."""

    precision: float
    recall: float
    f1: float
    true: int
    guessed: int


class CandidateResult(Record):
    """What was tried in a training: its score on the dev examples, or without any in cross-validation."""

    name: str
    score: float | None = None  # none: it was not tried
    deviation: float | None = None  # of the scores of the folds
    examples: int | None = None  # that it was judged on; none: the dev examples
    seconds: float = 0.0
    chosen: bool = False
    note: str = ""


class CalibrationResult(Record):
    """Of a classifier: the factor of its scores, and the expected calibration error without and with it, on the examples
    that the factor was found by (dev, or outside of their folds)."""

    factor: float
    error_before: float
    error_after: float
    examples: int


class CurvePoint(Record):
    """The score of models that learned from so many examples."""

    examples: int
    score: float


class LearningCurve(Record):
    """The score against the number of labels in cross-validation of one candidate, and what it would be with twice as many."""

    name: str  # of the candidate
    metric: str
    points: tuple[CurvePoint, ...]
    examples: int
    fitted: float  # what the fitted curve says for all examples
    predicted: float  # and for twice as many


class TaskResult(Record):
    """One training of a task; also ``result.json`` next to its weights."""

    seed: int
    share: float
    examples: int
    settings: CellSettings
    point: dict[str, JsonValue] = Field(default_factory=dict)  # of a sweep: the settings that it tried
    metric: str
    scores: dict[str, float]  # the best on the dev examples
    interval: ScoreInterval | None  # of the metric on the dev examples
    train_s: float
    seconds: float  # with loading, saving and testing
    trained_parameters: int
    parameters: int
    mixes: dict[str, LayerMix]  # by the place where they enter
    test: TestResult | None = None
    candidates: tuple[CandidateResult, ...] = ()  # none: there was no choice
    calibration: CalibrationResult | None = None
    by_label: dict[str, LabelScore] = Field(default_factory=dict)  # on the dev examples, or in cross-validation
    curve: LearningCurve | None = None  # none: there was too little, or no time

    @property
    def score(self) -> float:
        """Of the metric; 0 without dev examples."""
        return self.scores.get(self.metric, 0.0)


class TunedBase(Record):
    """Held-out scores of a base before and after it had read the text of the task."""

    epochs: float
    before: dict[str, float]
    after: dict[str, float]
    seconds: float = 0.0


class TaskRecord(Record):
    """What only a task has."""

    cells: int  # trainings: settings × shares × seeds
    sweep: bool = False
    grid: tuple[dict[str, JsonValue], ...] = ()  # the settings that a sweep tries
    shares: tuple[float, ...] = ()
    extra_vectors: str | None = None
    teacher: str | None = None
    unlabelled: str | None = None  # text that the base has read before
    tuned_base: TunedBase | None = None
    results: tuple[TaskResult, ...] = ()
    best: int | None = None  # of the results: the one whose model was kept
    spread: Spread | None = None  # of the trainings on the same share as the best
    efficiency: tuple[SharePoint, ...] = ()

    @model_validator(mode="after")
    def _best_exists(self) -> "TaskRecord":
        if self.best is not None and not 0 <= self.best < len(self.results):
            raise ValueError(f"best is {self.best}, but there are {len(self.results)} results")
        return self

    @property
    def chosen(self) -> TaskResult | None:
        """The training whose model was kept."""
        return None if self.best is None else self.results[self.best]

    @property
    def metric(self) -> str:
        return "" if self.chosen is None else self.chosen.metric

    @property
    def mixes(self) -> dict[str, LayerMix]:
        return {} if self.chosen is None else self.chosen.mixes

    @property
    def interval(self) -> ScoreInterval | None:
        return None if self.chosen is None else self.chosen.interval


# -- exports


class OutputCheck(Record):
    """How far an exported network is from its original on sample texts; on a labelled file the scores of both."""

    texts: int
    largest_difference: float
    smallest_cosine: float
    largest_output_difference: float | None = None  # of a task
    data: str | None = None
    before: dict[str, float] = Field(default_factory=dict)
    after: dict[str, float] = Field(default_factory=dict)


class TranslationCheck(Record):
    """How many translations are the same as those of the original."""

    translations: int
    equal: int


class ExportRecord(Record):
    """What only an export has; ``config`` of the record is that of the network."""

    source: str
    int8: bool
    task: dict[str, JsonValue] | None = None  # settings of the task (``TaskConfig``)
    pairs: bool = False  # the task reads two texts
    mixes: dict[str, LayerMix] = Field(default_factory=dict)
    ids: dict[str, int] = Field(default_factory=dict)  # of a translator's special tokens
    languages: tuple[str, ...] = ()
    verified: OutputCheck | TranslationCheck | None = None


FORMAT: Final = 2
_PACKAGES = ("firth", "torch", "numpy", "tokenizers", "safetensors")
Kind = Literal["pretrain", "write", "vectors", "task", "embed", "onnx", "ctranslate2"]


def versions() -> dict[str, str]:
    """Of what the result depends on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


class SweptRun(Record):
    """One pre-training of a sweep."""

    settings: dict[str, JsonValue]
    loss: float  # on held-out text
    steps: int
    seconds: float
    chosen: bool = False


class RunRecord(Record):
    """``firth.json``. Numbers of results are 0 and mappings empty until the run is finished."""

    format: Literal[2] = FORMAT
    kind: Kind
    model: str  # the name of the ``ModelSpec``: of a task that of its base, of an export that of its source
    recipe: str
    status: Literal["started", "finished"] = "started"
    versions: dict[str, str]
    config: dict[str, JsonValue]
    corpus: CorpusRecord | None = None
    base: str | None = None  # the model whose weights were the first ones, or the base model of a task
    made_from: MadeFrom | None = None

    # training
    processes: int = 1
    embeddings: EmbeddingsRecord | None = None  # none: the token table began at random, or it is not decided yet
    steps: int | None = None  # none: not decided yet
    evaluations: int | None = None
    seconds: float = 0.0
    tokens: int = 0
    epochs: float = 0.0
    sweep: tuple[SweptRun, ...] = ()  # what was tried, where this run is the best of several

    # results
    metrics: dict[str, float] = Field(default_factory=dict)
    notes: dict[str, str] = Field(default_factory=dict)  # about the metrics: signatures of BLEU and the like
    parameters: int = 0
    words: int = 0  # of static vectors
    word_split: Literal["words", "whitespace"] | None = None  # how static vectors cut text
    charts: tuple[Chart, ...] = ()
    uses: tuple[str, ...] = ()  # the next commands
    checksums: dict[str, str] = Field(default_factory=dict)  # of the finished files; empty until the report is written

    task: TaskRecord | None = None
    export: ExportRecord | None = None

    @model_validator(mode="after")
    def _parts_fit(self) -> "RunRecord":
        if (self.task is not None) != (self.kind == "task"):
            raise ValueError(f"'task' is {'missing' if self.kind == 'task' else 'not for'} a run of kind {self.kind}")
        if (self.export is not None) != (self.kind in ("onnx", "ctranslate2")):
            raise ValueError(f"'export' does not fit a run of kind {self.kind}")
        if self.corpus is None and self.export is None:
            raise ValueError("'corpus' is missing")
        if self.finished and self.task is not None and self.task.best is None:
            raise ValueError("'task.best' is missing")
        return self

    @property
    def finished(self) -> bool:
        return self.status == "finished"


def read_record(path: Path) -> RunRecord:
    """Nothing missing, nothing left over; what is wrong is said in one sentence."""
    data = read_json(path)
    made = data.get("format") if isinstance(data, dict) else None
    if not isinstance(data, dict) or type(made) is not int:
        raise FirthError(f"{path}: damaged (it says no format); train it again")
    if made > FORMAT:
        raise FirthError(f"{path}: made by a newer Firth (format {made}, this one reads {FORMAT}); update Firth")
    if made < FORMAT:
        raise FirthError(f"{path}: made by an older Firth (format {made}, this one reads {FORMAT}); train it again")
    missing = [name for name in RunRecord.model_fields if name not in data]
    if missing:
        raise FirthError(f"{path}: damaged ('{missing[0]}' is missing); train it again")
    try:
        return RunRecord.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise FirthError(f"{path}: damaged ({f'{name!r}: ' if name else ''}{reason}); train it again") from None


# -- the folder

RECORD = "firth.json"
_BUSY = "another process is training this run; wait for it or stop it"


def is_run(folder: Path) -> bool:
    """Whether a run was begun or a model exported here."""
    return (folder / RECORD).is_file()


def _is_unborn(path: Path) -> bool:
    """Whether this is all that a run has that was killed before its record was written."""
    return path.name == f".{RECORD}.tmp" and path.is_file()


class Run:
    """A folder with ``firth.json``, ``metrics.jsonl``, ``checkpoints/`` and, at the end, the model."""

    def __init__(self, folder: Path, record: RunRecord, replaces: bool = False) -> None:
        self.folder, self.record, self.replaces = folder, record, replaces

    @classmethod
    def create(cls, folder: Path, record: RunRecord, overwrite: bool = False, prepared: tuple[str, ...] = ()) -> "Run":
        """``prepared`` are names that stand in the folder already."""
        with lock_folder(folder, _BUSY):  # two may begin at the same moment
            cls._clear(folder, overwrite, prepared, move_aside)
            run = cls(folder, record, overwrite)
            try:
                with disk_errors(folder):
                    behind_link(folder).mkdir(parents=True, exist_ok=True)
                run.save()
            except FirthError:
                cls.discard(folder, prepared)
                raise
        return run

    @classmethod
    def discard(cls, folder: Path, prepared: tuple[str, ...] = ()) -> None:
        """Removes a run that learned nothing; the one that it was to replace is there again."""
        goal = behind_link(folder)
        with contextlib.suppress(OSError):  # not empty: what was prepared stays
            empty_dir(goal, prepared)
            goal.rmdir()
        if is_run(aside(folder)) and not goal.exists():
            aside(folder).rename(goal)

    @classmethod
    def clear(cls, folder: Path, overwrite: bool, remove: Callable[[Path], None] = shutil.rmtree) -> None:
        """Makes sure that a run can be begun here: nothing is in the way, or an old run may go."""
        with lock_folder(folder, _BUSY):
            cls._clear(folder, overwrite, (), remove)

    @classmethod
    def _clear(cls, folder: Path, overwrite: bool, prepared: tuple[str, ...], remove: Callable[[Path], None]) -> None:
        if not folder.exists():
            return
        found = list(folder.iterdir()) if folder.is_dir() else [folder]
        if all(path.name in prepared or _is_unborn(path) for path in found):
            empty_dir(folder, prepared)  # of what a run left that was killed before its first file was whole
            return
        if not overwrite:
            hint = f", go on with --resume {folder}," if is_run(folder) else ""
            raise FirthError(f"{folder}: exists already; choose another --out{hint} or replace it with --overwrite")
        if not is_run(folder):
            raise FirthError(f"{folder}: not a run of Firth, so it is not overwritten; choose another --out")
        remove(behind_link(folder))

    @classmethod
    def keep_apart(cls, folder: Path, sources: Iterable[Path], overwrite: bool) -> None:
        """A run that is replaced must not hold what the new one is made from."""
        for path in sources if overwrite else ():
            if path.absolute().resolve().is_relative_to(folder.absolute().resolve()):
                raise FirthError(f"{path}: lies in the run that is to be replaced ({folder}); choose another --out")

    @classmethod
    def open(cls, folder: Path) -> "Run":
        if not folder.exists():
            raise FirthError(f"{folder}: no such run; check the path")
        if not is_run(folder):
            unborn = folder.is_dir() and all(map(_is_unborn, folder.iterdir()))
            remedy = "begin the run again, without --resume" if unborn else "name a folder that firth pretrain made"
            raise FirthError(f"{folder}: not a run of Firth (no {RECORD} in it); {remedy}")
        return cls(folder, read_record(folder / RECORD))

    @classmethod
    def find(cls, folder: Path) -> "Run | None":
        """The run in a folder that may as well be a published directory."""
        return cls.open(folder) if is_run(folder) else None

    @property
    def path(self) -> Path:
        """Of the record."""
        return self.folder / RECORD

    def change(self, **changes: object) -> None:
        """Fields of the record, checked by its schema; not written yet."""
        self.record = self.record.replace(**changes)

    def save(self, **changes: object) -> None:
        """Changes fields of the record and writes it."""
        self.change(**changes)
        write_json(self.path, self.record.model_dump(mode="json"))

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Only one process trains a run at a time."""
        return lock_folder(self.folder, _BUSY)
