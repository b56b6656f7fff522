"""What ELMo reads and predicts at each place of a sentence, in both directions.

G directions (2), B streams, T words.
"""

import numpy as np
from numpy.typing import NDArray

from firth.corpus.format import Split
from firth.corpus.streams import Located, Spellings

Ids = NDArray[np.int64]


def read_both_directions(split: Split, sentence: Located, spellings: Spellings) -> tuple[Ids, Ids]:
    """Types that are read and types that come next, both [G, B, T]: the sentence, and the sentence turned around.

    A sentence of n words has n + 1 places: at each there is a word that is read and one that comes next, the borders of
    the sentence among them."""
    place, size = sentence.offset, sentence.len
    last = len(split.tokens) - 1

    def token(index: Ids) -> Ids:
        return np.asarray(split.tokens[np.clip(sentence.start + index, 0, last)], np.int64)

    inputs = np.stack(
        (
            np.where(place == 0, spellings.begin, token(place - 1)),
            np.where(place == 0, spellings.end, token(size - place)),
        )
    )
    targets = np.stack(
        (
            np.where(place == size, spellings.end, token(place)),
            np.where(place == size, spellings.begin, token(size - 1 - place)),
        )
    )
    return inputs, targets
