"""How far and how widely each head looks (Vig & Belinkov 2019; Clark et al. 2019, section 3).

Distance is the mean number of tokens between the one that looks and those it looks at, weighted by attention; entropy
(in nats) is 0 for a head that looks at one token only. WithExtraVectors them stands a head that looks at all it may see alike.

L layers, H heads, T tokens.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeadMeasures:
    """Means over all tokens of all texts, [L, H] each."""

    distance: Floats
    entropy: Floats  # nats
    itself: Floats  # shares of attention, from 0 to 1: on the token itself,
    before: Floats  # on the one before,
    after: Floats  # on the one after,
    special: Floats  # on tokens that stand for no text, such as [SEP]
    even_distance: float  # of a head that looks at everything alike
    even_entropy: float
    num_tokens: int


def measure(weights_LHTT: NDArray[np.float32], special_T: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Sums over the tokens of one text: six measures [6, L, H], and distance and entropy of even attention [2]."""
    weights = weights_LHTT.astype(np.float64)
    places = np.arange(weights.shape[-1])
    far_TT = np.abs(places[:, None] - places[None, :]).astype(np.float64)
    sums = np.stack(
        [
            (weights * far_TT).sum((-2, -1)),
            entropy(weights).sum(-1),
            np.einsum("lhtt->lh", weights),
            np.einsum("lhtt->lh", weights[:, :, 1:, :-1]),
            np.einsum("lhtt->lh", weights[:, :, :-1, 1:]),
            weights[..., special_T].sum((-2, -1)),
        ]
    )
    visible_TT = (weights > 0).any((0, 1))
    even_TT = visible_TT / np.maximum(visible_TT.sum(-1, keepdims=True), 1)
    return sums, np.asarray([(even_TT * far_TT).sum(), entropy(even_TT).sum()])


def entropy(weights: Floats) -> Floats:
    """-Σ w ln w over the last axis, where 0 ln 0 is 0."""
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    found: Floats = -(weights * logs).sum(-1)
    return found


def measure_heads(texts: Iterable[tuple[NDArray[np.float32], NDArray[np.bool_]]]) -> HeadMeasures | None:
    """Over (attention [L, H, T, T], special tokens [T]) of many texts; None without any."""
    total: Floats | None = None
    even, num_tokens = np.zeros(2), 0
    for weights_LHTT, special_T in texts:
        sums, of_even = measure(weights_LHTT, special_T)
        total = sums if total is None else total + sums
        even = even + of_even
        num_tokens += len(special_T)
    if total is None:
        return None
    distance, looks_entropy, itself, before, after, special = total / num_tokens
    even_distance, even_entropy = (even / num_tokens).tolist()
    return HeadMeasures(
        distance, looks_entropy, itself, before, after, special, even_distance, even_entropy, num_tokens
    )
