"""One numbering of all word types from the lists of the parts, in bounded memory.

Types are told apart by 64-bit hashes kept in sorted arrays (24 bytes a type); their spellings lie
on disk until the end. Numbers go by frequency in the training split, ties by first appearance.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.files import atomic_folder
from firth.corpus.parts import SPLITS, read_part


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
