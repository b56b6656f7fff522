"""The parts of ``firth.json``; the whole is ``RunRecord`` in ``firth.core.run``."""

from pydantic import ConfigDict, Field, JsonValue, model_validator

from firth.core.config import Config


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
    """What the same result needs beside the settings: the content of the files, and how they were read."""

    files: tuple[str, ...] = ()  # fingerprints
    reading: dict[str, str | bool | None] = Field(
        default_factory=dict
    )  # of labelled files, see ``firth.tasks.data.Reading``


class Chart(Record):
    """A chart of the report that only this model has."""

    title: str
    note: str
    x: str  # the names of the axes
    y: str
    series: dict[str, tuple[tuple[float, float], ...]]


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


class TaskResult(Record):
    """One training of a task; also ``result.json`` beside its weights."""

    seed: int
    share: float
    examples: int
    settings: CellSettings
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

    @property
    def score(self) -> float:
        """Of the metric; 0 without dev examples."""
        return self.scores.get(self.metric, 0.0)


class TunedBase(Record):
    """Held-out scores of a base before and after it had read the text of the task."""

    epochs: float
    before: dict[str, float]
    after: dict[str, float]


class TaskRecord(Record):
    """What only a task has."""

    cells: int  # trainings: settings × shares × seeds
    sweep: bool = False
    shares: tuple[float, ...] = ()
    extra_vectors: str | None = None
    teacher: str | None = None
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
