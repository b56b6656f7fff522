"""Documents packed into rows of one length, and what is drawn anew in every epoch."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.seeds import generator
from firth.corpus.format import Split

_Drawn = TypeVar("_Drawn")


def each_epoch(draw: Callable[[int], _Drawn]) -> Callable[[int], _Drawn]:
    """Draws once an epoch; two are kept, since batches are read ahead across a border."""
    return lru_cache(2)(draw)


def need_text(split: Split, size: int, least: int = 1) -> None:
    """Refuses a split that gives fewer than ``least`` rows, or tokens, to train on."""
    if size < least:
        raise FirthError(f"{split.folder}: no text to train on; prepare a corpus with more documents")


def cut_documents(document_starts: NDArray[np.int64], max_len: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(start, length) of the sequences of at most ``max_len`` tokens that the documents fall into."""
    lens = np.diff(document_starts)
    counts = -(-lens // max_len)
    document = np.repeat(np.arange(len(lens)), counts)
    place = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = document_starts[:-1][document] + place * max_len
    return starts, np.minimum(max_len, lens[document] - place * max_len)


def pack(lens: NDArray[np.int64], seq_len: int) -> list[tuple[list[int], int]]:
    """Which lengths share a row, and how many such rows: the longest first, filled up with the
    longest that still fits (Krell et al. 2021). Works on the histogram, so its cost does not
    grow with the corpus."""
    left = np.bincount(lens, minlength=seq_len + 1)
    rows: list[tuple[list[int], int]] = []
    while left.any():
        room, combination = seq_len, []
        taken = np.zeros_like(left)
        while room > 0:
            fitting = np.flatnonzero(left[: room + 1] - taken[: room + 1] > 0)
            if not len(fitting) or fitting[-1] == 0:
                break
            combination.append(int(fitting[-1]))
            taken[fitting[-1]] += 1
            room -= int(fitting[-1])
        times = int((left[taken > 0] // taken[taken > 0]).min())
        left -= times * taken
        rows.append((combination, times))
    return rows


class PackedRows:
    """The rows of a split: row r holds the sequences ``members[first[r]:first[r + 1]]``."""

    def __init__(
        self, starts: NDArray[np.int64], lens: NDArray[np.int64], seq_len: int, num_special: int, seed: int
    ) -> None:
        """Sequences by (start, length); ``num_special`` tokens are added to each."""
        self.seed = seed
        self.starts, self.lens = starts, lens
        full = lens + num_special
        order = generator(seed, 1).permutation(len(full))
        by_len = order[np.argsort(full[order], kind="stable")]
        next_of = np.concatenate(([0], np.cumsum(np.bincount(full, minlength=seq_len + 1))))[:-1]
        members: list[NDArray[np.int64]] = []
        sizes: list[NDArray[np.int64]] = []
        for combination, times in pack(full, seq_len):
            block = np.empty((times, len(combination)), np.int64)
            for column, length in enumerate(combination):
                block[:, column] = by_len[next_of[length] : next_of[length] + times]
                next_of[length] += times
            members.append(block.reshape(-1))
            sizes.append(np.full(times, len(combination)))
        self.members = np.concatenate(members) if members else np.zeros(0, np.int64)
        self.first = np.concatenate(([0], np.cumsum(np.concatenate(sizes)))) if sizes else np.zeros(1, np.int64)
        self._order = each_epoch(lambda epoch: generator(seed, 2, epoch).permutation(len(self)))

    @classmethod
    def of_documents(cls, split: Split, seq_len: int, num_special: int, seed: int) -> "PackedRows":
        """The documents of a split, cut wherever they are longer than a row."""
        return cls(*cut_documents(split.document_starts, seq_len - num_special), seq_len, num_special, seed)

    def __len__(self) -> int:
        return len(self.first) - 1

    def numbers(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(row, epoch) of ``count`` rows from place ``first`` of the endless sequence of epochs."""
        places = np.arange(first, first + count)
        epochs = places // len(self)
        rows = np.empty(count, np.int64)
        for epoch in np.unique(epochs).tolist():
            rows[epochs == epoch] = self._order(epoch)[places[epochs == epoch] % len(self)]
        return rows, epochs

    def sequences(self, row: int) -> NDArray[np.int64]:
        """The sequences that share a row."""
        return self.members[self.first[row] : self.first[row + 1]]
