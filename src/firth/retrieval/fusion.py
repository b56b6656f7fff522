"""Two rankings made one: reciprocal rank fusion (Cormack et al. 2009) with a weight, and how the weight is chosen.

A text at rank r (from 1) of a ranking counts 1 / (60 + r); ranks by vectors count ``weight``, ranks by words 1 - ``weight``.
Nobody has judged which passages answer which questions of one's own documents. So sentences of the passages are the questions,
and the passage without the sentence is what they should find (the inverse cloze task, Lee et al. 2019): the weight is the one
that finds most of them, and where a model does not understand the language it is 0.

N texts, D dimensions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from firth.core.batching import Floats, Ints
from firth.retrieval.exact import best_places
from firth.retrieval.words import Bm25

Encode = Callable[[Sequence[str]], Floats]
CONSTANT = 60
WEIGHTS = tuple(number / 10 for number in range(11))
_FEWEST = 20  # questions by which a weight can be chosen
_DEPTH = 100


def fuse(words: Sequence[int], vectors: Sequence[int], weight: float) -> list[tuple[int, float]]:
    """(number, score) of all that one of two rankings has, best first; of equals those that come first by words."""
    scores: dict[int, float] = {}
    for ranking, share in ((words, 1 - weight), (vectors, weight)):
        for rank, number in enumerate(ranking if share > 0 else (), 1):
            scores[number] = scores.get(number, 0.0) + share / (CONSTANT + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])


@dataclass(frozen=True)
class WeightSample:
    """Passages with their vectors; ``asked`` has (sentence, rest) of some of them by their numbers."""

    texts: Sequence[str]
    vectors_ND: Floats
    asked: Mapping[int, tuple[str, str]]


def choose_weight(sample: WeightSample, encode: Encode, encode_question: Encode) -> float:
    """The weight of vectors that finds most of the passages by a sentence of theirs; one half where there are too few."""
    if len(sample.asked) < _FEWEST:
        return 0.5
    places = list(sample.asked)
    questions = [question for question, _ in sample.asked.values()]
    rests = [rest for _, rest in sample.asked.values()]
    texts, vectors_ND = list(sample.texts), np.array(sample.vectors_ND)
    vectors_ND[places] = encode(rests)
    for place, rest in zip(places, rests, strict=True):
        texts[place] = rest
    bm25 = Bm25(texts)
    by_words = [_ranking(bm25.scores(question)) for question in questions]
    found_QN = encode_question(questions) @ vectors_ND.T
    by_vectors = [ranking.tolist() for ranking in best_places(np.asarray(found_QN, np.float32), _DEPTH)]
    scores = [mean_reciprocal_rank(by_words, by_vectors, places, weight) for weight in WEIGHTS]
    best = max(scores)
    return min(
        (weight for weight, score in zip(WEIGHTS, scores, strict=True) if score >= best - 1e-9),
        key=lambda weight: abs(weight - 0.5),
    )


def _ranking(scores_N: Floats) -> list[int]:
    found: Ints = best_places(scores_N[None], _DEPTH)[0]
    return [number for number in found.tolist() if scores_N[number] > 0]


def mean_reciprocal_rank(
    by_words: Sequence[Sequence[int]], by_vectors: Sequence[Sequence[int]], right: Sequence[int], weight: float
) -> float:
    """Of the right text among the fused rankings."""
    total = 0.0
    for words, vectors, wanted in zip(by_words, by_vectors, right, strict=True):
        ranks = [number for number, _ in fuse(words, vectors, weight)]
        total += 1 / (1 + ranks.index(wanted)) if wanted in ranks else 0.0
    return total / max(1, len(right))
