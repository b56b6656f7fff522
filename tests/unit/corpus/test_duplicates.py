"""Hashes seen before, in memory and on disk."""

from pathlib import Path

import numpy as np
import pytest

from firth.corpus import parts as duplicates
from firth.corpus.parts import SeenHashes


@pytest.mark.parametrize("in_memory", [1 << 20, 100])
def test_as_a_set_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int) -> None:
    monkeypatch.setattr(duplicates, "_IN_MEMORY", in_memory)
    chance = np.random.default_rng(0)
    seen, known = SeenHashes(tmp_path), set()
    for _ in range(60):
        hashes = chance.integers(0, 3000, chance.integers(0, 90)).astype(np.uint64) * np.uint64(6_148_914_691_236_517)
        wanted = []
        for one in hashes.tolist():
            wanted.append(one in known)
            known.add(one)
        assert seen.add(hashes).tolist() == wanted
    assert sum(map(len, seen.runs)) == len(known)
    assert len(list(tmp_path.iterdir())) == sum(isinstance(run, np.memmap) for run in seen.runs)
    assert len(seen.runs) < 12
