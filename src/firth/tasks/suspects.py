"""Labels that are probably wrong, by what cross-validation says of them (confident learning, Northcutt et al. 2021).

An example is suspected if a model that has not seen it gives another class at least the probability that this class gets on
average where it is the label. Of these the ones with the least probability for their own label come first.

N examples, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from firth.data.labelled import TextExample
from firth.tasks.config import TaskConfig
from firth.tasks.counts import fit_counts
from firth.tasks.linear import NUM_FOLDS, Floats, Ints, stratified_folds


@dataclass(frozen=True)
class Suspect:
    """An example by its number, its label, the one that it looks like, and the probability of both."""

    number: int
    label: str
    likely: str
    label_prob: float
    likely_prob: float


def suspect_labels(outside_NK: Floats, targets_N: Ints, labels: Sequence[str]) -> list[Suspect]:
    """From probabilities that were given by models which had not seen the example."""
    own_N = outside_NK[np.arange(len(targets_N)), targets_N]
    usual_K = np.asarray([own_N[targets_N == k].mean() if (targets_N == k).any() else 2.0 for k in range(len(labels))])
    sure_NK = np.where(outside_NK >= usual_K, outside_NK, 0.0)
    sure_NK[np.arange(len(targets_N)), targets_N] = 0.0
    likely_N = sure_NK.argmax(1)
    found = np.flatnonzero((sure_NK.max(1) > own_N) & (sure_NK.max(1) > 0))
    return [
        Suspect(
            number,
            labels[targets_N[number]],
            labels[likely_N[number]],
            float(own_N[number]),
            float(outside_NK[number, likely_N[number]]),
        )
        for number in found[np.argsort(own_N[found], kind="stable")].tolist()
    ]


def find_suspects(examples: Sequence[TextExample]) -> list[Suspect]:
    """By counts. Nothing where these know too little: fewer than half of what is beyond the most frequent label."""
    labels = sorted({str(example.label) for example in examples})
    if len(labels) < 2 or len(examples) < 4 * NUM_FOLDS:
        return []
    targets_N = np.asarray([labels.index(str(example.label)) for example in examples])
    folds_N = stratified_folds(targets_N.tolist(), NUM_FOLDS, 0)
    pairs = any(example.second is not None for example in examples)
    _, linear = fit_counts(TaskConfig(task="classify", labels=tuple(labels)), examples, pairs, folds_N)
    right = (linear.outside.argmax(1) == targets_N).mean()
    majority = np.bincount(targets_N).max() / len(targets_N)
    return suspect_labels(linear.outside, targets_N, labels) if right - majority >= (1 - majority) / 2 else []
