"""How a served run was trained: its scores and the curve of its training."""

from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.run import Run, RunRecord
from firth.training.history import read_history

_NOT_SHOWN = ("event", "steps")


def run_summary(folder: Path, most: int = 400) -> dict[str, Any]:
    """Recipe, kind, corpus, scores and curve (at most so many points of it); nothing is known of what is no run."""
    try:
        run = Run.find(folder)
    except FirthError:
        run = None
    record = None if run is None else run.record
    lines = [_numbers(line) for line in read_history(_history(folder, record)) if "step" in line]
    stride = -(-len(lines) // most) if lines else 1
    heldout = [line for line in lines if "heldout_loss" in line]
    curve = [line for place, line in enumerate(lines) if place % stride == 0 or place == len(lines) - 1]
    if stride > 1:
        curve = sorted({id(line): line for line in (*curve, *heldout[-most:])}.values(), key=lambda line: line["step"])
    return {
        "recipe": None if record is None else record.recipe,
        "kind": None if record is None else record.kind,
        "corpus": None if record is None or record.corpus is None else record.corpus.path,
        "scores": {} if record is None else record.metrics,
        "curve": curve,
    }


def _history(folder: Path, record: RunRecord | None) -> Path:
    """That of a task belongs to the seed that was best."""
    best = None if record is None or record.task is None else record.task.best
    return folder / "metrics.jsonl" if best is None else folder / "seeds" / str(best) / "metrics.jsonl"


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in values.items()
        if name not in _NOT_SHOWN and isinstance(value, int | float) and not isinstance(value, bool)
    }
