"""ROUGE (Lin 2004): how much of a reference is in what was written, by n-grams and by the longest common subsequence.

Words are runs of letters and digits in lower case; a Chinese character is a word of its own. No stemming, one
reference, F with equal weights; scores of many texts are means, in percent.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from firth.tokenizers.characters import HAN_CLASS

_WORD = re.compile(rf"[{HAN_CLASS}]|[^\W_{HAN_CLASS}]+")


class Rouge(NamedTuple):
    precision: float
    recall: float
    f1: float


def rouge_words(text: str) -> list[str]:
    """What is compared."""
    return _WORD.findall(text.lower())


def _scored(shared: int, written: int, wanted: int) -> Rouge:
    precision, recall = shared / max(written, 1), shared / max(wanted, 1)
    return Rouge(precision, recall, 2 * precision * recall / (precision + recall) if shared else 0.0)


def rouge_n(written: Sequence[str], reference: Sequence[str], size: int) -> Rouge:
    """N-grams that both have, each as often as in the one that has it less often."""
    counts = [
        Counter(tuple(words[place : place + size]) for place in range(len(words) - size + 1))
        for words in (written, reference)
    ]
    shared = sum((counts[0] & counts[1]).values())
    return _scored(shared, sum(counts[0].values()), sum(counts[1].values()))


def common_len(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence, a column of the table at a time in the bits of one number
    (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    full = (1 << len(first)) - 1
    bits = full
    for word in second:
        found = bits & places.get(word, 0)
        bits = ((bits + found) | (bits - found)) & full
    return len(first) - bits.bit_count()


def rouge_l(written: Sequence[str], reference: Sequence[str]) -> Rouge:
    """By words that come in the same order in both, whatever stands between them."""
    return _scored(common_len(written, reference), len(written), len(reference))


def rouge_f1(written: str, reference: str) -> dict[str, float]:
    """``rouge_1``, ``rouge_2`` and ``rouge_l`` of one text, in percent."""
    ours, theirs = rouge_words(written), rouge_words(reference)
    found = {"rouge_1": rouge_n(ours, theirs, 1), "rouge_2": rouge_n(ours, theirs, 2), "rouge_l": rouge_l(ours, theirs)}
    return {name: 100 * score.f1 for name, score in found.items()}
