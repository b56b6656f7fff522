"""The models that are served, by name."""

from __future__ import annotations

import contextlib
import mimetypes
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.api.using import load
from firth.core.errors import FirthError, nearest
from firth.core.run import Run, RunRecord
from firth.corpus.pairs import corpus_info
from firth.serve.guard import Problem
from firth.training.checkpoints import read_history

if TYPE_CHECKING:
    from firth.models.shared.model import Model


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


@dataclass(frozen=True)
class Served:
    """A model with what is told about it."""

    name: str
    model: Model
    facts: dict[str, Any]  # as the model's description
    summary: dict[str, Any]  # of its run
    corpus: Path | None  # that it was trained on, if it is still there
    report: bytes | None

    def can(self, ability: str) -> bool:
        return ability in self.facts["abilities"]


class ServedModels:
    """A name or an ability in, a model out. Names come from requests and are only ever looked up here."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.by_name = {one.name: one for one in served}

    def find(self, name: str | None, ability: str) -> Served:
        """The named model, or the first that can do it."""
        if name is None:
            for one in self.by_name.values():
                if one.can(ability):
                    return one
            raise Problem(422, f"no model that is served can do this ({ability}): start the server with one that can")
        if name not in self.by_name:
            raise Problem(404, f"there is no model '{name[:60]}': {nearest(name, list(self.by_name))}")
        if not self.by_name[name].can(ability):
            able = [one.name for one in self.by_name.values() if one.can(ability)]
            remedy = f"ask {', '.join(able)}" if able else "none that is served can"
            raise Problem(422, f"the model '{name}' cannot do this ({ability}): {remedy}")
        return self.by_name[name]


def load_models(paths: Sequence[Path]) -> ServedModels:
    """Loads every model."""
    served: list[Served] = []
    for path in paths:
        served.append(_serve(path, [one.name for one in served]))
    return ServedModels(served)


def _serve(path: Path, taken: Sequence[str]) -> Served:
    """A task that has the name of its base says what it does: ``bert-classify``."""
    model, name = load(path), path.resolve().name
    facts, summary = model.describe(), run_summary(path)
    name = free_name(f"{name}-{facts['task']}" if name in taken and facts["task"] else name, taken)
    corpus = _plain_text(summary.pop("corpus"))
    if corpus is not None and "layers" in facts["abilities"] and summary["kind"] == "pretrain":
        facts["abilities"].append("occurrences")
    report = path / "report.html"
    return Served(name, model, facts, summary, corpus, report.read_bytes() if report.is_file() else None)


def _plain_text(place: Any) -> Path | None:
    """The corpus that a run names, if it is still there and has sentences (not pairs of them) to look into."""
    with contextlib.suppress(FirthError):
        if isinstance(place, str) and place and corpus_info(Path(place), verify=False).kind == "text":
            return Path(place)
    return None


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """The name itself, or with the first number that makes it a new one."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def find_runs(folder: Path) -> list[Path]:
    """Every finished run below a folder; what is inside a run belongs to it."""
    found = []
    for place, folders, names in os.walk(folder):
        here = Path(place)
        if "firth.json" in names or "corpus.json" in names:
            folders.clear()
        if "firth.json" in names:
            with contextlib.suppress(FirthError):
                if Run.open(here).record.finished:
                    found.append(here)
    return sorted(found)


def read_page() -> dict[str, tuple[bytes, str]]:
    """Every file of the page with its type, by its path below ``page/``; read once, so that no request names a file."""
    return {name: (part.read_bytes(), _type(name)) for name, part in _walk(files("firth.serve") / "page", "")}


def _walk(folder: Traversable, before: str) -> Iterator[tuple[str, Traversable]]:
    for part in sorted(folder.iterdir(), key=lambda one: one.name) if folder.is_dir() else ():
        if part.is_dir():
            yield from _walk(part, f"{before}{part.name}/")
        else:
            yield f"{before}{part.name}", part


def _type(name: str) -> str:
    found = mimetypes.guess_type(name)[0] or "application/octet-stream"
    found = "text/javascript" if found == "application/javascript" else found
    return f"{found}; charset=utf-8" if found.startswith("text/") else found
