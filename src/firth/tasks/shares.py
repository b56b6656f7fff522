"""A share of labelled examples, to see how much a task learns from how little.

Shares are nested (what is in a small one is in every larger one), stratified (each kind of example has its part) and a pure
function of the seed.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.examples import AnswerExample, TagExample
from firth.core.seeds import hashed, uniform

_NUM_BINS = 10  # of scores
_STREAM = 0x5A4E


def check_shares(shares: Sequence[float]) -> list[float]:
    """In rising order, all of the examples among them or not."""
    for share in shares:
        if not 0 < share <= 1:
            raise FirthError(f"shares: {share:g} is not above 0 and at most 1; name shares such as 0.01,0.1,1")
    if len(set(shares)) != len(shares):
        raise FirthError("shares: one of them stands there twice")
    return sorted(shares)


def take_share(examples: Sequence[Any], share: float, seed: int) -> list[Any]:
    """That share of the examples, in their order; at least one of every kind."""
    kinds = strata(examples)
    size = min(len(examples), max(round(share * len(examples)), len(set(kinds))))
    chosen = np.sort(nested_order(kinds, seed)[:size])
    return [examples[number] for number in chosen.tolist()]


def nested_order(kinds: Sequence[Hashable], seed: int) -> NDArray[np.int64]:
    """Numbers of the examples such that every beginning is stratified.

    Within a kind of n examples the order is random and the k-th (from 0) stands at (k + u) / n of the way, u uniform; the
    first of each kind comes before all others.
    """
    numbers: dict[Hashable, int] = {}
    kind_N = np.asarray([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)
    rows_N = np.arange(len(kind_N))
    random_N = hashed(seed, _STREAM, rows_N)
    place_N = np.zeros(len(kind_N))
    for kind in range(len(numbers)):
        members = np.flatnonzero(kind_N == kind)
        members = members[np.argsort(random_N[members], kind="stable")]
        ranks = np.arange(len(members))
        place_N[members] = (ranks + uniform(seed, _STREAM + 1, kind, ranks)) / len(members)
        place_N[members[:1]] -= 1.0
    return np.lexsort((random_N, place_N))


def strata(examples: Sequence[Any]) -> list[Hashable]:
    """The kind of each example: its class, a tenth of the range of scores, its rarest tag, whether it has an answer."""
    if not examples:
        return []
    first = examples[0]
    if isinstance(first, AnswerExample):
        return [example.impossible for example in examples]
    if isinstance(first, TagExample):
        counts = Counter(tag for example in examples for tag in set(example.tags or ()))
        return [min(example.tags or ("",), key=lambda tag: (counts[tag], tag)) for example in examples]
    if isinstance(first.label, int | float):
        ranks = np.argsort(np.argsort([float(example.label) for example in examples], kind="stable"), kind="stable")
        return list((ranks * _NUM_BINS // len(examples)).tolist())
    return [str(example.label) for example in examples]
