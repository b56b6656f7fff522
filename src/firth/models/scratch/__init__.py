"""No pre-training: random vectors for the words of a task's own texts, learned with the task."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec

if TYPE_CHECKING:
    from firth.models.shared.model import Model


def _load(folder: Path) -> "Model":
    from firth.models.shared.static import ScratchModel

    return ScratchModel.load(folder)


SPEC = ModelSpec(name="scratch", load=_load, is_table=True)
