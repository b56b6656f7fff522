"""Which documents were seen before, told by 64-bit hashes in sorted runs: small ones in memory,
large ones on disk. A run is merged with the one before it when it has grown to half its size,
so there are few runs and each hash is moved only now and then."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_IN_MEMORY = 1 << 21  # hashes
_PIECES = 256


class SeenHashes:
    """A set of hashes that grows block by block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[NDArray[np.uint64]] = []
        self.num_files = 0

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Remembers the hashes; whether each was there already, or earlier in the same array."""
        fresh, first = np.unique(hashes, return_index=True)
        seen = np.ones(len(hashes), np.bool_)
        seen[first] = False
        for run in self.runs:
            seen |= _contains(run, hashes)
        new = fresh[~seen[first]]
        if len(new):
            self.runs.append(new)
            while len(self.runs) > 1 and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
                self.runs.append(self._merge(self.runs.pop(), self.runs.pop()))
        return seen

    def _merge(self, one: NDArray[np.uint64], two: NDArray[np.uint64]) -> NDArray[np.uint64]:
        size = len(one) + len(two)
        if size <= _IN_MEMORY:
            return np.sort(np.concatenate((one, two)))
        merged = np.memmap(self.folder / f"hashes-{self.num_files}", np.uint64, "w+", shape=size)
        self.num_files += 1
        borders = np.linspace(0, 2.0**64, _PIECES, endpoint=False).astype(np.uint64)
        ones = [*np.searchsorted(one, borders).tolist(), len(one)]
        twos = [*np.searchsorted(two, borders).tolist(), len(two)]
        for place in range(_PIECES):
            part = np.concatenate((one[ones[place] : ones[place + 1]], two[twos[place] : twos[place + 1]]))
            merged[ones[place] + twos[place] :][: len(part)] = np.sort(part)
        for old in (one, two):
            if isinstance(old, np.memmap):
                Path(str(old.filename)).unlink()
        return merged


def _contains(run: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    place = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
    return np.asarray(run[place] == hashes, np.bool_)
