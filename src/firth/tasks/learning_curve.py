"""Whether more labels would help: the score against the number of labels, by the linear model on the frozen features.

In cross-validation the model learns from an eighth, a quarter, a half and all of the examples outside of a fold (nested shares).
The error is then fitted by α + β n^-γ (Cortes et al. 1993), and read off at twice the labels.

N examples.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from firth.core.run import CurvePoint, LearningCurve
from firth.core.types import Prediction
from firth.tasks.data import nested_order, strata
from firth.tasks.linear import Ints
from firth.tasks.network import Head
from firth.tasks.several import ClassifySeveral
from firth.tasks.training import Item, Task

Outputs = NDArray[np.floating]
SHARES = (0.125, 0.25, 0.5, 1.0)
_FEWEST = 40  # examples: fewer say nothing of a quarter of them
_POWERS = (0.25, 0.5, 0.75, 1.0, 1.5)
_MOST_S = 20.0


class Fits(Protocol):
    """A linear model that can be fitted again on some of the examples."""

    def head_of(self, inside_N: NDArray[np.bool_]) -> Head: ...

    def outputs_of(self, head: Head, numbers: Ints) -> Mapping[int, Outputs]: ...


def predictions_of(task: Task, examples: Sequence[Any], outputs: Mapping[int, Outputs]) -> dict[int, Prediction]:
    """By the number of an example."""
    nothing = Item((), None, 0)
    return {one: task.prediction(examples[one], nothing, output.astype(np.float32)) for one, output in outputs.items()}


def learning_curve(
    fits: Fits,
    task: Task,
    examples: Sequence[Any],
    folds_N: Ints,
    budget_s: float,
    name: str,
    seed: int = 0,
) -> LearningCurve | None:
    """None where there are too few examples, or where it would take more than a twentieth of the budget."""
    if len(examples) < _FEWEST:
        return None
    order_N = nested_order(strata(examples), seed)
    found: dict[float, dict[int, Prediction]] = {share: {} for share in SHARES}
    begun, sizes = time.perf_counter(), []
    folds = np.unique(folds_N).tolist()
    for number, fold in enumerate(folds):
        inside = order_N[folds_N[order_N] != fold]
        sizes.append(len(inside))
        for share in reversed(SHARES):  # what takes longest says first whether there is time
            inside_N = np.zeros(len(examples), bool)
            inside_N[inside[: max(1, round(share * len(inside)))]] = True
            outputs = fits.outputs_of(fits.head_of(inside_N), np.flatnonzero(folds_N == fold))
            found[share] |= predictions_of(task, examples, outputs)
            if time.perf_counter() - begun > min(_MOST_S, budget_s / 20) and not number:
                return None
        spent = time.perf_counter() - begun
        if spent * (number + 2) / (number + 1) > min(_MOST_S, budget_s / 20):
            break
    usual = sum(sizes) / len(sizes)
    points = [CurvePoint(examples=round(share * usual), score=_score(task, examples, found[share])) for share in SHARES]
    now, twice = predict_scores(points, (len(examples), 2 * len(examples)))
    return LearningCurve(
        name=name, metric=task.metric, points=tuple(points), examples=len(examples), fitted=now, predicted=twice
    )


def _score(task: Task, examples: Sequence[Any], found: Mapping[int, Prediction]) -> float:
    """Several labels with the thresholds that suit the predictions best."""
    judged, predictions = [examples[number] for number in found], list(found.values())
    if isinstance(task, ClassifySeveral):
        predictions = task.recut(judged, predictions)
    return task.score(judged, [], predictions)[task.metric]


def predict_scores(points: Sequence[CurvePoint], sizes: Sequence[int]) -> list[float]:
    """What the fitted curve says for so many examples; scores neither fall with more of them nor pass 1."""
    n_P = np.asarray([point.examples for point in points], np.float64)
    errors_P = 1 - np.asarray([point.score for point in points])
    weights_P = np.sqrt(n_P / n_P.max())  # more examples, less chance
    best: tuple[float, float, float, float] | None = None
    for power in _POWERS:
        columns = np.stack((np.ones_like(n_P), (n_P / n_P.max()) ** -power), 1)
        alpha, beta = _least_squares(columns, errors_P, weights_P)
        loss = float((weights_P**2 * (columns @ [alpha, beta] - errors_P) ** 2).sum())
        if best is None or loss < best[0] - 1e-12:
            best = loss, alpha, beta, power
    assert best is not None
    _, alpha, beta, power = best
    return [float(1 - (alpha + beta * (size / n_P.max()) ** -power)) for size in sizes]


def _least_squares(
    columns_P2: NDArray[np.float64], errors_P: NDArray[np.float64], weights_P: NDArray[np.float64]
) -> tuple[float, float]:
    """α and β, neither below 0."""
    alpha, beta = np.linalg.lstsq(columns_P2 * weights_P[:, None], errors_P * weights_P, rcond=None)[0].tolist()
    squares_P = weights_P**2
    if beta < 0:
        return float((squares_P * errors_P).sum() / squares_P.sum()), 0.0
    if alpha < 0:
        second_P = columns_P2[:, 1]
        return 0.0, float((squares_P * errors_P * second_P).sum() / (squares_P * second_P**2).sum())
    return alpha, beta
