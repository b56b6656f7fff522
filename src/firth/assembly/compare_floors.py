"""The floors of a comparison as rows of its table, scored as everything else is."""

import time
from pathlib import Path
from typing import Any

from firth.assembly.compare_tasks import Labels
from firth.assembly.task_model import build_task
from firth.core.files import write_json
from firth.core.task_configs import TaskConfig
from firth.probes.comparison import Row
from firth.probes.floors import floors_of
from firth.representations.scratch import ScratchRepresentation
from firth.tasks.predicting import Task

FLOORS = "floors"


def score_by(config: TaskConfig) -> Task:
    """The task without a model: how predictions are scored."""
    return build_task(config, ScratchRepresentation([], 1).reader())


def floor_rows(labels: Labels, out: Path) -> tuple[str, list[Row]]:
    """The name of the score, and the floors. They take seconds, so they are fitted every time."""
    import sklearn.feature_extraction.text
    import sklearn.linear_model  # noqa: F401  (loaded before the clock is started)

    task, rows = score_by(labels.config), []
    metric = task.metric
    (out / FLOORS).mkdir(exist_ok=True)
    for name, fit in floors_of(labels.config.task, labels.data.train, labels.data.dev):
        begun = time.perf_counter()
        floor = fit()
        fitted = time.perf_counter()
        predictions = floor.predict(labels.test)
        ended = time.perf_counter()
        metric, (low, high) = task.interval(labels.test, predictions)
        items: list[Any] = []
        path = out / FLOORS / f"{name.replace(' ', '-')}.json"
        write_json(path, predictions)
        rows.append(
            Row(
                name,
                "floor",
                (task.score(labels.test, items, predictions)[metric],),
                low,
                high,
                parameters=floor.num_parameters,
                finetune_s=fitted - begun,
                ms_per_text=1000 * (ended - fitted) / len(labels.test),
                folder=str(path.relative_to(out)),
            )
        )
    return metric, rows
