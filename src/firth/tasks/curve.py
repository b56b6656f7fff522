"""Sample efficiency: the score of a task against the share of its labels that it has learned from (Peters et al. 2018, 5.4).

``learn_from_shares`` trains in memory, for comparisons of representations; ``firth finetune --shares`` does the same as a run.
"""

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from firth.core.records import SharePoint
from firth.core.types import Progress
from firth.models.shared.extra_vectors import ExtraVectors
from firth.reports.charts import line_chart
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData, check_shares, take_share
from firth.tasks.finetune import load_base, train_model


def with_share(data: TaskData, share: float, seed: int) -> TaskData:
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
) -> list[SharePoint]:
    """A point a share, the smallest first.

    ``settings`` for so many examples are complete (``TaskData.configured``, ``default_settings``), so the labels are those of
    all the data, and few examples are read more often. Each seed draws shares of its own, so that the spread is also that of which examples were labelled.
    """
    results = []
    for share in check_shares(shares):
        config = settings(round(share * len(data.train)))
        for number in range(seeds):
            chosen = config.replace(seed=config.seed + number)
            part = with_share(data, share, chosen.seed)
            with tempfile.TemporaryDirectory() as folder:
                _, trainable, _ = train_model(
                    chosen, load_base(base, part, chosen), part, Path(folder), progress, extra_vectors
                )
            assert trainable.best is not None, "sample efficiency needs dev examples"
            results.append((share, len(part.train), trainable.best[trainable.task.metric]))
    return points_of(results)


def points_of(results: Sequence[tuple[float, int, float]]) -> list[SharePoint]:
    """Trainings, each as (share, examples, score), put together by their share."""
    points = []
    for share in sorted({share for share, _, _ in results}):
        own = [(examples, score) for other, examples, score in results if other == share]
        scores = tuple(score for _, score in own)
        points.append(
            SharePoint(
                share=share,
                examples=own[0][0],
                scores=scores,
                mean=statistics.mean(scores),
                deviation=statistics.stdev(scores) if len(scores) > 1 else 0.0,
            )
        )
    return points


def share_chart(curves: Mapping[str, Sequence[SharePoint]], metric: str) -> str:
    """The mean score by the number of labelled examples, a line a name, bars for the spread over seeds."""
    series = {name: [(float(point.examples), point.mean) for point in points] for name, points in curves.items()}
    spread = {name: [point.deviation for point in points] for name, points in curves.items()}
    return line_chart(series, "labelled examples", metric, spread=spread, log_x=True)
