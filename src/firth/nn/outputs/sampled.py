"""Noise words: drawn from any distribution in constant time, with their log-probabilities.

V vocabulary, K draws.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.seeds import uniform
from firth.nn.outputs.softmax import TokenOutput


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


class _Sampled(TokenOutput):
    def __init__(self, hidden_dim: int, vocab_size: int, tied: bool, noise: Noise, num_noise: int) -> None:
        super().__init__(hidden_dim, vocab_size, tied)
        self.noise = noise
        self.num_noise = num_noise

    def compared(
        self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor, noise_K: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores less what is expected of the noise, of the labels [N] and of the noise [N, K]."""
        chosen = torch.cat((labels_N, noise_K))
        rows = functional.embedding(chosen, self.rows(table_VD))
        shifts = self.bias[chosen] - self.log_expected(self.noise.log_shares[chosen])
        num = len(labels_N)
        true_N = (hidden_ND * rows[:num]).sum(-1) + shifts[:num]
        return true_N, torch.addmm(shifts[num:], hidden_ND, rows[num:].t())

    def log_expected(self, log_shares: torch.Tensor) -> torch.Tensor:
        """log(k q)."""
        return log_shares + math.log(self.num_noise)


class NCEOutput(_Sampled):
    """Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012): tell a text's token from
    k tokens of a known noise q.

    P(+|w, h) = u / (u + k q(w)) with u = exp(score), the normaliser taken as 1; that is the sigmoid of
    score - log(k q(w)). As k grows the gradient becomes that of maximum likelihood.
    """

    def loss(self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        true_N, noise_NK = self.compared(hidden_ND, labels_N, table_VD, self.noise.draw(self.num_noise))
        return functional.softplus(-true_N).sum() + functional.softplus(noise_NK).sum()


class SampledOutput(_Sampled):
    """Sampled softmax (Jean et al. 2015): the softmax over the label and the distinct ones of k noise tokens,
    each score lowered by the logarithm of its chance to be among them. With ever more noise every token is
    there, with certainty, and it is the full softmax."""

    def log_expected(self, log_shares: torch.Tensor) -> torch.Tensor:
        """log(1 - (1 - q)^k)."""
        return torch.log(-torch.expm1(self.num_noise * torch.log1p(-log_shares.exp())))

    def loss(self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        noise_K = self.noise.draw(self.num_noise).unique()
        true_N, noise_NK = self.compared(hidden_ND, labels_N, table_VD, noise_K)
        noise_NK = noise_NK.masked_fill(labels_N[:, None] == noise_K, float("-inf"))
        whole = torch.logaddexp(true_N, noise_NK.logsumexp(-1))
        return (whole - true_N).sum()


def log_uniform_shares(words: NDArray[np.int64], num_words: int) -> NDArray[np.float64]:
    """The probability of each word in one draw."""
    return np.log1p(1.0 / (words + 1.0)) / np.log(num_words + 1.0)


def draw_log_uniform(num_samples: int, num_words: int, *key: int) -> tuple[NDArray[np.int64], int]:
    """Different words, in the order in which they came, and how many draws it took; a function of the key."""
    assert num_samples <= num_words
    draws = np.zeros(0, np.int64)
    while True:
        more = uniform(*key, np.arange(len(draws), len(draws) + 2 * num_samples))
        words = np.floor(np.exp(more * np.log(num_words + 1.0))).astype(np.int64) - 1
        draws = np.concatenate((draws, np.clip(words, 0, num_words - 1)))
        _, first = np.unique(draws, return_index=True)
        if len(first) >= num_samples:
            first = np.sort(first)[:num_samples]
            return draws[first], int(first[-1]) + 1


def log_expected_counts(words: NDArray[np.int64], num_words: int, num_draws: int) -> NDArray[np.float64]:
    """log of how often each word is in such a sample: ``1 - (1 - p)^draws``."""
    return np.log(-np.expm1(num_draws * np.log1p(-log_uniform_shares(words, num_words))))
