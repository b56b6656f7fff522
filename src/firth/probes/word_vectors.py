"""From vectors of pieces to vectors of words.

L layers, T tokens, W words, D hidden size.
"""

import numpy as np
from numpy.typing import NDArray


def of_words(
    hidden_LTD: NDArray[np.float32], words_T: NDArray[np.int64], num_words: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The mean of each word's pieces in every layer, [L, W, D], and which words have any piece; the rest are zeros."""
    inside = words_T >= 0
    numbers = words_T[inside]
    counts_W = np.bincount(numbers, minlength=num_words)[:num_words]
    sums_WLD = np.zeros((num_words, len(hidden_LTD), hidden_LTD.shape[-1]), np.float32)
    kept = numbers < num_words
    np.add.at(sums_WLD, numbers[kept], hidden_LTD[:, inside].transpose(1, 0, 2)[kept])
    means_LWD = sums_WLD.transpose(1, 0, 2) / np.maximum(counts_W, 1)[:, None].astype(np.float32)
    return np.ascontiguousarray(means_LWD), counts_W > 0
