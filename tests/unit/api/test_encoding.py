"""Vectors written to a file by a cluster: what is done is kept until the file is there."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firth
from firth.api import encoding
from firth.core.errors import FirthError


class Here:
    """A cluster that is this process."""

    done = 0

    def __init__(self, address: str | None) -> None: ...

    def ordered(self, function: Callable[..., Any], jobs: Iterable[tuple[object, ...]]) -> Iterator[Any]:
        for job in jobs:
            Here.done += 1
            yield function(*job)


def test_parts_stay_until_the_file_has_its_name(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "Cluster", Here)
    monkeypatch.setattr(encoding, "_BLOCK", 4)
    texts, goal, rename = [f"Text number {number}." for number in range(10)], tmp_path / "vectors.npy", os.replace

    def full(source: Any, target: Any) -> None:
        if Path(target) == goal:
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises((OSError, FirthError), match=r"space|full"):
        firth.encode(run_folder, texts, out=goal, engine="ray")
    assert Here.done == 3
    assert not goal.exists()
    assert len(list((tmp_path / ".vectors.npy.parts").iterdir())) == 3
    monkeypatch.setattr(os, "replace", rename)
    found = firth.encode(run_folder, texts, out=goal, engine="ray")
    assert Here.done == 3  # nothing is made twice
    assert not (tmp_path / ".vectors.npy.parts").exists()
    np.testing.assert_allclose(found, firth.encode(run_folder, texts), atol=1e-6)
