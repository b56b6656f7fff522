"""Noise words for a sampled softmax over words in order of frequency (Jean et al. 2015).

Zipf's law says that word k has about the share ``log((k + 2)/(k + 1)) / log(V + 1)``; draws from it need no
counts. A sample holds each word once: words are drawn until there are enough different ones, and the number
of draws gives the expected count of every word.
"""

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import uniform


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
