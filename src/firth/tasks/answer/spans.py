"""From scores of starts and ends to answers: the best valid spans, over windows of one passage.

B windows, T tokens, M longest answer in tokens, S spans kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.tokenizers.words import whole_characters

Floats = NDArray[np.float64]


class BestSpans(NamedTuple):
    """Scores [B, S] from the best down (-inf where there are no more), first and last tokens [B, S]."""

    scores: Floats
    first: NDArray[np.int64]
    last: NDArray[np.int64]


@dataclass(frozen=True)
class FoundAnswer:
    """An answer as it stands in the passage, ``passage[start:end]``; the empty one is "no answer"."""

    text: str
    start: int
    end: int
    score: float
    prob: float


@dataclass(frozen=True)
class Found:
    """The answers of one question from the best down, and how the empty answer compares.

    ``null_score`` is that of no answer minus the best answer's: above the threshold nothing is answered.
    """

    answers: list[FoundAnswer]
    null_score: float

    def best(self, threshold: float | None = None) -> FoundAnswer:
        """The best answer, or the empty one if its score is too high (without a threshold never)."""
        if not self.answers or (threshold is not None and self.null_score > threshold):
            return FoundAnswer("", 0, 0, 0.0, 0.0)
        return self.answers[0]


def best_spans(
    start_BT: Floats, end_BT: Floats, allowed_BT: NDArray[np.bool_], max_len: int, num_best: int
) -> BestSpans:
    """The spans with the largest start + end, exactly: over *all* pairs, start <= end < start + ``max_len``,
    both allowed (tokens of the passage). Of equals the one that starts, then ends first."""
    start_BT, end_BT = np.asarray(start_BT, np.float64), np.asarray(end_BT, np.float64)
    num_rows, num_tokens = start_BT.shape
    width = max(1, min(max_len, num_tokens))
    # A band of the table of all pairs: column m is the answer of m + 1 tokens.
    starts_BT = np.where(allowed_BT, start_BT, -np.inf)
    ends_BT = np.full((num_rows, num_tokens + width - 1), -np.inf)
    ends_BT[:, :num_tokens] = np.where(allowed_BT, end_BT, -np.inf)
    band_BTM = np.lib.stride_tricks.sliding_window_view(ends_BT, width, axis=1)
    pairs = (starts_BT[:, :, None] + band_BTM).reshape(num_rows, -1)
    kept = min(num_best, pairs.shape[1])
    if kept < pairs.shape[1]:
        # Everything not below the kept-th best, so that equals are chosen by place and not by chance.
        limit = -np.partition(-pairs, kept - 1, axis=1)[:, kept - 1 : kept]
        places = np.stack([_top(row, edge, kept) for row, edge in zip(pairs, limit[:, 0], strict=True)])
    else:
        places = np.argsort(-pairs, axis=1, kind="stable")
    scores = np.take_along_axis(pairs, places, axis=1)
    return BestSpans(scores, places // width, places // width + places % width)


def _top(row: Floats, limit: float, kept: int) -> NDArray[np.int64]:
    candidates = np.flatnonzero(row >= limit)
    return candidates[np.argsort(-row[candidates], kind="stable")][:kept]


def find_answers(
    passage: str,
    start_BT: Floats,
    end_BT: Floats,
    allowed_BT: NDArray[np.bool_],
    offsets_BT2: NDArray[np.int64],
    max_len: int = 30,
    num_best: int = 20,
    null_place_B: NDArray[np.int64] | None = None,
) -> Found:
    """The answers of one question over all windows of its passage (Devlin et al. 2018, §4.2, §4.3).

    A span that several windows contain counts once, with its best score. The score of no answer is
    start + end at its place in each window (``null_place_B``; none: the first token, [CLS]), the smallest over windows: one window that sees the answer is enough.
    """
    best = best_spans(start_BT, end_BT, allowed_BT, max_len, num_best)
    held: dict[tuple[int, int], float] = {}
    rows, columns = np.nonzero(best.scores > -np.inf)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        first, last = best.first[row, column], best.last[row, column]
        place = whole_characters(passage, int(offsets_BT2[row, first, 0]), int(offsets_BT2[row, last, 1]))
        held[place] = max(held.get(place, -np.inf), float(best.scores[row, column]))
    ranked = sorted(held.items(), key=lambda item: (-item[1], item[0]))[:num_best]
    both_BT = np.asarray(start_BT) + np.asarray(end_BT)
    places_B = np.zeros(len(both_BT), np.int64) if null_place_B is None else null_place_B
    null = float(np.min(both_BT[np.arange(len(both_BT)), places_B], initial=np.inf))
    if not ranked:
        return Found([], float("inf"))
    scores = np.asarray([score for _, score in ranked])
    probs = np.exp(scores - scores[0])
    answers = [
        FoundAnswer(passage[start:end], start, end, score, float(prob))
        for ((start, end), score), prob in zip(ranked, probs / probs.sum(), strict=True)
    ]
    return Found(answers, null - answers[0].score)


def answer_tokens(
    offsets_T2: Sequence[Sequence[int]] | NDArray[np.int64], start: int, end: int
) -> tuple[int, int] | None:
    """The first and last token of the passage that share a character with ``passage[start:end]``, if any do.

    ``offsets_T2`` are those of the passage's tokens in order; tokens that stand for no text are empty and never chosen.
    """
    offsets = np.asarray(offsets_T2, np.int64).reshape(-1, 2)
    shared = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > start) & (offsets[:, 1] > offsets[:, 0]))
    return (int(shared[0]), int(shared[-1])) if len(shared) else None
