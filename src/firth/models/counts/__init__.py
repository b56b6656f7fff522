"""Counting: TF-IDF of the words and characters of a task's own texts, for a linear model to read."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec

if TYPE_CHECKING:
    from firth.models.shared.model import Model


def _load(folder: Path) -> "Model":
    from firth.models.counts.model import CountsModel

    return CountsModel.load(folder)


SPEC = ModelSpec(name="counts", load=_load)
