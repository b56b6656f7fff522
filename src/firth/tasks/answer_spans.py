"""Extractive answers: the best spans by start and end scores over the windows of a passage, the scores of answers (SQuAD,
CMRC), and the threshold for "no answer".

B windows, T tokens, M longest answer in tokens, S spans kept.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.tokenizers.words import widen_to_characters

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
        place = widen_to_characters(passage, int(offsets_BT2[row, first, 0]), int(offsets_BT2[row, last, 1]))
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


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScore(NamedTuple):
    exact: float
    f1: float


def normalized(answer: str) -> str:
    """SQuAD's normal form: lower case, without ASCII punctuation, articles and needless white space."""
    plain = answer.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def squad_score(guess: str, answers: Sequence[str], version: int = 2) -> AnswerScore:
    """The best over the given answers (Rajpurkar et al. 2016; 2018). No answers: the guess must be empty.

    Version 2 leaves out answers without content after normalization and calls two empty texts equal;
    version 1 knows no empty answers.
    """
    if version == 2:
        answers = [answer for answer in answers if normalized(answer)] or [""]
    shape = normalized(guess)
    exact = max((float(normalized(answer) == shape) for answer in answers), default=0.0)
    words = shape.split()
    return AnswerScore(
        exact, max((_word_f1(words, normalized(answer).split(), version) for answer in answers), default=0.0)
    )


def _word_f1(guess: list[str], answer: list[str], version: int) -> float:
    if version == 2 and (not guess or not answer):
        return float(guess == answer)
    shared = (Counter(guess) & Counter(answer)).total()
    return _f1(shared, len(guess), len(answer))


def _f1(shared: int, guessed: int, true: int) -> float:
    if shared == 0:
        return 0.0
    precision, recall = shared / guessed, shared / true
    return 2 * precision * recall / (precision + recall)


# The marks that CMRC's script sets apart and leaves out; the hyphen and the dash of numbers are among them.
_CMRC_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CMRC_HAN = re.compile("[\u4e00-\u9fa5]")
# English words as the Treebank cuts them: clitics and punctuation apart, points and commas inside numbers and names kept.
_LATIN = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+(?:\.\w+|,\d\w*)*|\.{2,}|\S")


def mixed_segments(text: str, keep_marks: bool = False) -> list[str]:
    """CMRC's units: Chinese characters singly, other stretches by words (Cui et al. 2019).

    The published script cuts those stretches with NLTK's tokenizer; here a rule does it, which
    differs for rare shapes only (double quotes, abbreviations with points).
    """
    segments, held = [], ""
    for char in text.lower().strip():
        mark = char in _CMRC_MARKS
        if mark and not keep_marks:
            continue
        if mark or _CMRC_HAN.match(char):
            segments += [*_LATIN.findall(held), char]
            held = ""
        else:
            held += char
    return segments + _LATIN.findall(held)


def common_stretch(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest stretch that both contain, unbroken."""
    longest, before = 0, [0] * (len(second) + 1)
    for unit in first:
        row = [0] * (len(second) + 1)
        for place, other in enumerate(second, 1):
            if unit == other:
                row[place] = before[place - 1] + 1
                longest = max(longest, row[place])
        before = row
    return longest


def cmrc_score(guess: str, answers: Sequence[str]) -> AnswerScore:
    """CMRC 2018: F1 of the longest common stretch, exact match without marks; the best over the answers."""
    units, bare = mixed_segments(guess), _without_marks(guess)
    exact = f1 = 0.0
    for answer in answers or [""]:
        wanted = mixed_segments(answer)
        exact = max(exact, float(_without_marks(answer) == bare))
        shared = common_stretch(wanted, units)
        f1 = max(f1, _f1(shared, len(units), len(wanted)) if units or wanted else float(not answers))
    return AnswerScore(exact, f1)


def _without_marks(text: str) -> str:
    return "".join(char for char in text.lower().strip() if char not in _CMRC_MARKS)


ANSWER_SCORES: dict[str, Callable[[str, Sequence[str]], AnswerScore]] = {
    "squad1": lambda guess, answers: squad_score(guess, answers, version=1),
    "squad2": lambda guess, answers: squad_score(guess, answers, version=2),
    "cmrc": cmrc_score,
}


def answer_scores(
    guesses: Sequence[str], answers: Sequence[Sequence[str]], kind: str = "squad2"
) -> NDArray[np.float64]:
    """Exact match and F1 of each question [N, 2]; the score of a set is the mean."""
    assert len(guesses) == len(answers)
    score = ANSWER_SCORES[kind]
    return np.asarray(
        [score(guess, wanted) for guess, wanted in zip(guesses, answers, strict=True)], np.float64
    ).reshape(-1, 2)


class Threshold(NamedTuple):
    """The score of a set if questions whose null score is above ``value`` are left unanswered."""

    score: float
    value: float


def best_threshold(scores: ArrayLike, null_scores: ArrayLike, answered: ArrayLike, answerable: ArrayLike) -> Threshold:
    """The threshold for no answer that makes the mean largest, as SQuAD 2.0's script seeks it.

    ``scores`` [N] are those of the best answers, before any is withheld; ``null_scores`` [N] say how
    likely there is none; ``answered`` where the guess is not empty, ``answerable`` where the
    question has an answer. Starts with nothing answered (threshold 0 if that is best). Of questions with equal
    null scores either all are answered or none, where the script would split them.
    """
    scores_N, null_N = np.asarray(scores, np.float64), np.asarray(null_scores, np.float64)
    answered_N, answerable_N = np.asarray(answered, np.bool_), np.asarray(answerable, np.bool_)
    if len(scores_N) == 0:
        return Threshold(0.0, 0.0)
    gains = np.where(answerable_N, scores_N, -answered_N.astype(np.float64))
    order = np.argsort(null_N, kind="stable")
    totals = (~answerable_N).sum() + np.cumsum(gains[order])
    sorted_nulls = null_N[order]
    ends = np.append(sorted_nulls[1:] != sorted_nulls[:-1], True)
    totals = np.where(ends, totals, -np.inf)
    best = int(np.argmax(totals))
    nothing = float((~answerable_N).sum())
    if totals[best] <= nothing:
        # Withholds everything: below every null score, unless the script's own 0 already does that.
        return Threshold(nothing / len(scores_N), min(0.0, float(np.nextafter(sorted_nulls[0], -np.inf))))
    return Threshold(float(totals[best]) / len(scores_N), float(sorted_nulls[best]))
