"""Documents that nearly repeat an earlier one, found by MinHash (Broder 1997) with bands (Leskovec et al. 2014, 3.4).

A document is the set of its sequences of nine characters, case and white space folded, so all scripts are treated alike. The share of
equal numbers in two signatures estimates the Jaccard similarity of the sets, with a deviation of sqrt(s(1-s)/125). Documents that
have all numbers of one band in common are compared. Bands are as long as they can be, five numbers at most, to find 95 % of the
pairs at the threshold: at 0.8 all but one pair in ten thousand. Of each band the first document is remembered. A document
takes about a kilobyte of memory.

N documents, K numbers of a signature, B bands.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SHINGLE = 9
NUM_HASHES = 125
_MOST_ROWS, _LEAST_ROWS = 5, 2  # numbers of a band; with one of them nearly all documents are compared
_FOUND = 0.95  # share of the pairs at the threshold that are compared
_TOGETHER = 2048  # sequences that are hashed at a time
_BUFFER = 1 << 16  # band keys before they are sorted
Keys = NDArray[np.uint64]
Signatures = NDArray[np.uint32]


def _odd_numbers(count: int, seed: int) -> Keys:
    drawn = np.random.Generator(np.random.PCG64(seed)).integers(0, 2**63, count, np.uint64)
    return drawn * np.uint64(2) + np.uint64(1)


_POWERS, _FACTORS, _BAND_FACTORS = _odd_numbers(_SHINGLE, 1), _odd_numbers(NUM_HASHES, 2), _odd_numbers(_MOST_ROWS, 3)


def rows_of_bands(threshold: float) -> int | None:
    """How many numbers a band has; none where even short ones find too few pairs."""
    for rows in range(_MOST_ROWS, _LEAST_ROWS - 1, -1):
        if 1 - (1 - threshold**rows) ** (NUM_HASHES // rows) >= _FOUND:
            return rows
    return None


LEAST_SIMILARITY = 0.22  # the least, in hundredths, for which ``rows_of_bands`` has an answer


def _mixed(numbers: Keys) -> Keys:
    """Every bit of the result depends on every bit of a number (the finaliser of SplitMix64, Steele et al. 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def shingles(text: str) -> Keys:
    """The hashes of the distinct sequences of nine characters; of a shorter text one of the whole."""
    folded = " ".join(text.lower().split())
    codes = np.frombuffer(folded.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    if len(codes) < _SHINGLE:
        codes = np.pad(codes, (0, _SHINGLE - len(codes)))
    windows = np.lib.stride_tricks.sliding_window_view(codes, _SHINGLE)
    return np.unique(_mixed((windows * _POWERS).sum(1, dtype=np.uint64)))


def signatures(texts: Sequence[bytes]) -> Signatures:
    """[N, K] of UTF-8 texts: of each family of hashes the least over all sequences."""
    found = np.empty((len(texts), NUM_HASHES), np.uint32)
    for place, text in enumerate(texts):
        hashes, least = shingles(text.decode("utf-8", "surrogatepass")), np.full(NUM_HASHES, 2**32 - 1, np.uint32)
        for start in range(0, len(hashes), _TOGETHER):
            some = _mixed(hashes[start : start + _TOGETHER, None] * _FACTORS)
            least = np.minimum(least, (some >> np.uint64(32)).astype(np.uint32).min(0))
        found[place] = least
    return found


class NearDuplicates:
    """The documents that were kept so far."""

    def __init__(self, threshold: float) -> None:
        rows = rows_of_bands(threshold)
        assert rows is not None
        self.threshold, self.rows = threshold, rows
        self.kept: list[Signatures] = []
        self.new: dict[int, int] = {}  # band key to document
        self.runs: list[tuple[Keys, NDArray[np.int64]]] = []  # the same, sorted

    def add(self, found_NK: Signatures) -> NDArray[np.bool_]:
        """Whether each document is nearly one that was kept before it; those that are not are kept."""
        return np.asarray([self._is_near(row) for row in found_NK], np.bool_)

    def _is_near(self, signature_K: Signatures) -> bool:
        size = NUM_HASHES // self.rows
        bands = signature_K[: size * self.rows].reshape(size, self.rows).astype(np.uint64)
        factors = _BAND_FACTORS[: self.rows]
        keys_B = _mixed((bands * factors).sum(1, dtype=np.uint64) + np.arange(size, dtype=np.uint64))
        alike = {self.new[key] for key in keys_B.tolist() if key in self.new}
        for keys, documents in self.runs:
            places = np.minimum(np.searchsorted(keys, keys_B), len(keys) - 1)
            alike |= set(documents[places[keys[places] == keys_B]].tolist())
        for document in sorted(alike):
            if float((self.kept[document] == signature_K).mean()) >= self.threshold:
                return True
        for key in keys_B.tolist():
            self.new.setdefault(key, len(self.kept))
        self.kept.append(signature_K.copy())
        if len(self.new) >= _BUFFER:
            self._sort()
        return False

    def _sort(self) -> None:
        """The newest keys become a run; runs of like size are merged, so there are few."""
        keys = np.fromiter(self.new.keys(), np.uint64, len(self.new))
        order = np.argsort(keys)
        self.runs.append((keys[order], np.fromiter(self.new.values(), np.int64, len(self.new))[order]))
        self.new = {}
        while len(self.runs) > 1 and len(self.runs[-2][0]) <= 2 * len(self.runs[-1][0]):
            later, earlier = self.runs.pop(), self.runs.pop()
            joined, first = np.unique(np.concatenate((earlier[0], later[0])), return_index=True)
            self.runs.append((joined, np.concatenate((earlier[1], later[1]))[first]))
