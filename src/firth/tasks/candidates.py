"""The candidates of one training, and the choice among them.

``counts``: a linear model over TF-IDF of words and characters, of tags over words and their neighbours; it needs no base.
``linear``: a linear model over what the frozen base says of a text, of tags of each word.
``contrastive``: the base tuned on pairs of labelled texts, then a linear model.
``tuned``: the base trained further, from the linear model on.
``counts + ...``: the scores of counts added to those of the best of the others, with weights found by the same predictions;
of classes only, and only where it is better by more than 1.5 standard errors.

The best on the dev examples is kept; without any, the best in stratified cross-validation: of classes the one that gives the
true labels the highest probability once it is calibrated, because of few labels the share that is right says too little.
Of equals the cheaper one is kept, and on fewer than 30 examples what was tuned has to be better by more than chance. What is kept is calibrated by the same predictions.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from firth.core.config import parse_duration, show_duration
from firth.core.run import CalibrationResult, CandidateResult, LearningCurve
from firth.core.storage import Cluster
from firth.core.types import Event, Prediction, Progress
from firth.data.labelled import TextExample
from firth.models.shared.model import Model
from firth.models.shared.static import ExtraVectors
from firth.tasks.checking import all_of
from firth.tasks.config import TaskConfig
from firth.tasks.counts import Frozen, fit_counts, fit_frozen, head_model, refittable
from firth.tasks.data import TaskData, copies_of, strata
from firth.tasks.distillation import Teacher
from firth.tasks.finetune import (
    FEWEST,
    MOST,
    TEXTS,
    WINDOW,
    Fold,
    judge_fold,
    judge_fold_there,
    train_contrastive,
    train_model,
)
from firth.tasks.judging import TUNED, Fitted, Judge, Tried, better
from firth.tasks.linear import (
    NUM_FOLDS,
    Head,
    Outputs,
    learning_curve,
    predictions_of,
    stratified_folds,
)
from firth.tasks.model import TaskModel, build_model
from firth.tasks.scores import added, error_of, fit_factor, fit_weights, log_probs, normalised, rescaled
from firth.tasks.several import ClassifySeveral
from firth.tasks.tag_linear import FrozenTags, fit_frozen_tags, fit_tag_counts
from firth.tasks.training import Task

TakeBase = Callable[[TaskConfig], Model]
_ENOUGH = 0.98  # a score from which on nothing is tuned
_LEARNING = 3.3  # so many times as long as reading a text takes learning from it
_FASTER = 2.0  # than tuning learns pulling texts together
_CALIBRATED = 20  # examples: fewer say nothing of probabilities
_LEAST = 2  # epochs of tuning that are worth while
_FEW = 100  # examples
_SAMPLED = 100  # texts whose length is looked at
_JUDGING = 300  # examples that are enough to judge what takes long
_THIRDS = 1000  # up to so many examples what takes long is judged in three folds; beyond, in one of the five


def fit_best(
    config: TaskConfig,
    take_base: TakeBase,
    data: TaskData,
    folder: Path,
    progress: Progress | None = None,
    extra_vectors: ExtraVectors | None = None,
    teacher: Teacher | None = None,
    remote: tuple[Cluster, str] | None = None,
) -> Fitted:
    """The best of ``config.candidates``; tuning alone is not judged without dev examples. ``remote``: a cluster for the folds, and
    the path of the base there."""
    if config.candidates == ("tuned",) and not config.folds:
        fitted = _train(config, take_base(config), data, folder, progress, extra_vectors, teacher)
        if config.several and data.dev:
            _use_thresholds(fitted, dict(enumerate(fitted.predictions)), data.dev)
            fitted.by_label = fitted.model.task.by_label(data.dev, fitted.predictions)
        return fitted
    return _Choice(config, take_base, data, folder, progress, extra_vectors, teacher, remote).best()


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
        remote: tuple[Cluster, str] | None = None,
    ) -> None:
        self.remote = remote
        self.config, self.take_base, self.data = config, take_base, data
        self.folder, self.more = folder, (extra_vectors, teacher)
        self.stage, self.listener = "", progress
        num_folds = min(config.folds or self._usual_folds(), len(data.train))
        self.folds_N = stratified_folds(strata(data.train), num_folds, config.seed, copies_of(data.train))
        self.num_folds = int(self.folds_N.max()) + 1
        self.judge = Judge(config, data, self.folds_N)
        self.begun, self.budget_s = time.perf_counter(), parse_duration(config.budget)
        self.frozen: Frozen | FrozenTags | None = None
        self.counted: Frozen | FrozenTags | None = None
        self.paired = False  # pairs of texts are for these examples, even if there is no time for them

    def progress(self, event: Event) -> None:
        """Passed on with what is being tried."""
        if self.listener is not None:
            self.listener({"stage": self.stage, **event} if self.stage else event)

    def _usual_folds(self) -> int:
        """The same for all candidates: what is judged after learning from fewer examples looks worse than it is. Three where
        each takes long, but not of few examples, which need all that they have."""
        tunes = set(TUNED) & set(self.config.candidates)
        return 3 if tunes and _FEW < len(self.data.train) <= _THIRDS else NUM_FOLDS

    def best(self) -> Fitted:
        """All candidates in turn, then the model of the best."""
        tried: list[Tried] = []
        skipped: list[CandidateResult] = []
        for name in self.config.candidates:
            started = time.perf_counter()
            note = self._why_not(name, tried) if name in TUNED else ""
            if note:
                skipped.append(CandidateResult(name=name, note=note))
                continue
            self.stage = name
            self.progress({"event": "candidate", "name": name})
            one = self._try(name, tried)
            one.seconds = time.perf_counter() - started
            if one.given_up:
                skipped.append(CandidateResult(name=name, seconds=one.seconds, note=one.note))
            else:
                tried.append(one)
        best = self.judge.leader(tried)
        both = self._add_counts(tried, best) if self.judge.score_of(tried[best]) < _ENOUGH else None
        if both is not None:
            tried.append(both)
            if not self.data.dev or self.judge.score_of(both) >= self.judge.score_of(tried[best]):
                best = len(tried) - 1
        self.stage = f"{tried[best].name}, on all examples"
        fitted = tried[best].finish()
        results = [
            CandidateResult(
                name=one.name,
                score=self.judge.score_of(one),
                deviation=self.judge.deviation(one),
                examples=None if self.data.dev else len(one.found),
                seconds=one.seconds,
                chosen=place == best,
                note=self.judge.note(one, tried[best]),
            )
            for place, one in enumerate(tried)
        ]
        self._complete(fitted, tried[best])
        fitted.curve = self._curve()
        fitted.candidates, fitted.train_s = (*results, *skipped), time.perf_counter() - self.begun
        return fitted

    def _complete(self, fitted: Fitted, chosen: Tried) -> None:
        """Thresholds, scores by label, calibration, and what was said of training examples that were not learned from."""
        judge, task = self.judge, self.judge.task
        assert task is not None
        if self.config.several:
            _use_thresholds(fitted, chosen.found, judge.judged)
            chosen.found = judge.cut(chosen.found)
        judged = sorted(chosen.found)
        fitted.by_label = task.by_label(
            [judge.judged[number] for number in judged], [chosen.found[number] for number in judged]
        )
        self._calibrate(fitted, chosen)
        if not self.data.dev:
            factor = 1.0 if fitted.calibration is None else fitted.calibration.factor
            found = [chosen.found[number] for number in judged]
            fitted.outside = dict(zip(judged, rescaled(found, factor) if factor != 1.0 else found, strict=True))
        if self.config.task == "classify" and not self.config.several and len(fitted.outside) < len(self.data.train):
            linear = [one for one in (self.frozen, self.counted) if isinstance(one, Frozen)]
            best = max(linear, key=lambda one: one.linear.goodness, default=None)
            fitted.of_all = {} if best is None else predictions_of(task, self.data.train, best.outside)

    def _curve(self) -> LearningCurve | None:
        """By the linear model on the base or by counts, whichever is better."""
        linear, counts = self.frozen, self.counted
        if (
            isinstance(linear, Frozen)
            and isinstance(counts, Frozen)
            and counts.linear.goodness > linear.linear.goodness
        ):
            linear = None
        fits, name = linear or counts, "linear" if linear else "counts"
        more = (self.data.train, self.folds_N, self.budget_s, name, self.config.seed)
        return learning_curve(fits, self.judge.task, *more) if fits and self.judge.task else None

    def _try(self, name: str, tried: Sequence[Tried]) -> Tried:
        if name == "counts":
            return self._counts()
        if name == "linear":
            return self._linear()
        return self._pull(tried) if name == "contrastive" else self._tune(tried)

    def _add_counts(self, tried: Sequence[Tried], best: int) -> Tried | None:
        """Counts and the best of the others together, if that is better than the best by more than chance."""
        counts = next((one for one in tried if one.name == "counts"), None)
        others = [one for one in tried if one is not counts]
        plain = self.config.task == "classify" and not self.config.several
        if counts is None or not others or not plain:
            return None
        other = others[self.judge.leader(others)] if tried[best] is counts else tried[best]
        shared = sorted(set(counts.found) & set(other.found))
        if len(shared) < _CALIBRATED:
            return None
        targets_N, weights_N = self.judge.targets(shared)
        sides = [[one.found[number] for number in shared] for one in (other, counts)]
        logs_MNK = np.stack([log_probs(side, self.config.labels) for side in sides])
        weights_M = fit_weights(logs_MNK, targets_N, weights_N)
        added_N = weights_N * normalised(np.tensordot(weights_M, logs_MNK, 1))[np.arange(len(shared)), targets_N]
        alone = [tried[best].found[number] for number in shared]
        gains_N = added_N - self.judge.log_chances(alone, targets_N, weights_N)
        if not better(gains_N):
            return None
        weights = (float(weights_M[0]), float(weights_M[1]))
        found = dict(zip(shared, added(sides, weights), strict=True))

        def finish() -> Fitted:
            fitted, part = other.finish(), counts.finish().model
            fitted.model.rescale(weights[0])
            part.rescale(weights[1])
            fitted.model.counts = part
            if self.data.dev:
                assert self.judge.task is not None
                fitted.predictions = [found[number] for number in sorted(found)]
                fitted.scores = self.judge.task.score(self.data.dev, [], fitted.predictions)
            return fitted

        note = f"weights {weights[1]:.2f} and {weights[0]:.2f}, gain {gains_N.mean():.3f}"
        return Tried(f"counts + {other.name}", found, finish, note)

    def _calibrate(self, fitted: Fitted, chosen: Tried) -> None:
        """By what it says of examples that it has not learned from. Where rare classes count more in training all examples count
        alike here: a probability is the share of texts that is right. One factor changes no label."""
        plain = self.config.task == "classify" and not self.config.several
        if not plain or len(chosen.found) < _CALIBRATED:
            return
        numbers = list(chosen.found)
        logs_NK = log_probs(list(chosen.found.values()), self.config.labels)
        factor = fit_factor(logs_NK, self.judge.targets(numbers)[0], self.judge.shares(numbers))[0]
        fitted.model.rescale(factor)
        fitted.predictions = rescaled(fitted.predictions, factor)
        predictions, truth = (
            list(chosen.found.values()),
            [str(self.judge.judged[number].label) for number in chosen.found],
        )
        fitted.calibration = CalibrationResult(
            factor=factor,
            error_before=error_of(predictions, truth),
            error_after=error_of(rescaled(predictions, factor), truth),
            examples=len(truth),
        )

    def _counts(self) -> Tried:
        if self.config.task == "tag":
            tagger, self.counted = fit_tag_counts(self.config, self.data, self.folds_N, not self.data.dev)
            return self._fitted("counts", tagger, self.counted.outside, lambda: tagger)
        examples = all_of(TextExample, self.data.train)
        model, linear = fit_counts(self.config, examples, self.data.pairs, self.folds_N)
        self.counted = refittable(model, linear, examples)
        return self._fitted("counts", model, self.counted.outside, lambda: model)

    def _linear(self) -> Tried:
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
    ) -> Tried:
        """A linear model: on dev examples what it says, else what it said of those outside of its folds. Built anew at the
        end, since its base may have been tuned."""
        self.judge.task = model.task
        found = model.predict_examples(self.data.dev) if self.data.dev else []
        scores = model.task.score(self.data.dev, [], found) if self.data.dev else {}
        judged = dict(enumerate(found)) if self.data.dev else predictions_of(model.task, self.data.train, outside)
        return Tried(name, judged, lambda: Fitted(build(), found, scores, 0.0, {}))

    def _tune(self, tried: Sequence[Tried]) -> Tried:
        """On dev examples at its best epoch; else trained without some of the folds and judged on those."""
        config, num_folds = self._plan()
        note = "" if config.epochs == self.config.epochs else f"{config.epochs} of {self.config.epochs} epochs"
        fits = self.frozen is not None and config.body == "none" and config.layers == self.frozen.config.layers
        head = self.frozen.head if self.frozen is not None and fits else None
        if self.data.dev:
            fitted = _train(config, self.take_base(config), self.data, self.folder, self.progress, *self.more, head)
            self.judge.task = fitted.model.task
            return Tried("tuned", dict(enumerate(fitted.predictions)), lambda: fitted, note)
        found, why = self._judge("tuned", config, num_folds, tried, head=head is not None)
        if why:
            return Tried("tuned", found, _never, why, given_up=True)

        def finish() -> Fitted:
            return _train(config, self.take_base(config), self.data, self.folder, self.progress, *self.more, head)

        return Tried("tuned", found, finish, note)

    def _judge(
        self, name: str, config: TaskConfig, num_folds: int, tried: Sequence[Tried], steps: int = 0, head: bool = False
    ) -> tuple[dict[int, Prediction], str]:
        """Trained on all other folds, what is said of each, and why the last of them are left out, if they are; ``steps``
        batches of pairs, or the task itself."""
        found: dict[int, Prediction] = {}
        outside = (self.folds_N == number for number in range(num_folds))
        heads = ((one, self.frozen.head_of(~one) if self.frozen is not None and head else None) for one in outside)
        folds = (Fold(config, one, steps, begun) for one, begun in heads)
        for number, (task, some) in enumerate(self._judged(name, folds, num_folds), 1):
            self.judge.task = task
            found |= some
            if number < num_folds and (behind := self.judge.behind(found, tried)):
                return found, f"given up after fold {number} of {num_folds}: {behind}"
        return found, ""

    def _judged(self, name: str, folds: Iterator[Fold], num_folds: int) -> Iterator[tuple[Task, dict[int, Prediction]]]:
        """All on a cluster, or as many here as the time allows."""
        if self.remote is not None and self.more[1] is None:
            (cluster, path), data = self.remote, self.remote[0].put(self.data)
            task = self.judge.task or build_model(self.config, self.take_base(self.config), self.data.pairs).task
            for found in cluster.ordered(judge_fold_there, ((path, fold, data, self.more[0]) for fold in folds)):
                yield task, found
            return
        for number, fold in enumerate(folds, 1):
            started = time.perf_counter()
            self.stage = f"{name}, fold {number} of {num_folds}"
            yield judge_fold(self.take_base(fold.config), fold, self.data, *self.more, self.progress)
            if not fold.steps and not self.config.folds and self._left() < 2.2 * (time.perf_counter() - started):
                return  # one more and the training on all examples would not fit

    def _pull(self, tried: Sequence[Tried]) -> Tried:
        """Texts of one class are pulled together; judged as tuning is."""
        assert self.frozen is not None
        rate = (self.config.learning_rate or 5e-5) * _FASTER
        config = self.frozen.config.replace(tune=True, layers="last", learning_rate=rate, dropout_prob=0.0)
        steps, num_folds = self._pulls()

        def train(data: TaskData, folder: Path) -> TaskModel:
            return train_contrastive(config, self.take_base(config), data, steps, folder, self.progress)

        if self.data.dev:
            model = train(self.data, self.folder)
            self.judge.task, found = model.task, model.predict_examples(self.data.dev)
            scores = model.task.score(self.data.dev, [], found)
            return Tried("contrastive", dict(enumerate(found)), lambda: Fitted(model, found, scores, 0.0, {}))
        judged, why = self._judge("contrastive", config, num_folds, tried, steps)
        if why:
            return Tried("contrastive", judged, _never, why, given_up=True)
        return Tried(
            "contrastive", judged, lambda: Fitted(train(self.data, self.folder), [], {}, 0.0, {}), f"{steps} batches"
        )

    def _pulls(self) -> tuple[int, int]:
        """Batches and folds that fit into half of the time: first fewer folds, then fewer batches; none if they do not."""
        folds = 0 if self.data.dev else self.num_folds if self.config.folds else self._most_folds()
        wanted = min(MOST, max(FEWEST, self.config.epochs * len(self.data.train) // TEXTS))
        batch_s = self._epoch_s() * self._read_share() * TEXTS / len(self.data.train)
        if self.config.folds or not batch_s:
            return wanted, folds
        affordable = self._left() / 2 / batch_s  # batches in all trainings
        folds = max(min(folds, 3), min(folds, int(affordable / wanted) - 1))
        steps = int(affordable / (1 + folds))
        return (min(steps, wanted) if steps >= FEWEST else 0), folds

    def _read_share(self) -> float:
        """Of the tokens of long texts, that pairs of them read."""
        assert self.frozen is not None
        reader = self.take_base(self.frozen.config).reader()
        most = min(self.config.max_len, reader.max_len or self.config.max_len)
        some = all_of(TextExample, self.data.train)[:_SAMPLED]
        lens = [min(len(reader.tokenize(one.text).ids), most) for one in some]
        return sum(min(one, WINDOW) for one in lens) / max(sum(lens), 1)

    # -- whether and how long to tune

    def _left(self) -> float:
        return self.budget_s - (time.perf_counter() - self.begun)

    def _why_not(self, name: str, tried: Sequence[Tried]) -> str:
        """Why nothing is tuned; empty if it is."""
        plain = self.config.task == "classify" and not self.config.several
        if name == "contrastive" and (self.frozen is None or self.data.pairs or not plain):
            return "not tried: it is for classes of single texts, after linear"
        if not tried:
            return ""
        best = self.judge.best_score(tried)
        if best >= _ENOUGH:
            return f"not tried: {best:.3f} is reached without"
        if name == "contrastive":
            self.paired, enough = True, self._pulls()[0] > 0
            return "" if enough else f"not tried: {FEWEST} batches take too long for a budget of {self.config.budget}"
        if not self.data.dev and len(self.data.train) <= _FEW and self.paired:
            return f"not tried: from {_FEW} examples or fewer contrastive pairs teach more"
        if self._plan()[0].epochs < _LEAST <= self.config.epochs:
            return f"not tried: an epoch takes {show_duration(self._epoch_s())}, too long for a budget of {self.config.budget}"
        return ""

    def _most_folds(self) -> int:
        """In which what takes long is judged: as many as have enough examples together."""
        if len(self.data.train) > _THIRDS:
            return 1
        return min(self.num_folds, -(-_JUDGING * self.num_folds // len(self.data.train)))

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


def _never() -> Fitted:
    raise AssertionError("a candidate that was given up is not finished")


def _use_thresholds(fitted: Fitted, found: Mapping[int, Prediction], judged: Sequence[Any]) -> None:
    """Those of the settings, or those that suit what was predicted of examples that were not learned from."""
    task = fitted.model.task
    assert isinstance(task, ClassifySeveral)
    thresholds = task.thresholds([judged[one] for one in found], list(found.values()))
    fitted.model.set_thresholds(thresholds)
    if fitted.predictions:
        fitted.predictions = task.cut(fitted.predictions, thresholds)
        fitted.scores = task.score(judged, [], fitted.predictions)
