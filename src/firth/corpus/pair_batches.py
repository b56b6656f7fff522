"""Batches of sentence pairs by number of tokens: pairs of like length together, so that little is padding.

Lengths are rounded up to a few tokens and pairs sorted by them; where a batch begins depends on
the rounded lengths alone, so every epoch has the same number of batches. Which pairs of like
length share a batch, and the order of the batches, are new in every epoch, a pure function of
(seed, epoch): any batch of any epoch can be had by its number.
"""

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import generator
from firth.corpus.epochs import each_epoch

_ROUND = 4  # pairs whose lengths agree up to this are alike


class PairBatches:
    """The pairs of a split in batches of at most ``batch_tokens`` tokens of each side, padding counted."""

    def __init__(
        self, source_lens: NDArray[np.int64], target_lens: NDArray[np.int64], batch_tokens: int, seed: int
    ) -> None:
        self.seed = seed
        self._rounded = -(-np.stack([target_lens, source_lens]) // _ROUND) * _ROUND
        order = np.lexsort((self._rounded[1], self._rounded[0]))
        self.first = _borders(self._rounded[:, order], batch_tokens)
        self._order = each_epoch(self._draw_order)

    def __len__(self) -> int:
        return len(self.first) - 1

    def _draw_order(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(pairs in sorted order, order of the batches) of an epoch."""
        random = generator(self.seed, 3, epoch)
        pairs = random.permutation(self._rounded.shape[1])
        pairs = pairs[np.lexsort((self._rounded[1, pairs], self._rounded[0, pairs]))]
        return pairs, random.permutation(len(self))

    def pairs(self, number: int) -> NDArray[np.int64]:
        """The pairs of batch ``number`` of the endless sequence of epochs."""
        epoch, place = divmod(number, len(self))
        pairs, batches = self._order(epoch)
        batch = batches[place]
        return pairs[self.first[batch] : self.first[batch + 1]]


def _borders(rounded: NDArray[np.int64], batch_tokens: int) -> NDArray[np.int64]:
    """Where batches begin among sorted pairs: rows times the longest of a side stays in the limit."""
    borders = [0]
    longest = 0
    for place, size in enumerate(rounded.max(0).tolist()):
        longest = max(longest, size)
        if place > borders[-1] and (place + 1 - borders[-1]) * longest > batch_tokens:
            borders.append(place)
            longest = size
    if rounded.shape[1]:
        borders.append(rounded.shape[1])
    return np.asarray(borders, np.int64)
