"""Training fastText's classifier: with progress, stopped on request; and the search for its settings in a budget."""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from firth.core.config import Config
from firth.core.errors import FirthError, Interrupted
from firth.core.files import read_json, write_json
from firth.core.types import Progress
from firth.models.fasttext.classifier import FastTextClassifier, FastTextClassifierConfig, Floats, scan
from firth.vectors.classifier_training import LabelledTexts, Search, Trial, label_texts, train_classifier

Stop = Sequence[int]  # signals that were caught; some: stop
Vectors = Mapping[str, Floats]
_REPORT_S, _SAVE_S = 0.5, 2.0
_MOST_TRIALS = 1000  # more would only find what suits the examples that judge
_SPARE = 1.2  # a training is allowed to take so much longer than the trial with the same settings


@dataclass(frozen=True)
class Examples:
    """Texts with a label each."""

    texts: Sequence[str]
    labels: Sequence[str]

    def scanned(self, config: FastTextClassifierConfig) -> LabelledTexts:
        return label_texts(scan(self.texts, config.word_split), [[one] for one in self.labels], config.min_count_label)


class OutOfTime(Exception):
    """A trial takes longer than there is time for."""


@dataclass
class Watch:
    """Tells how far a training is, and stops it on request or at the end of its time."""

    config: FastTextClassifierConfig
    texts: LabelledTexts
    progress: Progress | None
    stop: Stop
    limit_s: float = float("inf")
    lines: list[dict[str, object]] = field(default_factory=list)  # one for each epoch
    started: float = field(default_factory=time.perf_counter)
    reported: float = 0.0

    def __call__(self, texts: int, loss: float) -> None:
        now = time.perf_counter()
        if self.stop:
            raise Interrupted("stopped on request")
        if not np.isfinite(loss):
            raise FirthError("the loss became NaN or infinite; train with a smaller learning_rate")
        if now - self.started > self.limit_s:
            raise OutOfTime
        line = self._line(texts, loss, now - self.started)
        if texts % len(self.texts.scan) == 0:
            self.lines.append(line)
        if self.progress is not None and now - self.reported > _REPORT_S:
            self.reported = now
            self.progress(line)

    def _line(self, texts: int, loss: float, seconds: float) -> dict[str, object]:
        size = len(self.texts.scan)
        steps, tokens = self.config.epochs * size, round(self.texts.num_tokens * texts / size)
        return {
            "event": "train",
            "step": texts,
            "steps": steps,
            "loss": loss,
            "learning_rate": self.config.learning_rate * (1 - texts / steps),
            "tokens": tokens,
            "tokens_per_s": tokens / max(seconds, 1e-9),
            "seconds": seconds,
        }


def fit(
    texts: LabelledTexts,
    config: FastTextClassifierConfig,
    stop: Stop,
    progress: Progress | None = None,
    vectors: Vectors | None = None,
    limit_s: float = float("inf"),
    labels: Sequence[str] = (),
) -> tuple[FastTextClassifier, list[dict[str, object]]]:
    """A classifier that has learned from the texts, and a line for each epoch. ``vectors`` are where words begin."""
    watch = Watch(config, texts, progress, stop, limit_s)
    classifier, _ = train_classifier(texts, config, watch, vectors)
    return FastTextClassifier(classifier, config.word_split, labels), watch.lines


# -- autotune


class _SavedTrial(Config):
    config: FastTextClassifierConfig
    score: float
    seconds: float


@dataclass
class Tuning:
    """The search: what it learns from, what it is judged by, and how long it may take."""

    train: Examples
    dev: Examples
    score: Callable[[Sequence[str], Sequence[str]], float]  # of true and guessed labels
    budget_s: float
    saved: Path  # the trials so far; a search that was interrupted goes on with them
    stop: Stop
    progress: Progress | None = None
    vectors: Vectors | None = None

    def run(self, config: FastTextClassifierConfig, fixed: Set[str]) -> tuple[FastTextClassifierConfig, list[Trial]]:
        """The best settings, and all that were tried. The time that a training with the best ones takes is kept back."""
        search = Search(config, fixed, self._read())
        begun = saved = time.perf_counter() - sum(trial.seconds for trial in search.trials)
        texts = self.train.scanned(config)
        while len(search.trials) < _MOST_TRIALS:
            best, spent = search.best, time.perf_counter() - begun
            left = self.budget_s - spent - (_SPARE * best.seconds if best is not None else 0.0)
            if best is not None and left <= 0:
                break
            trial = self._try(
                search.ask(min(1.0, spent / self.budget_s)), texts, left if best is not None else float("inf")
            )
            if trial is None:
                break
            search.tell(trial)
            if time.perf_counter() - saved > _SAVE_S:
                saved = self._save(search.trials)
        self._save(search.trials)
        assert search.best is not None
        found = search.best.config
        assert isinstance(found, FastTextClassifierConfig)
        return found, search.trials

    def _save(self, trials: Sequence[Trial]) -> float:
        write_json(self.saved, [_SavedTrial(**vars(one)).model_dump(mode="json") for one in trials])
        return time.perf_counter()

    def _read(self) -> list[Trial]:
        if not self.saved.is_file():
            return []
        found = [_SavedTrial.build(one, self.saved) for one in read_json(self.saved)]
        return [Trial(one.config, one.score, one.seconds) for one in found]

    def _try(self, config: Config, texts: LabelledTexts, left: float) -> Trial | None:
        """None: there was no time for it."""
        assert isinstance(config, FastTextClassifierConfig)
        started = time.perf_counter()
        try:
            model, _ = fit(texts, config, self.stop, self.progress, self.vectors, left)
        except OutOfTime:
            return None
        except FirthError as error:  # a rate at which it does not converge is no mistake here
            if isinstance(error, Interrupted) or "NaN" not in str(error):
                raise
            return Trial(config, 0.0, time.perf_counter() - started)
        guessed = model.probabilities(self.dev.texts).argmax(1)
        score = self.score(self.dev.labels, [model.labels[place] for place in guessed.tolist()])
        return Trial(config, score, time.perf_counter() - started)
