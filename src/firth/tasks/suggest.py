"""What to label next: texts of a pool that a classifier is unsure of and that differ from each other.

The uncertainty u of a text is the entropy of its class as a share of the largest possible one (of several labels the mean over
labels; Lewis and Gale 1994, Settles 2009). Texts are chosen one after the other: the one with the largest u · d, d being one minus
the cosine to the nearest text that is chosen already, so that a second copy of a text is never worth anything. Only the most
uncertain are compared, and the pool may be larger than memory.

N texts, K labels, D width.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firth.core.errors import FirthError
from firth.core.types import Prediction
from firth.data.tables import output_format, table_writer
from firth.tasks.counts import unit_counts
from firth.tasks.linear import Floats, Ints
from firth.tasks.model import TaskModel
from firth.tasks.predict import predict_source

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_COMPARED, _FEWEST = 10, 500  # times as many as are wanted are compared, at least so many


@dataclass(frozen=True)
class Suggestion:
    """A text, what the model says of it, and how unsure it is (0 to 1)."""

    text: str
    second: str | None
    predicted: str | list[str]
    probability: float
    uncertainty: float


def uncertainty(found: Prediction) -> float:
    """0: it is sure; 1: it knows nothing."""
    chances_K = np.clip(np.asarray(list(found["probabilities"].values())), 1e-12, 1.0)
    if "labels" in found:
        other_K = np.clip(1 - chances_K, 1e-12, 1.0)
        return float(-(chances_K * np.log2(chances_K) + other_K * np.log2(other_K)).mean())
    return float(-(chances_K * np.log(chances_K)).sum() / np.log(len(chances_K))) if len(chances_K) > 1 else 0.0


def choose_diverse(unsure_N: Floats, vectors_ND: "Floats | csr_matrix", num: int) -> Ints:
    """Numbers of texts in the order in which they are chosen; fewer than ``num`` where the others are copies."""
    away_N = np.ones(len(unsure_N))
    chosen: list[int] = []
    while len(chosen) < num:
        worth_N = unsure_N * away_N
        best = int(worth_N.argmax())
        if worth_N[best] <= 1e-9:
            break
        chosen.append(best)
        near = vectors_ND @ vectors_ND[best].T
        cosines_N = np.asarray(near.toarray() if hasattr(near, "toarray") else near).reshape(-1)
        away_N = np.minimum(away_N, np.maximum(1 - cosines_N, 0.0))
    return np.asarray(chosen, np.int64)


def suggest(
    model: TaskModel,
    run: Path,
    pool: str,
    num: int,
    text: str | None = None,
    second: str | None = None,
    encoding: str | None = None,
) -> list[Suggestion]:
    """The ``num`` texts of a file that would teach a classifier most."""
    if model.config.task != "classify":
        raise FirthError(f"{run}: texts are suggested for classify, not {model.config.task}; name such a run")
    kept = _most_unsure(predict_source(model, run, pool, text, second, encoding), max(_COMPARED * num, _FEWEST))
    if not kept:
        raise FirthError(f"{pool}: no texts in it; check the file")
    return _diverse(model, kept, num)


def suggest_texts(model: TaskModel, texts: list[str], num: int) -> list[Suggestion]:
    """The same for texts at hand."""
    if model.config.task != "classify" or model.pairs:
        raise FirthError("texts are suggested for classifiers of single texts: name such a run")
    found = (Prediction({**one, "text": text}) for text, one in zip(texts, model.predict(texts), strict=True))
    kept = _most_unsure(found, max(_COMPARED * num, _FEWEST))
    return _diverse(model, kept, num) if kept else []


def _diverse(model: TaskModel, kept: list[Suggestion], num: int) -> list[Suggestion]:
    texts = [f"{one.text} {one.second or ''}".strip() for one in kept]
    unsure_N = np.asarray([one.uncertainty for one in kept])
    return [kept[number] for number in choose_diverse(unsure_N, _vectors(model, texts), num).tolist()]


def _most_unsure(found: Iterable[Prediction], most: int) -> list[Suggestion]:
    """The most uncertain first; of equals the earlier."""
    heap: list[tuple[float, int, Suggestion]] = []
    for number, one in enumerate(found):
        if not one["text"].strip():
            continue
        guessed: str | list[str] = one["labels"] if "labels" in one else str(one["label"])
        unsure = uncertainty(one)
        surest = max(one["probabilities"].values())
        entry = (unsure, -number, Suggestion(one["text"], one.get("second"), guessed, surest, unsure))
        if len(heap) < most:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)
    return [entry[2] for entry in sorted(heap, key=lambda entry: (-entry[0], -entry[1]))]


def _vectors(model: TaskModel, texts: list[str]) -> "Floats | csr_matrix":
    """Of length 1: those of the base, or TF-IDF where it has none."""
    if "encode" in model.abilities:
        vectors_ND = np.asarray(model.encode(texts), np.float64)
        return np.asarray(vectors_ND / np.maximum(np.linalg.norm(vectors_ND, axis=1, keepdims=True), 1e-12))
    return unit_counts(texts)


def write_suggestions(found: list[Suggestion], out: Path) -> None:
    """A table to be filled in: an empty column of labels after the texts."""
    output_format(out)
    pairs = any(one.second is not None for one in found)
    names = ["text", *(["second"] if pairs else []), "label", "predicted", "probability", "uncertainty"]
    with table_writer(out, names, {}) as write:
        for one in found:
            texts = [one.text, one.second or ""] if pairs else [one.text]
            write([*texts, None, one.predicted, round(one.probability, 4), round(one.uncertainty, 4)])
