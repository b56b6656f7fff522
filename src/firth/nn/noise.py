"""Noise words: drawn from any distribution in constant time, with their log-probabilities.

V vocabulary, K draws.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn


def noise_shares(kind: str, counts_V: NDArray[np.int64]) -> NDArray[np.float64]:
    """``uniform``; ``unigram``: as often as in the text (a token that does not occur counts as one);
    ``log_uniform``: by rank r in falling frequency, log((r + 2) / (r + 1)) / log(V + 1), which is Zipf's law."""
    size = len(counts_V)
    if kind == "uniform":
        shares = np.ones(size)
    elif kind == "unigram":
        shares = np.maximum(counts_V, 1).astype(np.float64)
    else:
        assert kind == "log_uniform", kind
        shares = np.log1p(1 / (frequency_ranks(counts_V) + 1.0))
    return np.asarray(shares / shares.sum())


def log_unigram(counts_V: NDArray[np.int64]) -> torch.Tensor:
    """The logarithm of how often each token occurs: what a model knows of a text before it has read it."""
    return torch.from_numpy(np.log(noise_shares("unigram", counts_V)).astype(np.float32))


def frequency_ranks(counts_V: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 for the most frequent token; ties by number."""
    ranks = np.empty(len(counts_V), np.int64)
    ranks[np.argsort(-counts_V, kind="stable")] = np.arange(len(counts_V))
    return ranks


def alias_table(shares_V: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Walker's table: cell v gives v with probability ``keep[v]``, else ``other[v]``."""
    left = (shares_V * len(shares_V)).tolist()
    keep, other = np.ones(len(left)), np.arange(len(left))
    small = [number for number, share in enumerate(left) if share < 1]
    large = [number for number, share in enumerate(left) if share >= 1]
    while small and large:
        low, high = small.pop(), large[-1]
        keep[low], other[low] = left[low], high
        left[high] -= 1 - left[low]
        if left[high] < 1:
            small.append(large.pop())
    return keep, other


class Noise(nn.Module):
    """A distribution over the vocabulary to draw from. It comes from the corpus, so no checkpoint holds it."""

    def __init__(self, shares_V: NDArray[np.float64]) -> None:
        super().__init__()
        keep, other = alias_table(shares_V)
        for name, array in (("log_shares", np.log(shares_V)), ("keep", keep)):
            self.register_buffer(name, torch.from_numpy(array.astype(np.float32)), persistent=False)
        self.register_buffer("other", torch.from_numpy(other), persistent=False)

    log_shares: torch.Tensor
    keep: torch.Tensor
    other: torch.Tensor

    def draw(self, count: int) -> torch.Tensor:
        """[K] tokens, with replacement, from torch's own random numbers (the loop seeds them by step)."""
        cells = torch.randint(len(self.keep), (count,), device=self.keep.device)
        kept = torch.rand(count, device=self.keep.device) < self.keep[cells]
        return torch.where(kept, cells, self.other[cells])
