"""How candidates of a training are judged: on the dev examples, or on those of the folds that each has not learned from.

N examples, K classes.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from firth.core.run import CalibrationResult, CandidateResult, LabelScore, LearningCurve
from firth.core.types import Prediction
from firth.data.labelled import TextExample
from firth.data.tables import output_format, table_writer
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData, copies_of
from firth.tasks.linear import JUDGED, Floats, Ints, judged_weights
from firth.tasks.model import TaskModel
from firth.tasks.scores import fit_factor, log_probs, normalised, wrong_chances
from firth.tasks.several import ClassifySeveral, mean_log_chance
from firth.tasks.training import Task

Predictions = list[Prediction]
_ERRORS = 1.5  # standard errors by which one must be better than another; fewer are too few where new texts differ from the old ones
SAYING = 30  # examples on which a candidate may be given up, or may win by likelihood
TUNED = ("contrastive", "tuned")
_BY_COST = ("counts", "linear", *TUNED)


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
    outside: Mapping[int, Prediction] = field(default_factory=dict)  # of training examples, by models without them
    of_all: Mapping[int, Prediction] = field(
        default_factory=dict
    )  # the same of a linear model, where these are not all


@dataclass
class Tried:
    """A candidate: what it says of examples that it has not learned from, by their number, and how the finished model is
    had."""

    name: str
    found: Mapping[int, Prediction]
    finish: Callable[[], Fitted]
    note: str = ""
    seconds: float = 0.0
    given_up: bool = False  # it was not judged to the end


class Judge:
    """What candidates say of the same examples, compared."""

    def __init__(self, config: TaskConfig, data: TaskData, folds_N: Ints) -> None:
        self.config, self.data, self.folds_N = config, data, folds_N
        self.judged: Sequence[Any] = data.dev or data.train
        self.task: Task | None = None  # how predictions are scored: that of any candidate

    def score_of(self, one: Tried, numbers: Sequence[int] = ()) -> float:
        """On these examples, or on all that it has judged."""
        found = self.cut(one.found) if self.config.several else one.found
        some = numbers or sorted(one.found)
        return self.score([self.judged[number] for number in some], [found[number] for number in some])

    def leader(self, tried: Sequence[Tried]) -> int:
        """The place of the best: each in turn is compared with the best of the cheaper ones on what both have judged."""
        first, *others = sorted(range(len(tried)), key=lambda place: _BY_COST.index(tried[place].name))
        for place in others:
            if self.beats(tried[place], tried[first]):
                first = place
        return first

    def beats(self, costly: Tried, cheap: Tried) -> bool:
        """By what the best is known, on the examples that both have judged. What was tuned must on fewer than 30 of them in
        cross-validation have the higher score, and its predictions must be better by more than chance: on so few, any
        training that went on for longer is surer of itself."""
        shared = sorted(costly.found.keys() & cheap.found.keys())
        if not shared:
            return False
        ranks = [self.rank(one, shared) for one in (costly, cheap)]
        if ranks[0] <= ranks[1]:
            return False
        if self.data.dev or len(shared) >= SAYING or costly.name not in TUNED:
            return True
        if self.score_of(costly, shared) <= self.score_of(cheap, shared):
            return False
        return better(self._goodness(costly, shared) - self._goodness(cheap, shared))

    def best_score(self, tried: Sequence[Tried]) -> float:
        """The highest that is more than chance on a handful of examples."""
        enough = min(SAYING, max(len(one.found) for one in tried))
        return max(self.score_of(one) for one in tried if len(one.found) >= enough)

    def cut(self, found: Mapping[int, Prediction]) -> Mapping[int, Prediction]:
        """Several labels with the thresholds that suit these predictions best; each candidate is scored with its own."""
        assert isinstance(self.task, ClassifySeveral)
        return dict(zip(found, self.task.recut([self.judged[one] for one in found], list(found.values())), strict=True))

    def rank(self, one: Tried, numbers: Sequence[int]) -> float:
        """By what the best is known: the score on dev examples, which are there to decide; in cross-validation of classes the
        mean log-probability of the true label, calibrated."""
        if self.data.dev or self.config.task != "classify":
            return self.score_of(one, numbers)
        if isinstance(self.task, ClassifySeveral):
            true_NK = self.task.indicators([self.judged[number] for number in numbers])
            return mean_log_chance(self.task.chances([one.found[number] for number in numbers]), true_NK)
        return self.fit_factor({number: one.found[number] for number in numbers})[1]

    def note(self, one: Tried, chosen: Tried) -> str:
        """What is said beside its score: the likelihood, and where they have judged different examples, the chosen one's
        score on those of this one, or the other way round."""
        notes = [one.note]
        if self.config.task == "classify" and not self.config.several and not self.data.dev:
            notes.append(f"log-likelihood {self.rank(one, sorted(one.found)):.3f}")
        if one.found.keys() < chosen.found.keys():
            notes.append(f"{chosen.name} {self.score_of(chosen, sorted(one.found)):.4f} on these")
        elif chosen.found.keys() < one.found.keys():
            some = sorted(chosen.found)
            notes.append(f"{self.score_of(one, some):.4f} on the {len(some):,} of {chosen.name}")
        return "; ".join(filter(None, notes))

    def _goodness(self, one: Tried, numbers: Sequence[int]) -> Floats:
        """[N]: of each prediction; the mean log-probability of what is true, the share of right tags, minus the squared
        error."""
        examples, found = [self.judged[number] for number in numbers], [one.found[number] for number in numbers]
        if isinstance(self.task, ClassifySeveral):
            chances_NK, true_NK = self.task.chances(found), self.task.indicators(examples)
            return np.asarray(np.log(np.maximum(np.where(true_NK, chances_NK, 1 - chances_NK), 1e-12)).mean(1))
        if self.config.task == "classify":
            return self.log_chances(found, *self.targets(numbers))
        pairs = list(zip(examples, found, strict=True))
        if self.config.task == "tag":
            return np.asarray(
                [np.mean([a == b for a, b in zip(e.tags, f["tags"], strict=True)] or [1.0]) for e, f in pairs]
            )
        return np.asarray([-((float(f["score"]) - float(e.label)) ** 2) for e, f in pairs])

    def fit_factor(self, found: Mapping[int, Prediction]) -> tuple[float, float]:
        """The factor that calibrates, and the mean log-probability with it; rare classes count as in training."""
        return fit_factor(log_probs(list(found.values()), self.config.labels), *self.targets(list(found)))

    def targets(self, numbers: Sequence[int]) -> tuple[Ints, Floats]:
        """The classes of judged examples, and their weights."""
        targets_N = np.asarray([self.config.labels.index(str(self.judged[one].label)) for one in numbers], np.int64)
        num_classes, balanced = len(self.config.labels), bool(self.config.class_weights)
        return targets_N, judged_weights(targets_N, num_classes, balanced, in_folds=not self.data.dev)

    def shares(self, numbers: Sequence[int]) -> Floats:
        """The weights without those of classes: of each judged example 1, in folds 0 where its class is too rare."""
        return np.asarray(self.targets(numbers)[1] > 0, np.float64)

    def deviation(self, one: Tried) -> float | None:
        """Over the folds that it was judged in."""
        folds: dict[int, list[int]] = {}
        for number in [] if self.data.dev else sorted(one.found):
            folds.setdefault(int(self.folds_N[number]), []).append(number)
        found = self.cut(one.found) if self.config.several else one.found
        scores = [self.score([self.judged[n] for n in some], [found[n] for n in some]) for some in folds.values()]
        return statistics.stdev(scores) if len(scores) > 1 else None

    def score(self, examples: Sequence[Any], found: Predictions) -> float:
        assert self.task is not None
        return self.task.score(examples, [], found)[self.task.metric]

    def behind(self, found: Mapping[int, Prediction], tried: Sequence[Tried]) -> str:
        """Why its other folds are not worth the time: by what it says of these examples it is behind the best so far by more
        than chance. Empty if it is not, and where the user asked for all folds."""
        plain = self.config.task == "classify" and not self.config.several
        tried = [other for other in tried if found.keys() <= other.found.keys()]  # judged on all of these
        if not plain or self.config.folds or len(found) < SAYING or not tried:
            return ""
        numbers = sorted(found)
        targets_N, weights_N = self.targets(numbers)
        gains = [
            self.log_chances([one[number] for number in numbers], targets_N, weights_N)
            for one in (found, *(other.found for other in tried))
        ]
        best = max(range(1, len(gains)), key=lambda place: float(gains[place].mean()))
        if not better(gains[best] - gains[0]):
            return ""
        scores = [
            self.score([self.judged[number] for number in numbers], [one[number] for number in numbers])
            for one in (found, tried[best - 1].found)
        ]
        return f"{scores[0]:.3f} there, {tried[best - 1].name} {scores[1]:.3f}"

    def log_chances(self, found: Predictions, targets_N: Ints, weights_N: Floats) -> Floats:
        """The weighted log-probability of each true label, calibrated on these examples."""
        logs_NK = log_probs(found, self.config.labels)
        factor = fit_factor(logs_NK, targets_N, weights_N)[0]
        return np.asarray(weights_N * normalised(factor * logs_NK)[np.arange(len(targets_N)), targets_N])


def better(gains_N: Floats) -> bool:
    """By more than chance."""
    return len(gains_N) > 1 and bool(gains_N.mean() > _ERRORS * gains_N.std(ddof=1) / len(gains_N) ** 0.5)


# -- labels that are probably wrong


@dataclass(frozen=True)
class Suspect:
    """An example by its number, its label, the one that it looks like, and the probability that its label is wrong."""

    number: int
    label: str
    likely: str
    wrong_prob: float


FEWEST_JUDGED = 20  # examples: of fewer none is suspected
_WRONG = 0.5  # from this probability on a label is suspected


def suspect_labels(
    outside_NK: Floats, targets_N: Ints, labels: Sequence[str], copies: Sequence[int] | None = None
) -> list[Suspect]:
    """From probabilities that were given by models which had not seen the example; those that are likeliest wrong first.
    ``copies``: of each example the first that says the same. A label with fewer than three different texts is never
    suspected: without one of them hardly anything is known of it."""
    wrong_N, _ = wrong_chances(np.log(np.maximum(outside_NK, 1e-12)), targets_N)
    texts_N = np.arange(len(targets_N)) if copies is None else np.asarray(copies)
    different_2M = np.unique(np.stack((texts_N, targets_N)), axis=1)
    texts_K = np.bincount(different_2M[1], minlength=outside_NK.shape[1])
    wrong_N = np.where(texts_K[targets_N] >= JUDGED, wrong_N, 0.0)
    others_NK = outside_NK.copy()
    others_NK[np.arange(len(targets_N)), targets_N] = -1.0
    found = np.flatnonzero(wrong_N >= _WRONG)
    return [
        Suspect(number, labels[targets_N[number]], labels[others_NK[number].argmax()], float(wrong_N[number]))
        for number in found[np.argsort(-wrong_N[found], kind="stable")].tolist()
    ]


def suspects_of(config: TaskConfig, examples: Sequence[TextExample], found: Mapping[int, Prediction]) -> list[Suspect]:
    """From what a training said of examples that it had not learned from, by their number."""
    if config.task != "classify" or config.several or len(found) < FEWEST_JUDGED:
        return []
    numbers = sorted(found)
    targets_N = np.asarray([config.labels.index(str(examples[number].label)) for number in numbers])
    chances_NK = np.exp(log_probs([found[number] for number in numbers], config.labels))
    if config.class_weights:  # then rare classes were made as likely as common ones
        chances_NK = chances_NK * np.maximum(np.bincount(targets_N, minlength=len(config.labels)), 0.5)
        chances_NK /= chances_NK.sum(1, keepdims=True)
    copies = copies_of([examples[number] for number in numbers])
    return [
        replace(one, number=numbers[one.number]) for one in suspect_labels(chances_NK, targets_N, config.labels, copies)
    ]


def write_suspects(found: Sequence[Suspect], examples: Sequence[TextExample], out: Path) -> None:
    """A table of all of them, the surest first."""
    output_format(out)
    names = ["where", "label", "likely", "wrong_probability", "text", "second"]
    with table_writer(out, names, {}) as write:
        for one in found:
            example = examples[one.number]
            write([example.where, one.label, one.likely, round(one.wrong_prob, 4), example.text, example.second])
