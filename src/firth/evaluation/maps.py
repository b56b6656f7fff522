"""Vectors in a plane, to be looked at: words, and one word in several sentences.

N points, D numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.run import Run
from firth.evaluation.occurrences import words_in
from firth.models.shared.model import Model
from firth.training.history import read_history


@dataclass(frozen=True)
class WordMap:
    """Known words with their places in the plane, and words without a vector."""

    words: list[str]
    places: NDArray[np.float64]  # [N, 2]
    missing: list[str]


@dataclass(frozen=True)
class ContextMap:
    """One word in each sentence: where it stands, its place in the plane, and how like the others it is (cosine)."""

    spans: list[tuple[int, int]]
    places: NDArray[np.float64]  # [N, 2]
    similarity: NDArray[np.float64]  # [N, N]


def principal_plane(units_ND: NDArray[np.float32]) -> NDArray[np.float64]:
    """The first two principal components of each row; what leans most to one side is put on the positive one, so
    that the same rows always give the same picture."""
    centred = units_ND.astype(np.float64) - units_ND.mean(0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    found = np.zeros((len(units_ND), 2))
    width = min(2, len(sizes))
    found[:, :width] = left[:, :width] * sizes[:width]
    peaks = found[np.abs(found).argmax(0), [0, 1]]
    return found * np.where(peaks < 0, -1.0, 1.0)


def map_words(model: Model, words: Sequence[str]) -> WordMap:
    """Words by the principal components of their vectors, each brought to length 1."""
    distinct = list(dict.fromkeys(words))
    vectors = model.encode(distinct)
    lengths = np.linalg.norm(vectors, axis=1)
    known = np.flatnonzero(lengths > 0)
    if len(known) < 2:
        raise FirthError("a map needs at least two words that the model knows: give other words")
    units = vectors[known] / lengths[known, None]
    missing = [distinct[place] for place in np.flatnonzero(lengths == 0)]
    return WordMap([distinct[place] for place in known], principal_plane(units), missing)


def map_context(model: Model, sentences: Sequence[tuple[str, str]], layer: int = -1) -> ContextMap:
    """The same, or another, word in several sentences, given as (text, word)."""
    spans, units = [], []
    for (text, word), layers in zip(sentences, model.layers_of([text for text, _ in sentences]), strict=True):
        found = words_in(text, layers, layer)
        place = found.find(word)
        spans.append(found.spans[place])
        units.append(found.units[place])
    units_ND = np.stack(units)
    similarity = units_ND.astype(np.float64) @ units_ND.T.astype(np.float64)
    return ContextMap(spans, principal_plane(units_ND), similarity)


_NOT_SHOWN = ("event", "steps")


def run_summary(folder: Path, most: int = 400) -> dict[str, Any]:
    """Recipe, kind, corpus, scores and curve (at most so many points of it); empty facts without ``firth.json``."""
    try:
        facts = Run.open(folder).facts if folder.is_dir() else {}
    except FirthError:
        facts = {}
    lines = [_numbers(line) for line in read_history(_history(folder, facts)) if "step" in line]
    stride = -(-len(lines) // most) if lines else 1
    heldout = [line for line in lines if "heldout_loss" in line]
    curve = [line for place, line in enumerate(lines) if place % stride == 0 or place == len(lines) - 1]
    if stride > 1:
        curve = sorted({id(line): line for line in (*curve, *heldout[-most:])}.values(), key=lambda line: line["step"])
    return {
        "recipe": facts.get("recipe"),
        "kind": facts.get("kind"),
        "corpus": (facts.get("corpus") or {}).get("path"),
        "scores": _numbers(facts.get("metrics") or {}),
        "curve": curve,
    }


def _history(folder: Path, facts: dict[str, Any]) -> Path:
    """That of a task belongs to the seed that was best."""
    best = facts.get("best")
    return folder / "metrics.jsonl" if best is None else folder / "seeds" / str(best) / "metrics.jsonl"


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in values.items()
        if name not in _NOT_SHOWN and isinstance(value, int | float) and not isinstance(value, bool)
    }
