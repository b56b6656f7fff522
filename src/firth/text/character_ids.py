"""Words as the ids of their characters, as ELMo published them (Peters et al. 2018).

A character is a byte of the word's UTF-8. A word is begin-of-word, at most ``max_chars - 2`` bytes,
end-of-word, then padding up to ``max_chars``. A sentence has a word of its own before and behind it.
Everything is shifted by one, so that 0 is free for places where there is no word at all.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

MAX_CHARS = 50
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
NUM_IDS = PADDING + 2  # with the shift
Integer = TypeVar("Integer", bound=np.integer)


def character_ids(words: Sequence[str], max_chars: int = MAX_CHARS) -> NDArray[np.int64]:
    """[words, max_chars]; long words lose their last bytes."""
    ids = np.full((len(words), max_chars), PADDING, np.int64)
    ids[:, 0] = BEGIN_WORD
    for row, word in zip(ids, words, strict=True):
        data = word.encode("utf-8", "ignore")[: max_chars - 2]
        row[1 : len(data) + 1] = np.frombuffer(data, np.uint8)
        row[len(data) + 1] = END_WORD
    return ids + 1


def border_ids(max_chars: int = MAX_CHARS) -> NDArray[np.int64]:
    """[2, max_chars]: the words that begin and end a sentence."""
    ids = np.full((2, max_chars), PADDING, np.int64)
    ids[:, 0] = BEGIN_WORD
    ids[:, 1] = BEGIN_SENTENCE, END_SENTENCE
    ids[:, 2] = END_WORD
    return ids + 1


def used_len(ids: NDArray[np.integer]) -> int:
    """How many characters the longest word has with its borders, before padding begins."""
    return int((ids != PADDING + 1).any(axis=0).nonzero()[0][-1]) + 1 if ids.size else 0


def trimmed(ids: NDArray[Integer], widest: int) -> NDArray[Integer]:
    """The same words with only as much padding as a convolution of that width can tell apart."""
    return np.ascontiguousarray(ids[:, : used_len(ids) + widest])
