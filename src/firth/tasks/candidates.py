"""The candidates of one training, and the choice among them.

``counts``: a linear model over TF-IDF of words and characters, of tags over words and their neighbours; it needs no base.
``linear``: a linear model over what the frozen base says of a text, of tags of each word.
``contrastive``: the base tuned on pairs of labelled texts, then a linear model.
``tuned``: the base trained further, from the linear model on.
``counts + ...``: the scores of counts added to those of the best of the others, with weights found by the same predictions;
of classes only, and only where it is better by more than 1.5 standard errors.

The best on the dev examples is kept; without any, the best in stratified cross-validation: of classes the one that gives the
true labels the highest probability once it is calibrated, because of few labels the share that is right says too little.
Of equals the cheaper one is kept. What is kept is calibrated by the same predictions.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from firth.core.config import parse_duration, show_duration
from firth.core.run import CalibrationResult, CandidateResult, LabelScore, LearningCurve
from firth.core.types import Prediction, Progress
from firth.data.labelled import TextExample
from firth.models.shared.model import Model
from firth.models.shared.static import ExtraVectors
from firth.tasks.checking import all_of
from firth.tasks.config import TaskConfig
from firth.tasks.counts import Frozen, fit_counts, fit_frozen, head_model, refittable
from firth.tasks.data import TaskData, strata
from firth.tasks.distillation import Teacher
from firth.tasks.finetune import FEWEST, MOST, TEXTS, train_contrastive, train_model
from firth.tasks.linear import (
    NUM_FOLDS,
    Floats,
    Ints,
    Outputs,
    judged_weights,
    learning_curve,
    predictions_of,
    stratified_folds,
)
from firth.tasks.model import TaskModel
from firth.tasks.network import Head
from firth.tasks.scores import added, error_of, fit_factor, fit_weights, log_probs, normalised, rescaled
from firth.tasks.several import ClassifySeveral, mean_log_chance
from firth.tasks.tag_linear import FrozenTags, fit_frozen_tags, fit_tag_counts
from firth.tasks.training import Task

Predictions = list[Prediction]
TakeBase = Callable[[TaskConfig], Model]
_ENOUGH = 0.98  # a score from which on nothing is tuned
_LEARNING = 3.3  # so many times as long as reading a text takes learning from it
_FASTER = 2.0  # than tuning learns pulling texts together
_CALIBRATED = 20  # examples: fewer say nothing of probabilities
_ERRORS = 1.5  # standard errors by which counts must help; fewer are too few where new texts differ from the old ones
_LEAST = 2  # epochs of tuning that are worth while
_FEW = 100  # examples
_THIRDS = 1000  # up to so many examples what takes long is judged in three folds; beyond, in one of the five


@dataclass
class Fitted:
    """What was chosen: the model, what it says of the dev examples and its scores on them, the seconds of training."""

    model: TaskModel
    predictions: Predictions
    scores: dict[str, float]
    train_s: float
    by_label: dict[str, LabelScore]  # on the dev examples, or in cross-validation
    candidates: tuple[CandidateResult, ...] = ()
    calibration: CalibrationResult | None = None
    curve: LearningCurve | None = None


@dataclass
class _Tried:
    """A candidate: what it says of examples that it has not learned from, by their number, and how the finished model is
    had."""

    name: str
    found: Mapping[int, Prediction]
    finish: Callable[[], Fitted]
    note: str = ""
    seconds: float = 0.0


def fit_best(
    config: TaskConfig,
    take_base: TakeBase,
    data: TaskData,
    folder: Path,
    progress: Progress | None = None,
    extra_vectors: ExtraVectors | None = None,
    teacher: Teacher | None = None,
) -> Fitted:
    """The best of ``config.candidates``; tuning alone is not judged without dev examples."""
    if config.candidates == ("tuned",) and not config.folds:
        fitted = _train(config, take_base(config), data, folder, progress, extra_vectors, teacher)
        if config.several and data.dev:
            _use_thresholds(fitted, dict(enumerate(fitted.predictions)), data.dev)
            fitted.by_label = fitted.model.task.by_label(data.dev, fitted.predictions)
        return fitted
    return _Choice(config, take_base, data, folder, progress, extra_vectors, teacher).best()


def _train(
    config: TaskConfig,
    base: Model,
    data: TaskData,
    folder: Path,
    progress: Progress | None,
    extra_vectors: ExtraVectors | None = None,
    teacher: Teacher | None = None,
    head: Head | None = None,
) -> Fitted:
    model, trainable, seconds = train_model(config, base, data, folder, progress, extra_vectors, teacher, head)
    by_label = model.task.by_label(data.dev, trainable.predictions) if data.dev else {}
    return Fitted(model, trainable.predictions, dict(trainable.best or {}), seconds, by_label)


class _Choice:
    """One choice among candidates."""

    def __init__(
        self,
        config: TaskConfig,
        take_base: TakeBase,
        data: TaskData,
        folder: Path,
        progress: Progress | None,
        extra_vectors: ExtraVectors | None,
        teacher: Teacher | None,
    ) -> None:
        self.config, self.take_base, self.data = config, take_base, data
        self.folder, self.progress, self.more = folder, progress, (extra_vectors, teacher)
        self.num_folds = min(config.folds or self._usual_folds(), len(data.train))
        self.folds_N = stratified_folds(strata(data.train), self.num_folds, config.seed)
        self.judged: Sequence[Any] = data.dev or data.train
        self.begun, self.budget_s = time.perf_counter(), parse_duration(config.budget)
        self.task: Task | None = None  # how predictions are scored: that of any candidate
        self.frozen: Frozen | FrozenTags | None = None
        self.counted: Frozen | FrozenTags | None = None

    def _usual_folds(self) -> int:
        """The same for all candidates: what is judged after learning from fewer examples looks worse than it is. Three where
        each takes long, but not of few examples, which need all that they have."""
        tunes = {"contrastive", "tuned"} & set(self.config.candidates)
        return 3 if tunes and _FEW < len(self.data.train) <= _THIRDS else NUM_FOLDS

    def best(self) -> Fitted:
        """All candidates in turn, then the model of the best."""
        tried: list[_Tried] = []
        skipped: list[CandidateResult] = []
        for name in self.config.candidates:
            started = time.perf_counter()
            note = self._why_not(name, tried) if name in ("contrastive", "tuned") else ""
            if note:
                skipped.append(CandidateResult(name=name, note=note))
                continue
            tried.append(self._try(name))
            tried[-1].seconds = time.perf_counter() - started
        scores = self._scores(tried)
        ranks = self._ranks(tried, scores)
        best = max(range(len(tried)), key=lambda place: (ranks[place], -place))
        both = self._add_counts(tried, ranks, best) if scores[best] < _ENOUGH else None
        if both is not None:
            tried.append(both)
            scores.append(self._scores([tried[best], both])[1])
            if not self.data.dev or scores[-1] >= scores[best]:
                best = len(tried) - 1
        fitted = tried[best].finish()
        results = [
            CandidateResult(
                name=one.name,
                score=score,
                deviation=self._deviation(one),
                seconds=one.seconds,
                chosen=place == best,
                note=one.note,
            )
            for place, (one, score) in enumerate(zip(tried, scores, strict=True))
        ]
        assert self.task is not None
        if self.config.several:
            _use_thresholds(fitted, tried[best].found, self.judged)
            tried[best].found = self._cut(tried[best].found)
        judged = sorted(tried[best].found)
        fitted.by_label = self.task.by_label(
            [self.judged[number] for number in judged], [tried[best].found[number] for number in judged]
        )
        self._calibrate(fitted, tried[best])
        fitted.curve = self._curve()
        fitted.candidates, fitted.train_s = (*results, *skipped), time.perf_counter() - self.begun
        return fitted

    def _curve(self) -> LearningCurve | None:
        """By the linear model on the base, or by counts."""
        fits, name = self.frozen or self.counted, "linear" if self.frozen else "counts"
        more = (self.data.train, self.folds_N, self.budget_s, name, self.config.seed)
        return learning_curve(fits, self.task, *more) if fits and self.task else None

    def _try(self, name: str) -> _Tried:
        if name == "counts":
            return self._counts()
        if name == "linear":
            return self._linear()
        return self._pull() if name == "contrastive" else self._tune()

    def _scores(self, tried: Sequence[_Tried]) -> list[float]:
        """Of each on the examples that all have judged."""
        shared = sorted(set(range(len(self.judged))).intersection(*(one.found for one in tried)))
        return [
            self._score([self.judged[number] for number in shared], [found[n] for n in shared])
            for found in (self._cut(one.found) if self.config.several else one.found for one in tried)
        ]

    def _cut(self, found: Mapping[int, Prediction]) -> Mapping[int, Prediction]:
        """Several labels with the thresholds that suit these predictions best; each candidate is scored with its own."""
        assert isinstance(self.task, ClassifySeveral)
        return dict(zip(found, self.task.recut([self.judged[one] for one in found], list(found.values())), strict=True))

    def _ranks(self, tried: Sequence[_Tried], scores: list[float]) -> list[float]:
        """By what the best is known: the scores on dev examples, which are there to decide; in cross-validation of
        classes the mean log-probability of the true label, calibrated, on the examples that all have judged."""
        if self.data.dev or self.config.task != "classify":
            return scores
        shared = sorted(set(range(len(self.judged))).intersection(*(one.found for one in tried)))
        if isinstance(self.task, ClassifySeveral):
            true_NK = self.task.indicators([self.judged[number] for number in shared])
            return [
                mean_log_chance(self.task.chances([one.found[number] for number in shared]), true_NK) for one in tried
            ]
        ranks = [self._fit_factor({number: one.found[number] for number in shared})[1] for one in tried]
        for one, rank in zip(tried, ranks, strict=True):
            one.note = "; ".join(filter(None, (one.note, f"log-likelihood {rank:.3f}")))
        return ranks

    def _fit_factor(self, found: Mapping[int, Prediction]) -> tuple[float, float]:
        """The factor that calibrates, and the mean log-probability with it; rare classes count as in training."""
        return fit_factor(log_probs(list(found.values()), self.config.labels), *self._targets(list(found)))

    def _targets(self, numbers: Sequence[int]) -> tuple[Ints, Floats]:
        """The classes of judged examples, and their weights."""
        targets_N = np.asarray([self.config.labels.index(str(self.judged[one].label)) for one in numbers], np.int64)
        num_classes, balanced = len(self.config.labels), bool(self.config.class_weights)
        return targets_N, judged_weights(targets_N, num_classes, balanced, in_folds=not self.data.dev)

    def _add_counts(self, tried: Sequence[_Tried], ranks: Sequence[float], best: int) -> _Tried | None:
        """Counts and the best of the others together, if that is better than the best by more than chance."""
        counts = next((one for one in tried if one.name == "counts"), None)
        others = [place for place, one in enumerate(tried) if one is not counts]
        plain = self.config.task == "classify" and not self.config.several
        if counts is None or not others or not plain:
            return None
        other = tried[max(others, key=lambda place: (ranks[place], -place))]
        shared = sorted(set(counts.found) & set(other.found))
        if len(shared) < _CALIBRATED:
            return None
        targets_N, weights_N = self._targets(shared)
        sides = [[one.found[number] for number in shared] for one in (other, counts)]
        logs_MNK = np.stack([log_probs(side, self.config.labels) for side in sides])
        weights_M = fit_weights(logs_MNK, targets_N, weights_N)
        alone_NK = log_probs([tried[best].found[number] for number in shared], self.config.labels)
        factor = fit_factor(alone_NK, targets_N, weights_N)[0]
        rows = np.arange(len(shared))
        gains_N = weights_N * (
            normalised(np.tensordot(weights_M, logs_MNK, 1))[rows, targets_N]
            - normalised(factor * alone_NK)[rows, targets_N]
        )
        if not _better(gains_N):
            return None
        weights = (float(weights_M[0]), float(weights_M[1]))
        found = dict(zip(shared, added(sides, weights), strict=True))

        def finish() -> Fitted:
            fitted, part = other.finish(), counts.finish().model
            fitted.model.rescale(weights[0])
            part.rescale(weights[1])
            fitted.model.counts = part
            if self.data.dev:
                assert self.task is not None
                fitted.predictions = [found[number] for number in sorted(found)]
                fitted.scores = self.task.score(self.data.dev, [], fitted.predictions)
            return fitted

        note = f"weights {weights[1]:.2f} and {weights[0]:.2f}, gain {gains_N.mean():.3f}"
        return _Tried(f"counts + {other.name}", found, finish, note)

    def _calibrate(self, fitted: Fitted, chosen: _Tried) -> None:
        """By what it says of examples that it has not learned from; not where rare classes count more, since what is said
        then is not meant as a share."""
        plain = self.config.task == "classify" and not self.config.several
        if not plain or self.config.class_weights or len(chosen.found) < _CALIBRATED:
            return
        factor = self._fit_factor(chosen.found)[0]
        fitted.model.rescale(factor)
        fitted.predictions = rescaled(fitted.predictions, factor)
        predictions, truth = list(chosen.found.values()), [str(self.judged[number].label) for number in chosen.found]
        fitted.calibration = CalibrationResult(
            factor=factor,
            error_before=error_of(predictions, truth),
            error_after=error_of(rescaled(predictions, factor), truth),
            examples=len(truth),
        )

    def _deviation(self, one: _Tried) -> float | None:
        """Over the folds that it was judged in."""
        folds: dict[int, list[int]] = {}
        for number in [] if self.data.dev else sorted(one.found):
            folds.setdefault(int(self.folds_N[number]), []).append(number)
        found = self._cut(one.found) if self.config.several else one.found
        scores = [self._score([self.judged[n] for n in some], [found[n] for n in some]) for some in folds.values()]
        return statistics.stdev(scores) if len(scores) > 1 else None

    def _score(self, examples: Sequence[Any], found: Predictions) -> float:
        assert self.task is not None
        return self.task.score(examples, [], found)[self.task.metric]

    def _counts(self) -> _Tried:
        if self.config.task == "tag":
            tagger, self.counted = fit_tag_counts(self.config, self.data, self.folds_N, not self.data.dev)
            return self._fitted("counts", tagger, self.counted.outside, lambda: tagger)
        examples = all_of(TextExample, self.data.train)
        model, linear = fit_counts(self.config, examples, self.data.pairs, self.folds_N)
        self.counted = refittable(model, linear, examples)
        return self._fitted("counts", model, self.counted.outside, lambda: model)

    def _linear(self) -> _Tried:
        base, data = self.take_base(self.config.replace(tune=False)), self.data
        found: Frozen | FrozenTags
        if self.config.task == "tag":
            found = fit_frozen_tags(self.config, base, data, self.folds_N, not data.dev)
        else:
            found = fit_frozen(self.config, base, data, self.folds_N)
        self.frozen = found

        def build() -> TaskModel:
            return head_model(found.config, self.take_base(found.config), data.pairs, found.head)

        return self._fitted("linear", build(), found.outside, build)

    def _fitted(
        self, name: str, model: TaskModel, outside: Mapping[int, Outputs], build: Callable[[], TaskModel]
    ) -> _Tried:
        """A linear model: on dev examples what it says, else what it said of those outside of its folds. Built anew at the
        end, since its base may have been tuned."""
        self.task = model.task
        found = model.predict_examples(self.data.dev) if self.data.dev else []
        scores = model.task.score(self.data.dev, [], found) if self.data.dev else {}
        judged = dict(enumerate(found)) if self.data.dev else predictions_of(model.task, self.data.train, outside)
        return _Tried(name, judged, lambda: Fitted(build(), found, scores, 0.0, {}))

    def _tune(self) -> _Tried:
        """On dev examples at its best epoch; else trained without some of the folds and judged on those."""
        config, num_folds = self._plan()
        note = "" if config.epochs == self.config.epochs else f"{config.epochs} of {self.config.epochs} epochs"
        fits = self.frozen is not None and config.body == "none" and config.layers == self.frozen.config.layers
        head = self.frozen.head if self.frozen is not None and fits else None
        if self.data.dev:
            fitted = _train(config, self.take_base(config), self.data, self.folder, self.progress, *self.more, head)
            self.task = fitted.model.task
            return _Tried("tuned", dict(enumerate(fitted.predictions)), lambda: fitted, note)
        found: dict[int, Prediction] = {}
        for fold in range(num_folds):
            started = time.perf_counter()
            found |= self._judge_fold(config, fold, head is not None)
            if not self.config.folds and self._left() < 2.2 * (time.perf_counter() - started):
                break  # one more and the training on all examples would not fit

        def finish() -> Fitted:
            return _train(config, self.take_base(config), self.data, self.folder, self.progress, *self.more, head)

        return _Tried("tuned", found, finish, note)

    def _judge_fold(self, config: TaskConfig, fold: int, from_head: bool) -> dict[int, Prediction]:
        """Trained on all other folds, what it says of this one."""
        head = self.frozen.head_of(self.folds_N != fold) if self.frozen is not None and from_head else None

        def train(data: TaskData, folder: Path) -> TaskModel:
            return _train(config, self.take_base(config), data, folder, self.progress, *self.more, head).model

        return self._outside(fold, train)

    def _outside(self, fold: int, train: Callable[[TaskData, Path], TaskModel]) -> dict[int, Prediction]:
        outside = np.flatnonzero(self.folds_N == fold).tolist()
        inside = np.flatnonzero(self.folds_N != fold).tolist()
        data = replace(self.data, train=[self.data.train[number] for number in inside])
        with tempfile.TemporaryDirectory() as folder:
            model = train(data, Path(folder))
        self.task = model.task
        found = model.predict_examples([self.data.train[number] for number in outside])
        return dict(zip(outside, found, strict=True))

    def _pull(self) -> _Tried:
        """Texts of one class are pulled together; judged as tuning is."""
        assert self.frozen is not None
        rate = (self.config.learning_rate or 5e-5) * _FASTER
        config = self.frozen.config.replace(tune=True, layers="last", learning_rate=rate, dropout_prob=0.0)
        steps, num_folds = self._pulls()

        def train(data: TaskData, folder: Path) -> TaskModel:
            return train_contrastive(config, self.take_base(config), data, steps, folder, self.progress)

        if self.data.dev:
            model = train(self.data, self.folder)
            self.task, found = model.task, model.predict_examples(self.data.dev)
            scores = model.task.score(self.data.dev, [], found)
            return _Tried("contrastive", dict(enumerate(found)), lambda: Fitted(model, found, scores, 0.0, {}))
        judged: dict[int, Prediction] = {}
        for fold in range(num_folds):
            judged |= self._outside(fold, train)
        return _Tried(
            "contrastive", judged, lambda: Fitted(train(self.data, self.folder), [], {}, 0.0, {}), f"{steps} batches"
        )

    def _pulls(self) -> tuple[int, int]:
        """Batches and folds that fit into half of the time: first fewer folds, then fewer batches; none if they do not."""
        folds = 0 if self.data.dev else self.num_folds if self.config.folds else self._most_folds()
        wanted = min(MOST, max(FEWEST, self.config.epochs * len(self.data.train) // TEXTS))
        batch_s = self._epoch_s() * TEXTS / len(self.data.train)
        if self.config.folds or not batch_s:
            return wanted, folds
        affordable = self._left() / 2 / batch_s  # batches in all trainings
        folds = max(min(folds, 3), min(folds, int(affordable / wanted) - 1))
        steps = int(affordable / (1 + folds))
        return (min(steps, wanted) if steps >= FEWEST else 0), folds

    # -- whether and how long to tune

    def _left(self) -> float:
        return self.budget_s - (time.perf_counter() - self.begun)

    def _why_not(self, name: str, tried: Sequence[_Tried]) -> str:
        """Why nothing is tuned; empty if it is."""
        plain = self.config.task == "classify" and not self.config.several
        if name == "contrastive" and (self.frozen is None or self.data.pairs or not plain):
            return "not tried: it is for classes of single texts, after linear"
        if not tried:
            return ""
        best = max(self._scores(tried))
        if best >= _ENOUGH:
            return f"not tuned: {best:.3f} is reached without"
        if name == "contrastive":
            enough = self._pulls()[0] > 0
            return "" if enough else f"not tuned: {FEWEST} batches take too long for a budget of {self.config.budget}"
        if not self.data.dev and len(self.data.train) <= _FEW and tried[-1].name == "contrastive":
            return f"not tuned: of {_FEW} examples or fewer contrastive pairs teach more"
        if self._plan()[0].epochs < _LEAST <= self.config.epochs:
            return f"not tuned: an epoch takes {show_duration(self._epoch_s())}, too long for a budget of {self.config.budget}"
        return ""

    def _most_folds(self) -> int:
        """In which what takes long is judged."""
        return self.num_folds if len(self.data.train) <= _THIRDS else 1

    def _epoch_s(self) -> float:
        return 0.0 if self.frozen is None else _LEARNING * self.frozen.read_s

    def _plan(self) -> tuple[TaskConfig, int]:
        """The settings with the epochs that fit into the time, and how many folds are judged."""
        config = self.config
        if self.frozen is not None and config.body == "none" and config.layers == "last":
            chosen = self.frozen.config
            config = config.replace(pool=chosen.pool, layers=chosen.layers)
            config = config.replace(pair_reading=chosen.pair_reading, pair_cosines=chosen.pair_cosines)
        if self.config.folds:
            return config, self.num_folds  # as asked for, however long it takes
        epoch_s = max(self._epoch_s(), 1e-9)
        if self.data.dev:
            trainings, folds = 1 + len(self.data.dev) / len(self.data.train) / _LEARNING, 0
        else:
            share = 1 - 1 / self.num_folds
            affordable = int((self._left() / (epoch_s * config.epochs) - 1) / share)
            folds = max(1, min(self._most_folds(), affordable))
            trainings = 1 + folds * share
        epochs = min(config.epochs, int(self._left() / (epoch_s * trainings)))
        return config.replace(epochs=max(1, epochs)), folds


def _better(gains_N: Floats) -> bool:
    """By more than chance."""
    return bool(gains_N.mean() > _ERRORS * gains_N.std() / len(gains_N) ** 0.5)


def _use_thresholds(fitted: Fitted, found: Mapping[int, Prediction], judged: Sequence[Any]) -> None:
    """Those of the settings, or those that suit what was predicted of examples that were not learned from."""
    task = fitted.model.task
    assert isinstance(task, ClassifySeveral)
    thresholds = task.thresholds([judged[one] for one in found], list(found.values()))
    fitted.model.set_thresholds(thresholds)
    if fitted.predictions:
        fitted.predictions = task.cut(fitted.predictions, thresholds)
        fitted.scores = task.score(judged, [], fitted.predictions)
