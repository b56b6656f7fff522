"""Several labels of one text: every label is a yes or no of its own (binary relevance), with a threshold of its own.

A threshold is the one with the best F1 of its label on examples that the model has not learned from; a label that is rare there
takes the one with the best F1 over all labels, since a few examples say too little (Fan and Lin 2007).

N examples, K labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import Later
from firth.core.run import LabelScore
from firth.core.types import Batch, Losses, Prediction
from firth.data.labelled import TextExample
from firth.nn import arrays
from firth.tasks.classify import Classify
from firth.tasks.scores import Interval, harmonic, interval, ratio
from firth.tasks.training import Item

if TYPE_CHECKING:
    import torch
    from torch.nn import functional

    from firth.tasks.network import TaskNetwork
else:
    functional = Later("torch.nn.functional")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
USUAL = 0.5
_ENOUGH = 10  # examples of a label for a threshold of its own
_LEAST, _MOST = 0.01, 0.99


def best_threshold(chances_N: Floats, true_N: Bools) -> float:
    """The threshold with the best F1, halfway between two probabilities; 0.5 where nothing is true."""
    if not true_N.any():
        return USUAL
    order = np.argsort(-chances_N, kind="stable")
    sorted_N, right_N = chances_N[order], np.cumsum(true_N[order])
    f1_N = 2 * right_N / (np.arange(1, len(order) + 1) + true_N.sum())
    following_N = np.append(sorted_N[1:], 0.0)
    f1_N[sorted_N == following_N] = -1.0  # equals cannot be distinguished
    best = int(f1_N.argmax())
    return float(np.clip((sorted_N[best] + following_N[best]) / 2, _LEAST, _MOST))


def find_thresholds(chances_NK: Floats, true_NK: Bools) -> tuple[float, ...]:
    """One for each label."""
    common = best_threshold(chances_NK.reshape(-1), true_NK.reshape(-1))
    return tuple(
        best_threshold(chances_NK[:, place], true_NK[:, place]) if true_NK[:, place].sum() >= _ENOUGH else common
        for place in range(chances_NK.shape[1])
    )


def mean_log_chance(chances_NK: Floats, true_NK: Bools) -> float:
    """The mean log-probability of what is true, over texts and labels."""
    return float(np.log(np.maximum(np.where(true_NK, chances_NK, 1 - chances_NK), 1e-12)).mean())


def several_scores(true_NK: Bools, guessed_NK: Bools) -> dict[str, float]:
    """F1 over all decisions and as the mean over labels that occur, and the share of texts whose labels are all right."""
    statistics_N3K = _statistics(true_NK, guessed_NK)
    return {
        "micro_f1": float(_micro_f1(statistics_N3K.sum(0).sum(-1))),
        "macro_f1": float(_macro_f1(statistics_N3K.sum(0))),
        "exact_match": float((true_NK == guessed_NK).all(1).mean()) if len(true_NK) else 0.0,
    }


def _statistics(true_NK: Bools, guessed_NK: Bools) -> Floats:
    """[N, 3, K]: right, guessed, true."""
    return np.stack((true_NK & guessed_NK, guessed_NK, true_NK), 1).astype(np.float64)


def _micro_f1(sums: Floats) -> Floats:
    """Of right, guessed and true in the last axis."""
    return ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


def _macro_f1(sums_3K: Floats) -> Floats:
    f1_K = _micro_f1(np.moveaxis(sums_3K, -2, -1))
    seen_K = sums_3K[..., 1:, :].sum(-2) > 0
    return ratio((f1_K * seen_K).sum(-1), seen_K.sum(-1))


class ClassifySeveral(Classify):
    """As ``Classify``, with a sigmoid in the place of the softmax."""

    @property
    def metric(self) -> str:
        return self.config.metric or "micro_f1"

    @property
    def thresholds_K(self) -> Floats:
        return np.asarray(self.config.thresholds or [USUAL] * len(self.config.labels))

    def learn_from(self, examples: Sequence[TextExample]) -> None:
        """Nothing is weighted: thresholds do that."""

    def item(self, example: TextExample, number: int) -> Item:
        target = None if example.labels is None else self.indicators([example])[0].astype(np.float32)
        return Item(tuple(self._rows(example)), target, number)

    def indicators(self, examples: Sequence[TextExample]) -> Bools:
        """[N, K]: which labels are true."""
        found = np.zeros((len(examples), len(self.number)), bool)
        for row, example in enumerate(examples):
            found[row, [self.number[label] for label in example.labels or () if label in self.number]] = True
        return found

    def _targets(self, items: Sequence[Item]) -> NDArray[np.float32]:
        return np.stack([item.target for item in items])

    def loss(self, network: TaskNetwork, batch: Batch) -> Losses:
        """The sum over labels, so that a text counts as in ``Classify``."""
        scores = network.text_scores(batch.tensors, batch.counts["task"])
        labels = batch.tensors["labels"]
        return Losses({"task": functional.binary_cross_entropy_with_logits(scores, labels, reduction="sum")})

    def probabilities(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.sigmoid()

    def array_probabilities(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        return arrays.sigmoid(scores)

    def prediction(self, example: TextExample, item: Item, output: NDArray[np.float32]) -> Prediction:
        """The labels above their thresholds, the most probable first."""
        order = np.argsort(-output, kind="stable").tolist()
        names, above_K = self.config.labels, output >= self.thresholds_K
        probabilities = {names[place]: float(output[place]) for place in order}
        return {"labels": [names[place] for place in order if above_K[place]], "probabilities": probabilities}

    def chances(self, predictions: Sequence[Prediction]) -> Floats:
        """[N, K] of what was predicted, in the order of the labels."""
        rows = [[found["probabilities"][label] for label in self.config.labels] for found in predictions]
        return np.asarray(rows, np.float64).reshape(-1, len(self.config.labels))

    def cut(self, predictions: Sequence[Prediction], thresholds: Sequence[float]) -> list[Prediction]:
        """The same probabilities with other thresholds."""
        least = dict(zip(self.config.labels, thresholds, strict=True))
        return [
            {**found, "labels": [name for name, chance in found["probabilities"].items() if chance >= least[name]]}
            for found in predictions
        ]

    def thresholds(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> tuple[float, ...]:
        """Those of the settings, or the best for these predictions."""
        return self.config.thresholds or find_thresholds(self.chances(predictions), self.indicators(examples))

    def recut(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> list[Prediction]:
        """With the thresholds that suit these predictions: early in training hardly any probability reaches one half."""
        return self.cut(predictions, self.thresholds(examples, predictions))

    def score(
        self, examples: Sequence[TextExample], items: Sequence[Item], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        return several_scores(*self._both(examples, predictions))

    def interval(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> tuple[str, Interval]:
        statistics_N3K = _statistics(*self._both(examples, predictions))
        num_labels = statistics_N3K.shape[-1]
        if self.metric == "macro_f1":
            flat = statistics_N3K.reshape(-1, 3 * num_labels)
            return self.metric, interval(flat, lambda sums: _macro_f1(sums.reshape(-1, 3, num_labels)))
        return "micro_f1", interval(statistics_N3K.sum(-1), _micro_f1)

    def by_label(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> dict[str, LabelScore]:
        right_K, guessed_K, true_K = _statistics(*self._both(examples, predictions)).sum(0)
        precision_K, recall_K = ratio(right_K, guessed_K), ratio(right_K, true_K)
        f1_K = harmonic(precision_K, recall_K)
        return {
            label: LabelScore(
                precision=float(precision_K[place]),
                recall=float(recall_K[place]),
                f1=float(f1_K[place]),
                true=int(true_K[place]),
                guessed=int(guessed_K[place]),
            )
            for place, label in enumerate(self.config.labels)
        }

    def _both(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> tuple[Bools, Bools]:
        guessed_NK = np.zeros((len(predictions), len(self.number)), bool)
        for row, found in enumerate(predictions):
            guessed_NK[row, [self.number[label] for label in found["labels"]]] = True
        return self.indicators(examples), guessed_NK
