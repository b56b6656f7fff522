"""The models that are served, by name, with the summaries of their runs; and the static files of the web page."""

from __future__ import annotations

import contextlib
import mimetypes
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from firth.api.using import load
from firth.core.errors import FirthError, nearest
from firth.core.run import Run, RunRecord
from firth.corpus.pairs import corpus_info
from firth.serve.guard import Problem
from firth.training.checkpoints import read_history

if TYPE_CHECKING:
    from firth.models.shared.model import Model

_NOT_SHOWN = ("event", "steps")
_BYTES_PER_TOKEN = 3  # an estimate: letters of a subword, bytes of a Chinese character
_FLOPS = 1e11  # first guesses of how fast the machine is; the worker corrects them by what work takes
_TOKEN_S, _STEP_S, _ROW_S = (
    1e-6,
    3e-4,
    2e-5,
)  # the least time of a token that is read, a step of a search, a row of a step
_WEIGHT_S, _LOOK_S = 4e-10, 1e-10  # to read a weight from memory, and to multiply by a number of the source


class RunSummary(TypedDict):
    """How a run was trained; empty for a model that is no run."""

    recipe: str | None
    kind: str | None
    corpus: str | None  # its path
    scores: Mapping[str, float]
    curve: list[dict[str, float]]  # metrics by step


def run_summary(folder: Path, most: int = 400) -> RunSummary:
    """Recipe, kind, corpus, scores and the training curve with about ``most`` points."""
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
    """The file of metrics; that of a task is the one of its best seed."""
    best = None if record is None or record.task is None else record.task.best
    return folder / "metrics.jsonl" if best is None else folder / "seeds" / str(best) / "metrics.jsonl"


def _numbers(values: Mapping[str, object]) -> dict[str, float]:
    return {
        name: value
        for name, value in values.items()
        if name not in _NOT_SHOWN and isinstance(value, int | float) and not isinstance(value, bool)
    }


def estimate_tokens(texts: Sequence[str]) -> int:
    """Roughly how many tokens some texts have, special tokens included, without a tokenizer."""
    return sum(2 + len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN for text in texts)


@dataclass(frozen=True)
class Served:
    """A loaded model with what the server shows of it."""

    name: str
    model: Model
    abilities: Sequence[str]
    facts: Mapping[str, object]  # ``Model.describe()`` with these abilities
    summary: RunSummary
    corpus: Path | None  # the corpus it was trained on, if it still exists
    report: bytes | None  # its HTML report

    def can(self, ability: str, images: bool = False) -> bool:
        """Whether it has the ability, for images or for texts."""
        return ability in self.abilities and images == bool(self.facts["images"])

    def read_seconds(self, num_tokens: int) -> float:
        """About how long the model reads so many tokens."""
        return num_tokens * max(2 * self._num_weights / _FLOPS, _TOKEN_S)

    def search_seconds(self, source_len: int, steps: int, rows: int) -> float:
        """About how long a search of so many steps takes, which are done one after another; in each of them every row
        looks at the whole source."""
        row_s = _ROW_S + 2 * self._num_weights / _FLOPS + 4 * source_len * self.model.dim * _LOOK_S
        return steps * (_STEP_S + self._num_weights * _WEIGHT_S + rows * row_s)

    @property
    def _num_weights(self) -> int:
        """That each token is multiplied with: tables of tokens are only looked up, and static vectors are nothing else."""
        if not self.model.num_layers and not self.facts.get("task"):
            return 0
        return max(self.model.num_parameters - (self.model.vocab_size or 0) * self.model.dim, 0)

    def warning(self, texts: Sequence[str]) -> str | None:
        """A sentence where these texts are largely unknown to the model."""
        return self.model.unknown_warning(texts)


class ServedModels:
    """Finds a model by name or by ability. Names from requests are only looked up here, never used as paths."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.by_name = {one.name: one for one in served}

    def find(self, name: str | None, ability: str, images: bool = False) -> Served:
        """The named model, or the first one with the ability. A text is never given to a model of images, which would take it
        for a path."""
        asked = f"{ability} images" if images else ability
        if name is None:
            for one in self.by_name.values():
                if one.can(ability, images):
                    return one
            raise Problem(422, f"no model that is served can do this ({asked}): start the server with one that can")
        if name not in self.by_name:
            raise Problem(404, f"there is no model '{name[:60]}': {nearest(name, list(self.by_name))}")
        if not self.by_name[name].can(ability, images):
            able = [one.name for one in self.by_name.values() if one.can(ability, images)]
            remedy = f"ask {', '.join(able)}" if able else "none that is served can"
            reads = " reads images: give these; it" if self.by_name[name].facts["images"] and not images else ""
            raise Problem(422, f"the model '{name}'{reads} cannot do this ({asked}): {remedy}")
        return self.by_name[name]


def load_models(paths: Sequence[Path]) -> ServedModels:
    """Loads every model."""
    served: list[Served] = []
    for path in paths:
        served.append(_serve(path, [one.name for one in served]))
    return ServedModels(served)


def _serve(path: Path, taken: Sequence[str]) -> Served:
    """Loads a model and names it after its folder; a task whose name is taken adds its kind: ``bert-classify``."""
    model, name = load(path), path.resolve().name
    facts, summary = model.describe(), run_summary(path)
    name = free_name(f"{name}-{facts['task']}" if name in taken and facts["task"] else name, taken)
    corpus, abilities = _text_corpus(summary["corpus"]), list(model.abilities)
    if corpus is not None and "layers" in abilities and summary["kind"] == "pretrain":
        abilities.append("occurrences")
    report = path / "report.html"
    html = report.read_bytes() if report.is_file() else None
    return Served(name, model, abilities, {**facts, "abilities": abilities}, summary, corpus, html)


def _text_corpus(place: str | None) -> Path | None:
    """The corpus of a run, if it still exists and holds text (not pairs)."""
    with contextlib.suppress(FirthError):
        if place and corpus_info(Path(place), verify=False).kind == "text":
            return Path(place)
    return None


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """The name, with the first free number appended if it is taken."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def find_runs(folder: Path) -> list[Path]:
    """Every finished run below a folder, except runs inside runs."""
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
    """Every file of the web page with its MIME type, by path below ``page/``. Read once: no request opens a file."""
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
