"""Vectors in a plane, to be looked at: words, and one word in several sentences.

N points, D numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.evaluation.occurrences import words_in
from firth.models.shared.model import Model
from firth.reports.charts import principal_plane


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
