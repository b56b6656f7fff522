"""The nearest rows by exact products, and rankings fused by their ranks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.core.types import Floats, Ints
from firth.retrieval.words import Bm25

BLOCK = 16_384  # rows


def best_places(scores_QN: Floats, top: int) -> Ints:
    """Places of the best few of each row, best first; of equals the earlier."""
    size = scores_QN.shape[1]
    top = min(top, size)
    if not top:
        return np.zeros((len(scores_QN), 0), np.int64)
    some = (
        np.argpartition(-scores_QN, top - 1, axis=1)[:, :top]
        if top < size
        else np.tile(np.arange(size), (len(scores_QN), 1))
    )
    order = np.lexsort((some, -np.take_along_axis(scores_QN, some, 1)), axis=1)
    found: Ints = np.take_along_axis(some, order, 1)
    return found


def best_of_each(scores_QN: Floats, owners_N: Ints) -> tuple[Floats, Ints]:
    """(scores, places), both [Q, K], of the best row of each owner, of equals the first. The rows of an owner stand together."""
    size = len(owners_N)
    starts = np.flatnonzero(np.diff(owners_N, prepend=-1))
    if len(starts) == size:
        return scores_QN, np.broadcast_to(np.arange(size), scores_QN.shape)
    best_QK = np.maximum.reduceat(scores_QN, starts, axis=1)
    is_best_QN = scores_QN == np.repeat(best_QK, np.diff(starts, append=size), axis=1)
    places_QK: Ints = np.minimum.reduceat(np.where(is_best_QN, np.arange(size), size), starts, axis=1)
    return best_QK, places_QK


def one_of_each(scores_QN: Floats, owners_QN: Ints) -> Floats:
    """The scores, where all but the best of an owner are -inf."""
    order = np.lexsort((-scores_QN, owners_QN), axis=1)
    sorted_QN = np.take_along_axis(owners_QN, order, 1)
    again_QN = np.zeros(owners_QN.shape, np.bool_)
    np.put_along_axis(again_QN, order[:, 1:], sorted_QN[:, 1:] == sorted_QN[:, :-1], 1)
    return np.where(again_QN, np.float32(-np.inf), scores_QN)


def best_rows(
    questions_QD: Floats,
    blocks: Iterable[tuple[Ints, NDArray[np.floating]]],
    top: int,
    owners_P: Ints | None = None,
) -> tuple[Ints, Floats]:
    """(numbers, scores), both [Q, top], among blocks of (numbers of the rows, rows); scores of -inf where there are not so
    many. With ``owners_P`` of all rows only the best row of each owner counts."""
    num = len(questions_QD)
    numbers, scores = np.full((num, 0), -1, np.int64), np.full((num, 0), -np.inf, np.float32)
    for here_N, rows_ND in blocks:
        found_QN = np.asarray(questions_QD @ np.asarray(rows_ND, np.float32).T, np.float32)
        inside_QN: Ints = np.broadcast_to(np.arange(len(here_N)), found_QN.shape)
        if owners_P is not None:
            found_QN, inside_QN = best_of_each(found_QN, owners_P[here_N])
        places = best_places(found_QN, top)
        numbers = np.concatenate((numbers, here_N[np.take_along_axis(inside_QN, places, 1)]), 1)
        scores = np.concatenate((scores, np.take_along_axis(found_QN, places, 1)), 1)
        if owners_P is not None:  # the rows of one may go on in the next block
            scores = one_of_each(scores, owners_P[numbers])
        kept = best_places(scores, top)
        numbers, scores = np.take_along_axis(numbers, kept, 1), np.take_along_axis(scores, kept, 1)
    lacking = top - numbers.shape[1]
    if lacking > 0:
        numbers = np.pad(numbers, ((0, 0), (0, lacking)), constant_values=-1)
        scores = np.pad(scores, ((0, 0), (0, lacking)), constant_values=-np.inf)
    return numbers, scores


def blocks_of(rows_ND: NDArray[np.floating], size: int = BLOCK) -> Iterable[tuple[Ints, NDArray[np.floating]]]:
    """The rows of a matrix in blocks, with their numbers."""
    for start in range(0, len(rows_ND), size):
        block = rows_ND[start : start + size]
        yield np.arange(start, start + len(block)), block


Encode = Callable[[Sequence[str]], Floats]
WEIGHTS = tuple(number / 10 for number in range(11))
_FEWEST = 20  # questions by which a weight can be chosen
_DEPTH = 200
_POOR = 1 / 3
LEAST_WEIGHT = 0.2  # of a half that counts at all


def fuse(words: Mapping[int, float], vectors: Mapping[int, float], weight: float) -> list[tuple[int, float]]:
    """(number, score) of all that one of two rankings has, best first; of equals those that come first by words. A half that
    does not count adds nothing."""
    scores: dict[int, float] = {}
    most = max(words.values(), default=1.0)
    for number, score in words.items() if weight < 1 else ():
        scores[number] = (1 - weight) * score / most
    least, most = min(vectors.values(), default=0.0), max(vectors.values(), default=1.0)
    for number, score in vectors.items() if weight > 0 else ():
        share = (score - least) / (most - least) if most > least else 1.0
        scores[number] = scores.get(number, 0.0) + weight * share
    return sorted(scores.items(), key=lambda pair: -pair[1])


@dataclass(frozen=True)
class WeightSample:
    """Passages with their vectors and documents; ``asked`` has (some words, the rest) of some of them by their numbers."""

    texts: Sequence[str]
    vectors_ND: Floats
    documents_N: Ints
    asked: Mapping[int, tuple[str, str]]


def choose_weight(sample: WeightSample, encode: Encode, encode_question: Encode) -> float:
    """The weight of vectors by which passages are found by words of theirs; one half where there are too few."""
    if len(sample.asked) < _FEWEST:
        return 0.5
    places = list(sample.asked)
    questions = [question for question, _ in sample.asked.values()]
    rests = [rest for _, rest in sample.asked.values()]
    texts, vectors_ND = list(sample.texts), np.array(sample.vectors_ND)
    vectors_ND[places] = encode(rests)
    for place, rest in zip(places, rests, strict=True):
        texts[place] = rest
    bm25, cosines_QN = Bm25(texts), np.asarray(encode_question(questions) @ vectors_ND.T, np.float32)
    pairs = []
    for question, cosines_N, place in zip(questions, cosines_QN, places, strict=True):
        other = (
            sample.documents_N == sample.documents_N[place]
        )  # passages overlap: those of the same document do not compete
        other[place] = False
        pairs.append(
            (
                _ranking(np.where(other, 0, bm25.scores(question)), 0),
                _ranking(np.where(other, -np.inf, cosines_N), -np.inf),
            )
        )
    return careful_weight(np.asarray([reciprocal_ranks(pairs, places, weight) for weight in WEIGHTS]))


def careful_weight(ranks_WQ: NDArray[np.float64]) -> float:
    """Of the reciprocal ranks of the right texts with each of ``WEIGHTS``."""
    scores = ranks_WQ.mean(1)
    words_better = bool(scores[0] >= scores[-1])
    if min(scores[0], scores[-1]) < _POOR * max(scores[0], scores[-1]):
        return 0.0 if words_better else 1.0
    lost_WQ = ranks_WQ[int(np.argmax(scores))] - ranks_WQ
    errors = lost_WQ.std(1) / np.sqrt(lost_WQ.shape[1])
    close = [weight for weight, lost, error in zip(WEIGHTS, lost_WQ.mean(1), errors, strict=True) if lost <= error]
    return min(max(min(close) if words_better else max(close), LEAST_WEIGHT), 1 - LEAST_WEIGHT)


def _ranking(scores_N: Floats, least: float) -> dict[int, float]:
    found: Ints = best_places(np.asarray(scores_N, np.float32)[None], _DEPTH)[0]
    return {number: float(scores_N[number]) for number in found.tolist() if scores_N[number] > least}


def reciprocal_ranks(
    pairs: Sequence[tuple[Mapping[int, float], Mapping[int, float]]], right: Sequence[int], weight: float
) -> list[float]:
    """1 / rank of the right text of each pair of rankings when they are fused; 0 where it is not found."""
    found = []
    for (words, vectors), wanted in zip(pairs, right, strict=True):
        ranks = [number for number, _ in fuse(words, vectors, weight)]
        found.append(1 / (1 + ranks.index(wanted)) if wanted in ranks else 0.0)
    return found
