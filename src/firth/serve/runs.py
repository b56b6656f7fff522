"""The table of runs: what each is, what it was made from, its settings, scores and curve; those in training, too."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from firth.core.errors import FirthError
from firth.core.run import Run, RunRecord
from firth.retrieval.store import INDEX
from firth.training.checkpoints import read_history

_NOT_SHOWN = ("event", "steps")
_ALIVE_S = 120.0  # a training that has written nothing for so long has stopped
_MAX_RUNS = 500
Status = Literal["finished", "training", "stopped"]


class RunSummary(TypedDict):
    """How a run was trained; empty for a model that is no run."""

    recipe: str | None
    kind: str | None
    corpus: str | None  # its path
    scores: Mapping[str, float]
    curve: list[dict[str, float]]  # metrics by step


def run_summary(folder: Path, most: int = 400) -> RunSummary:
    """Recipe, kind, corpus, scores and the training curve with about ``most`` points."""
    record = _record(folder)
    return {
        "recipe": None if record is None else record.recipe,
        "kind": None if record is None else record.kind,
        "corpus": None if record is None or record.corpus is None else record.corpus.path,
        "scores": {} if record is None else record.metrics,
        "curve": _curve(_lines(folder, record), most),
    }


def run_row(folder: Path, name: str) -> dict[str, object]:
    """A row of the table as plain data. Paths of this machine are private: only the last part of each is named."""
    record = _record(folder)
    lines = _lines(folder, record)
    if record is None:
        kind = "search index" if (folder / INDEX).is_file() else None
        report = (folder / "report.html").is_file()
        return {**_EMPTY, "name": name, "kind": kind, "bytes": _size(folder), "report": report}
    last = next((line for line in reversed(lines) if line.get("event") == "train"), {})
    samples = next((line["texts"] for line in reversed(lines) if line.get("event") == "samples"), [])
    task = record.task
    return {
        "name": name,
        "recipe": record.recipe,
        "model": record.model,
        "kind": record.kind,
        "status": _status(folder, record),
        "base": None if record.base is None else Path(record.base).name,
        "corpus": None if record.corpus is None else Path(record.corpus.path).name,
        "step": last.get("step") if not record.finished else record.steps,
        "steps": last.get("steps", record.steps),
        "seconds": record.seconds or last.get("seconds"),
        "tokens": record.tokens or last.get("tokens"),
        "parameters": record.parameters or _vector_parameters(record) or None,
        "bytes": _size(folder),
        "metric": task.metric if task is not None and task.metric else None,
        "interval": None if task is None or task.interval is None else [task.interval.low, task.interval.high],
        "scores": record.metrics,
        "curve": _curve(lines, 400),
        "samples": samples,
        "settings": dict(_flat(record.config)),
        "report": (folder / "report.html").is_file(),
    }


_EMPTY: dict[str, object] = {
    **dict.fromkeys(("recipe", "model", "kind", "base", "corpus", "step", "steps", "seconds", "tokens", "parameters")),
    "status": "finished",
    "metric": None,
    "interval": None,
    "scores": {},
    "curve": [],
    "samples": [],
    "settings": {},
}


def find_runs(folder: Path, unfinished: bool = False) -> list[Path]:
    """Every finished run below a folder, except runs inside runs; with ``unfinished`` all of them."""
    found = []
    for place, folders, names in os.walk(folder):
        here = Path(place)
        if "firth.json" in names or "corpus.json" in names:
            folders.clear()
        if "firth.json" in names:
            with contextlib.suppress(FirthError):
                if Run.open(here).record.finished or unfinished:
                    found.append(here)
    return sorted(found)[:_MAX_RUNS]


def _record(folder: Path) -> RunRecord | None:
    try:
        run = Run.find(folder)
    except FirthError:
        return None
    return None if run is None else run.record


def _lines(folder: Path, record: RunRecord | None) -> list[dict[str, object]]:
    """The metrics; those of a task are the ones of its best seed, while it is trained of the latest."""
    if record is None or record.task is None:
        return read_history(folder / "metrics.jsonl")
    if record.task.best is not None:
        return read_history(folder / "seeds" / str(record.task.best) / "metrics.jsonl")
    latest = sorted((folder / "seeds").glob("*/metrics.jsonl"), key=lambda path: path.stat().st_mtime)
    return read_history(latest[-1]) if latest else []


def _curve(found: Sequence[dict[str, object]], most: int) -> list[dict[str, float]]:
    lines = [_numbers(line) for line in found if "step" in line and line.get("event") != "samples"]
    stride = -(-len(lines) // most) if lines else 1
    heldout = [line for line in lines if "heldout_loss" in line]
    curve = [line for place, line in enumerate(lines) if place % stride == 0 or place == len(lines) - 1]
    if stride > 1:
        curve = sorted({id(line): line for line in (*curve, *heldout[-most:])}.values(), key=lambda line: line["step"])
    return curve


def _status(folder: Path, record: RunRecord) -> Status:
    if record.finished:
        return "finished"
    written = [*folder.glob("*"), *folder.glob("seeds/*/*")]
    latest = max((path.stat().st_mtime for path in written), default=0.0)
    return "training" if time.time() - latest < _ALIVE_S else "stopped"


def _size(folder: Path) -> int:
    """Bytes of the model's files on the disk; checkpoints are not part of it, and holes in files take no room."""
    found = (
        [folder]
        if folder.is_file()
        else [path for path in folder.rglob("*") if not {"checkpoints", ".served"} & set(path.parts)]
    )
    facts = [path.stat() for path in found if path.is_file()]
    return sum(min(one.st_size, getattr(one, "st_blocks", one.st_size) * 512) for one in facts)


def _vector_parameters(record: RunRecord) -> int:
    """Of static vectors: those of words and of buckets of n-grams."""
    dim, bucket = record.config.get("dim"), record.config.get("bucket", 0)
    return dim * (record.words + bucket) if isinstance(dim, int) and isinstance(bucket, int) else 0


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _numbers(values: Mapping[str, object]) -> dict[str, float]:
    return {
        name: value
        for name, value in values.items()
        if name not in _NOT_SHOWN and isinstance(value, int | float) and not isinstance(value, bool)
    }
