"""Which settings of the classifier to try next (fastText's autotune): random steps around the best ones so far.

As in the original (``AutotuneStrategy``) a step is Gaussian, in powers of two for rates and sizes, and becomes smaller as
time goes on. Unlike it, the search begins with a few points that are good on many sets.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from firth.core.batching import generator
from firth.vectors.classifier import ClassifierConfig

_GOOD: tuple[Mapping[str, object], ...] = (
    {},
    {"word_ngrams": 2, "min_n": 0, "max_n": 0, "learning_rate": 0.5, "dim": 50},
    {"word_ngrams": 2, "min_n": 2, "max_n": 5, "learning_rate": 0.25, "dim": 50},
    {"word_ngrams": 1, "min_n": 0, "max_n": 0, "learning_rate": 0.25, "dim": 50},
    {"word_ngrams": 2, "min_n": 1, "max_n": 3, "learning_rate": 0.5, "dim": 50},
)
"""Where a search begins; the first are the settings that it was given."""
_LENGTHS = ((0, 0), (1, 3), (2, 5), (3, 6))  # of character n-grams
_STREAM = 0xA070


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and what came of them."""

    config: ClassifierConfig
    score: float
    seconds: float


@dataclass
class Search:
    """``ask`` for settings, ``tell`` how they did; what is ``fixed`` stays as it was given."""

    start: ClassifierConfig
    fixed: Set[str]
    trials: list[Trial] = field(default_factory=list)

    @property
    def best(self) -> Trial | None:
        """The first of the highest."""
        return max(self.trials, key=lambda trial: trial.score, default=None)

    def tell(self, trial: Trial) -> None:
        self.trials.append(trial)

    def ask(self, progress: float) -> ClassifierConfig:
        """The next settings; ``progress`` is the part of the time that is gone. The same trials and progress
        give the same settings."""
        number = len(self.trials)
        if number < len(_GOOD):
            return self._with(self.start, dict(_GOOD[number]))
        assert self.best is not None
        return self._step(self.best.config, number, progress)

    def _with(self, config: ClassifierConfig, changes: dict[str, object]) -> ClassifierConfig:
        lengths = {"min_n", "max_n"}
        fixed = set(self.fixed) | (lengths if self.fixed & lengths else set())
        return config.replace(**{name: value for name, value in changes.items() if name not in fixed})

    def _step(self, best: ClassifierConfig, number: int, progress: float) -> ClassifierConfig:
        random = generator(self.start.seed, _STREAM, number)
        part = 2.0 * min(0.5, max(progress - 0.25, 0.0))  # from 0 to 1 between a quarter and three quarters of the time

        def near(value: float, low: float, high: float, first: float, last: float, linear: bool = False) -> float:
            move = float(random.normal(0.0, first - (first - last) * part))
            return min(high, max(low, value + move if linear else value * 2.0**move))

        place = _LENGTHS.index((best.min_n, best.max_n)) if (best.min_n, best.max_n) in _LENGTHS else 0
        min_n, max_n = _LENGTHS[round(near(place, 0, len(_LENGTHS) - 1, 2.0, 0.7, linear=True))]
        changes: dict[str, object] = {
            "epochs": round(near(best.epochs, 1, 100, 1.4, 0.7)),
            "learning_rate": near(best.learning_rate, 0.01, 5.0, 1.4, 0.7),
            "dim": round(near(best.dim, 2, 500, 1.4, 0.3)),
            "word_ngrams": round(near(best.word_ngrams, 1, 5, 1.5, 0.7, linear=True)),
            "min_n": min_n,
            "max_n": max_n,
        }
        return self._with(best, changes)
