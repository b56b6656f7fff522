"""What the public functions share: paths, models by path, settings by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.errors import FirthError

if TYPE_CHECKING:
    from firth.models.shared.model import Model

AnyPath = str | Path
Settings = Mapping[str, object]


def load(path: AnyPath) -> Model:
    """Loads a trained model.

    Args:
        path: A run, a Hugging Face directory, an exported folder, or a file of word vectors.

    Example::

        model = firth.load("runs/bert")
        model.encode(["A sentence.", "Another one."])  # float32 [2, dim]
    """
    from firth.exporters.loading import load_any

    return load_any(Path(path))


def loaded(model: AnyPath | Model) -> Model:
    """The model itself, or the one at a path."""
    return load(model) if isinstance(model, str | Path) else model


def optional_path(path: AnyPath | None) -> Path | None:
    return None if path is None else Path(path)


def as_paths(paths: AnyPath | Sequence[AnyPath]) -> list[str]:
    """One path or several, as strings."""
    return [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]


def collect(settings: Settings | None, keywords: Settings, **usual: object) -> dict[str, object]:
    """All settings of a call: ``usual`` keywords count where they are not None, the others as they are."""
    if settings is not None and not isinstance(settings, Mapping):
        raise FirthError('settings are names with values, for example {"model.num_layers": 2}: give a dictionary')
    given = {name: value for name, value in usual.items() if value is not None}
    return {**given, **keywords, **(settings or {})}
