"""All documents of a split as one stream of tokens, with the token that ends a text before, between and after.

Place 0 is an end; document d begins after the end at ``starts[d]``, so that reading n + 1 tokens
from there gives each of its n tokens, and its end, the one before it.
"""

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import generator, hashed
from firth.corpus.format import Split
from firth.corpus.rows import each_epoch

_SHIFT, _ORDER = 41, 42  # what the random numbers here are for


class TokenStream:
    """The stream of a split; nothing is copied before it is read."""

    def __init__(self, split: Split, eos_id: int) -> None:
        self.tokens = split.tokens
        self.eos_id = eos_id
        self.starts = split.document_starts + np.arange(split.num_documents + 1)

    def __len__(self) -> int:
        return int(self.starts[-1]) + 1

    def read(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens at these places, of any shape."""
        document = np.searchsorted(self.starts, places, side="right") - 1
        ends = self.starts[document] == places
        found = self.tokens[np.where(ends, 0, places - document - 1)] if len(self.tokens) else places
        return np.where(ends, self.eos_id, found.astype(np.int64))


class StreamRows:
    """Rows of equal length cut from a stream one after another, across documents; every epoch in
    another order, and from the second on cut at other places."""

    def __init__(self, stream: TokenStream, seq_len: int, seed: int) -> None:
        self.stream, self.seq_len, self.seed = stream, seq_len, seed
        whole = len(stream) - 1
        # One row is left out so that the cuts can move; a stream shorter than two rows is one row, which moves as far
        # as it can.
        moves = whole >= 2 * seq_len
        self.num_rows = whole // seq_len - 1 if moves else min(1, whole)
        self.shifts = seq_len + 1 if moves else max(1, whole - seq_len + 1)
        self._order = each_epoch(lambda epoch: generator(seed, _ORDER, epoch).permutation(self.num_rows))

    def __len__(self) -> int:
        return self.num_rows

    def places(self, first: int, count: int) -> NDArray[np.int64]:
        """Where rows ``first`` to ``first + count`` of the endless sequence begin."""
        found = np.empty(count, np.int64)
        numbers = np.arange(first, first + count)
        for epoch in np.unique(numbers // self.num_rows).tolist():
            mine = numbers // self.num_rows == epoch
            shift = int(hashed(self.seed, _SHIFT, epoch)) % self.shifts if epoch else 0
            found[mine] = shift + self._order(epoch)[numbers[mine] % self.num_rows] * self.seq_len
        return found
