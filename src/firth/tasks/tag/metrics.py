"""Entity precision, recall and F1: a span counts if type, first and last word are all right.

Equal to seqeval's (and so to conlleval's); strict reading as an option. Y types.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.tasks.scores import harmonic, ratio
from firth.tasks.tag.schemes import Span, as_bioes, spans_of, strict_spans_of


@dataclass(frozen=True)
class EntityCounts:
    """For each sentence and type: spans right, guessed and true [N, Y, 3]. Sums of rows give every score."""

    types: list[str]
    counts: NDArray[np.int64]

    def by_type(self) -> dict[str, dict[str, float]]:
        totals_Y3 = self.counts.sum(0)
        precision, recall, f1 = prf(totals_Y3)
        return {
            name: {
                "precision": float(precision[place]),
                "recall": float(recall[place]),
                "f1": float(f1[place]),
                "support": int(totals_Y3[place, 2]),
            }
            for place, name in enumerate(self.types)
        }


def prf(sums: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Precision, recall and F1 of sums [..., 3] of right, guessed and true spans."""
    right, guessed, true = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    precision, recall = ratio(right, guessed), ratio(right, true)
    return precision, recall, harmonic(precision, recall)


def entity_counts(
    true: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]], strict: str | None = None
) -> EntityCounts:
    """Counts by sentence and type; ``strict`` names the scheme by which spans must be whole."""
    assert len(true) == len(guessed)
    rows: list[tuple[set[Span], set[Span]]] = []
    for tags, guesses in zip(true, guessed, strict=True):
        assert len(tags) == len(guesses)
        rows.append((_spans(tags, strict), _spans(guesses, strict)))
    types = sorted({span.type for row in rows for spans in row for span in spans})
    place = {name: number for number, name in enumerate(types)}
    counts = np.zeros((len(rows), len(types), 3), np.int64)
    for number, (true_spans, guessed_spans) in enumerate(rows):
        for column, spans in enumerate((true_spans & guessed_spans, guessed_spans, true_spans)):
            for name, count in Counter(span.type for span in spans).items():
                counts[number, place[name], column] = count
    return EntityCounts(types, counts)


def entity_scores(
    true: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]], strict: str | None = None
) -> dict[str, float]:
    """Precision, recall and F1 over all spans, the means over types, and the share of right tags."""
    found = entity_counts(true, guessed, strict)
    totals_Y3 = found.counts.sum(0)
    precision, recall, f1 = (float(value) for value in prf(totals_Y3.sum(0)))
    type_f1 = prf(totals_Y3)[2]
    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "macro_f1": float(type_f1.mean()) if len(type_f1) else 0.0,
        "weighted_f1": float(ratio((type_f1 * totals_Y3[:, 2]).sum(), totals_Y3[:, 2].sum())),
        "accuracy": tag_accuracy(true, guessed),
    }


def tag_accuracy(true: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]) -> float:
    """The share of words with the right tag."""
    pairs = [
        (tag, guess)
        for tags, guesses in zip(true, guessed, strict=True)
        for tag, guess in zip(tags, guesses, strict=True)
    ]
    return sum(tag == guess for tag, guess in pairs) / len(pairs) if pairs else 0.0


def _spans(tags: Sequence[str], strict: str | None) -> set[Span]:
    if strict is not None:
        return set(strict_spans_of(tags, strict))
    return set(spans_of(as_bioes(tags)))
