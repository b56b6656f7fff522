"""Sample efficiency: the score of a task against the share of its labels that it has learned from (Peters et al. 2018, 5.4).

``learn_from_shares`` trains in memory, for comparisons of representations; ``firth finetune --shares`` does the same as a run.
"""

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from firth.core.types import Progress
from firth.models.shared.extra_vectors import ExtraVectors
from firth.reports.charts import line_chart
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData, check_shares, take_share
from firth.tasks.finetune import load_base, train_model


def predict_one_in(data: TaskData, share: float, seed: int) -> TaskData:
    """The same dev examples with a share of the training ones."""
    return data if share == 1 else replace(data, train=take_share(data.train, share, seed))


def learn_from_shares(
    settings: Callable[[int], TaskConfig],
    base: str,
    data: TaskData,
    shares: Sequence[float],
    seeds: int = 3,
    extra_vectors: ExtraVectors | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """A point a share, the smallest first: ``share``, ``examples``, ``scores`` of all seeds, ``mean``, ``deviation``.

    ``settings`` for so many examples are complete (``TaskData.configured``, ``default_settings``), so the labels are those of
    all the data, and few examples are read more often. Each seed draws shares of its own, so that the spread is also that of which examples were labelled.
    """
    results = []
    for share in check_shares(shares):
        config = settings(round(share * len(data.train)))
        for number in range(seeds):
            chosen = config.replace(seed=config.seed + number)
            part = predict_one_in(data, share, chosen.seed)
            with tempfile.TemporaryDirectory() as folder:
                _, trainable, _ = train_model(
                    chosen, load_base(base, part, chosen), part, Path(folder), progress, extra_vectors
                )
            assert trainable.best is not None, "sample efficiency needs dev examples"
            results.append({"share": share, "examples": len(part.train), "scores": trainable.best})
            metric = trainable.task.metric
    return points_of(results, metric)


def points_of(results: Sequence[Mapping[str, Any]], metric: str) -> list[dict[str, Any]]:
    """Trainings put together by their share."""
    points = []
    for share in sorted({result["share"] for result in results}):
        own = [result for result in results if result["share"] == share]
        scores = [float(result["scores"][metric]) for result in own]
        points.append(
            {
                "share": share,
                "examples": own[0]["examples"],
                "scores": scores,
                "mean": statistics.mean(scores),
                "deviation": statistics.stdev(scores) if len(scores) > 1 else 0.0,
            }
        )
    return points


def share_chart(curves: Mapping[str, Sequence[Mapping[str, Any]]], metric: str) -> str:
    """The mean score by the number of labelled examples, a line a name, bars for the spread over seeds."""
    series = {name: [(point["examples"], point["mean"]) for point in points] for name, points in curves.items()}
    spread = {name: [point["deviation"] for point in points] for name, points in curves.items()}
    return line_chart(series, "labelled examples", metric, spread=spread, log_x=True)
