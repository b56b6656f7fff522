"""Which documents were seen before, told by 64-bit hashes in sorted runs: small ones in memory,
large ones on disk. A run is merged with the one before it when it has grown to half its size,
so there are few runs and each hash is moved only now and then."""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.files import atomic_folder
from firth.corpus.parts import SPLITS, read_part

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


class _Types:
    """All types seen so far: hash -> index of first appearance, spelling on disk, count."""

    def __init__(self, spool: Path) -> None:
        self.hashes = np.zeros(0, np.uint64)
        self.index = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)
        self.ends = np.zeros(1, np.int64)
        self.spool = open(spool, "w+b")

    def add(self, spellings: list[bytes], hashes: NDArray[np.uint64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts the types of a part; returns the index of each."""
        place = np.searchsorted(self.hashes, hashes)
        known = np.zeros(len(hashes), np.bool_)
        inside = place < len(self.hashes)
        known[inside] = self.hashes[place[inside]] == hashes[inside]
        fresh = np.flatnonzero(~known)
        fresh_index = len(self.counts) + np.arange(len(fresh))
        lens = [self.spool.write(spellings[one] + b"\n") for one in fresh]
        self.ends = np.concatenate((self.ends, self.ends[-1] + np.cumsum(lens, dtype=np.int64)))
        index = np.empty(len(hashes), np.int64)
        index[known] = self.index[place[known]]
        index[fresh] = fresh_index
        order = np.argsort(hashes[fresh])
        where = np.searchsorted(self.hashes, hashes[fresh][order])
        self.hashes = np.insert(self.hashes, where, hashes[fresh][order])
        self.index = np.insert(self.index, where, fresh_index[order])
        self.counts = np.concatenate((self.counts, np.zeros(len(fresh), np.int64)))
        self.counts[index] += counts
        return index

    def write(self, folder: Path) -> NDArray[np.uint32]:
        """``words.txt`` and ``counts.bin`` by falling frequency; returns index -> id."""
        order = np.argsort(-self.counts, kind="stable")
        new_id = np.empty(len(order), np.uint32)
        new_id[order] = np.arange(len(order), dtype=np.uint32)
        self.spool.flush()
        with open(folder / "words.txt", "wb") as handle:
            if len(order):
                with mmap.mmap(self.spool.fileno(), 0, access=mmap.ACCESS_READ) as spellings:
                    for start, end in zip(self.ends[:-1][order].tolist(), self.ends[1:][order].tolist(), strict=True):
                        handle.write(spellings[start:end])
        self.counts[order].tofile(folder / "counts.bin")
        self.spool.close()
        return new_id


def merge_types(parts: Path, num_parts: int, tokenizer: Path) -> tuple[int, Iterator[dict[str, NDArray[Any]]]]:
    """Writes the words and their counts; returns the number of types and, part by part, the new
    ids of its types."""
    types = _Types(parts / "spellings")
    for number in range(num_parts):
        part = read_part(parts, number)
        found = {}
        for split in SPLITS:
            joined = part[f"{split}_types"].tobytes()
            spellings = joined.split(b"\n") if joined else []
            counts = (
                np.bincount(part[f"{split}_ids"], minlength=len(spellings))
                if split == "train"
                else np.zeros(len(spellings), np.int64)
            )
            found[split] = types.add(spellings, part[f"{split}_hashes"], counts)
        np.savez(parts / f"{number:06d}.map.npz", allow_pickle=False, **found)
    num_types = len(types.counts)
    with atomic_folder(tokenizer) as folder:
        new_id = types.write(folder)

    def remap() -> Iterator[dict[str, NDArray[Any]]]:
        for number in range(num_parts):
            with np.load(parts / f"{number:06d}.map.npz", allow_pickle=False) as found:
                yield {split: new_id[found[split]] for split in SPLITS}

    return num_types, remap()
