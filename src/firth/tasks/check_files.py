"""A look at labelled files before anything is trained on them."""

from collections.abc import Mapping
from pathlib import Path

from firth.tasks.checking import check_lines
from firth.tasks.config import task_config, writing_config
from firth.tasks.data import Reading, read_task
from firth.tasks.write.data import describe_writing


def check_files(
    task: str, train: Path, dev: Path | None, reading: Reading, settings: Mapping[str, object]
) -> list[str]:
    """Labels, counts, lengths and problems, as lines for a terminal; of writing, the first example."""
    if task == "write":
        return describe_writing(writing_config(settings)[0], train, dev, reading)
    return check_lines(read_task(task_config(task).task, train, dev, reading).check)
