"""Passages ranked by words (BM25), and by vectors: exactly, block by block, or by graphs (HNSW of usearch), whose results
are scored again exactly. Unless all passages are wanted, of each document only the best counts, so that one with very many
passages leaves room for the others.

P passages of a part, D dimensions, Q questions, N candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from firth.core.types import Floats, Ints
from firth.retrieval.exact import BLOCK, best_of_each, best_places, best_rows, one_of_each
from firth.retrieval.parts import OpenGraph
from firth.retrieval.store import State
from firth.retrieval.words import inverse_frequencies, term_weights, terms

_DEPTH = 200  # documents (or passages, where all are wanted) of each half that are fused
_MORE = 2  # candidates for each that is wanted, where some are lost or not allowed
_LARGE = 8  # more than one in so many rows of a graph: comparing all is better


@dataclass
class Ranking:
    """Passages, best first, as (part, number) with their scores."""

    places: list[tuple[int, int]] = field(default_factory=list)
    scores: dict[tuple[int, int], float] = field(default_factory=dict)
    question_D: Floats | None = None  # of a ranking by vectors

    def score(self, state: State, place: tuple[int, int]) -> float | None:
        """Of any passage of a document that was found."""
        vectors_PD = state.parts[place[0]].vectors_PD
        if place in self.scores or self.question_D is None or vectors_PD is None:
            return self.scores.get(place)
        return float(vectors_PD[place[1]] @ self.question_D)


@dataclass(frozen=True)
class Wanted:
    """What is looked for in each half."""

    allowed: Sequence[NDArray[np.bool_] | None]  # passages of each part; none: all
    top: int
    passages: bool  # else of each document only the best

    @property
    def depth(self) -> int:
        return max(_DEPTH, 10 * self.top)


# -- by words


def find_postings(state: State, words: Iterable[str]) -> dict[str, tuple[float, list[tuple[Ints, Ints]]]]:
    """Of each word its idf and its (passages, counts) in each part; deleted documents do not count."""
    total = sum(part.num_live for part in state.parts)
    found = {}
    for word in words:
        listed = [part.postings(word) for part in state.parts]
        found_in = sum(
            len(places) if part.live_P is None else int(part.live_P[places].sum())
            for part, (places, _) in zip(state.parts, listed, strict=True)
        )
        found[word] = float(inverse_frequencies(total, np.asarray([found_in]))[0]), listed
    return found


def rank_by_words(state: State, question: str, wanted: Wanted) -> Ranking:
    """BM25 over all passages; the statistics are those of the whole index, whatever the filter."""
    asked = Counter(terms(question))
    total = sum(part.num_live for part in state.parts)
    mean_len = sum(part.num_words for part in state.parts) / max(1, total)
    postings = find_postings(state, asked)
    candidates: list[tuple[float, tuple[int, int]]] = []
    for place, part in enumerate(state.parts):
        scores_P = np.zeros(part.num_passages, np.float32)
        lens: Ints = part.arrays["lens"]
        for word, (rarity, listed) in postings.items():
            places, counts = listed[place]
            scores_P[places] += asked[word] * rarity * term_weights(counts, lens[places], mean_len)
        mask = wanted.allowed[place]
        if mask is not None:
            scores_P *= mask
        some = np.flatnonzero(scores_P)
        if not wanted.passages:
            some = some[best_of_each(scores_P[some][None], part.passages[some, 0])[1][0]]
        some = some[best_places(scores_P[some][None], wanted.depth)[0]]
        candidates += [(float(scores_P[number]), (place, number)) for number in some.tolist()]
    candidates.sort(key=lambda pair: (-pair[0], pair[1]))
    candidates = candidates[: wanted.depth]
    return Ranking([where for _, where in candidates], {where: score for score, where in candidates})


# -- by vectors


def rank_by_vectors(state: State, questions_QD: Floats, wanted: Wanted) -> list[Ranking]:
    """The passages whose vectors have the largest products with those of the questions."""
    found: list[tuple[Ints, Ints, Floats]] = []  # parts, numbers and products, [Q, N] each
    exact = dict.fromkeys(range(len(state.parts)))
    for graph in state.graphs:
        places = state.places(graph)
        some = None if _is_narrow(state, places, wanted) else _by_graph(state, graph, places, questions_QD, wanted)
        if some is not None:
            found.append(some)
            exact = {place: None for place in exact if place not in places}
    for place in exact:
        part = state.parts[place]
        assert part.vectors_PD is not None
        owners_P = None if wanted.passages else part.passages[:, 0]
        top = min(wanted.depth, part.num_passages)
        number_QN, score_QN = best_rows(questions_QD, _blocks(part.vectors_PD, wanted.allowed[place]), top, owners_P)
        found.append((np.full(number_QN.shape, place, np.int64), number_QN, score_QN))
    if not found:
        return [Ranking() for _ in questions_QD]
    place_QN, number_QN, score_QN = (np.concatenate(some, 1) for some in zip(*found, strict=True))
    rankings = []
    for row, best in enumerate(best_places(score_QN, wanted.depth)):
        best = best[np.isfinite(score_QN[row, best])]
        keys = list(zip(place_QN[row, best].tolist(), number_QN[row, best].tolist(), strict=True))
        scores = dict(zip(keys, score_QN[row, best].tolist(), strict=True))
        rankings.append(Ranking(keys, scores, questions_QD[row]))
    return rankings


def _is_narrow(state: State, places: Sequence[int], wanted: Wanted) -> bool:
    """Whether fewer than half of the passages of some parts may be found, so that comparing them all is better."""
    sizes = [state.parts[place].num_passages for place in places]
    masks = [wanted.allowed[place] for place in places]
    left = sum(size if mask is None else int(mask.sum()) for size, mask in zip(sizes, masks, strict=True))
    return 2 * left < sum(sizes)


def _by_graph(
    state: State, graph: OpenGraph, places: Sequence[int], questions_QD: Floats, wanted: Wanted
) -> tuple[Ints, Ints, Floats] | None:
    """(parts, numbers, products) [Q, N] of what a graph finds. It is asked for more where few documents have the nearest
    passages; none: that would be so many that comparing all is better."""
    parts = [state.parts[place] for place in places]
    size = sum(part.num_passages for part in parts)
    more = 1 if all(wanted.allowed[place] is None for place in places) else _MORE
    share = min(1, _MORE / len(state.graphs))  # the best are spread over the graphs
    asked = max(_MORE * wanted.top, int(more * share * wanted.depth))
    enough = 0 if wanted.passages else min(wanted.top, sum(int((~part.gone_K).sum()) for part in parts))
    while True:
        found = _asked_graph(state, graph, places, questions_QD, wanted, min(asked, size))
        if asked >= size or int(np.isfinite(found[2]).sum(1).min(initial=size)) >= enough:
            return found
        asked *= 4
        if asked * _LARGE > size:
            return None


def _asked_graph(
    state: State, graph: OpenGraph, places: Sequence[int], questions_QD: Floats, wanted: Wanted, count: int
) -> tuple[Ints, Ints, Floats]:
    """The nearest so many of a graph, scored again exactly; what does not count has -inf."""
    starts = np.cumsum([0, *(state.parts[place].num_passages for place in places)])
    owners = np.cumsum([0, *(state.parts[place].num_documents for place in places)])
    listed = [graph.graph.search(one, count).keys for one in questions_QD]
    keys_QN = np.stack([keys[: min(map(len, listed))] for keys in listed]).astype(np.int64)
    which_QN = np.searchsorted(starts, keys_QN, side="right") - 1
    number_QN = keys_QN - starts[which_QN]
    score_QN, owner_QN = np.empty(keys_QN.shape, np.float32), np.empty(keys_QN.shape, np.int64)
    for number, place in enumerate(places):
        part, mask = state.parts[place], wanted.allowed[place]
        assert part.vectors_PD is not None
        row_N, column_N = np.nonzero(which_QN == number)
        inside_N = number_QN[row_N, column_N]
        scores_N = np.einsum("nd,nd->n", questions_QD[row_N], part.vectors_PD[inside_N])
        score_QN[row_N, column_N] = scores_N if mask is None else np.where(mask[inside_N], scores_N, -np.inf)
        owner_QN[row_N, column_N] = owners[number] + part.passages[inside_N, 0]
    if not wanted.passages:
        score_QN = one_of_each(score_QN, owner_QN)
    return np.asarray(places, np.int64)[which_QN], number_QN, score_QN


def _blocks(rows_PD: Floats, allowed: NDArray[np.bool_] | None) -> Iterable[tuple[Ints, Floats]]:
    if allowed is None:
        for start in range(0, len(rows_PD), BLOCK):
            block = rows_PD[start : start + BLOCK]
            yield np.arange(start, start + len(block)), block
        return
    kept = np.flatnonzero(allowed)
    for start in range(0, len(kept), BLOCK):
        yield kept[start : start + BLOCK], rows_PD[kept[start : start + BLOCK]]
