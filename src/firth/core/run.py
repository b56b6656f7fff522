"""A run directory: what was trained, how, on what, and how far it got (``firth.json``)."""

import contextlib
import fcntl
import os
import platform
import shutil
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.files import disk_errors, read_json, write_json

FORMAT = 1
_PACKAGES = ("firth", "torch", "numpy", "tokenizers", "safetensors")


def versions() -> dict[str, str]:
    """Of what the result depends on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


class Run:
    """A folder with ``firth.json``, ``metrics.jsonl``, ``checkpoints/`` and, at the end, the model."""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder = folder
        self.facts = facts

    @classmethod
    def create(
        cls, folder: Path, facts: dict[str, Any], overwrite: bool = False, prepared: tuple[str, ...] = ()
    ) -> "Run":
        """``prepared`` are names that stand in the folder already."""
        cls.clear(folder, overwrite, prepared)
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        run = cls(folder, {"format": FORMAT, "status": "started", "versions": versions(), **facts})
        run.save()
        return run

    @classmethod
    def clear(cls, folder: Path, overwrite: bool, prepared: tuple[str, ...] = ()) -> None:
        """Makes sure that a run can be begun here: nothing is in the way, or an old run may go."""
        if not folder.exists():
            return
        found = folder.iterdir() if folder.is_dir() else [folder]
        if all(path.name in prepared for path in found):
            return
        if not overwrite:
            hint = f", go on with --resume {folder}," if (folder / "firth.json").is_file() else ""
            raise FirthError(f"{folder}: exists already; choose another --out{hint} or replace it with --overwrite")
        if not (folder / "firth.json").is_file():
            raise FirthError(f"{folder}: not a run of Firth, so it is not overwritten; choose another --out")
        with cls(folder, {}).lock():
            shutil.rmtree(folder)

    @classmethod
    def keep_apart(cls, folder: Path, sources: Iterable[Path], overwrite: bool) -> None:
        """A run that is replaced must not hold what the new one is made from."""
        for path in sources if overwrite else ():
            if path.absolute().resolve().is_relative_to(folder.absolute().resolve()):
                raise FirthError(f"{path}: lies in the run that is to be replaced ({folder}); choose another --out")

    @classmethod
    def open(cls, folder: Path) -> "Run":
        if not folder.exists():
            raise FirthError(f"{folder}: no such run; check the path")
        if not (folder / "firth.json").is_file():
            raise FirthError(
                f"{folder}: not a run of Firth (no firth.json in it); name a folder that firth pretrain made"
            )
        facts = read_json(folder / "firth.json")
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise FirthError(f"{folder / 'firth.json'}: made by another version of Firth; train it again")
        missing = [name for name in ("kind", "recipe", "status", "config", "corpus") if name not in facts]
        if missing:
            raise FirthError(f"{folder / 'firth.json'}: damaged ({', '.join(missing)} missing); train it again")
        return cls(folder, facts)

    def save(self, **changes: Any) -> None:
        self.facts |= changes
        write_json(self.folder / "firth.json", self.facts)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Only one process trains a run at a time."""
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FirthError(
                    f"{self.folder}: another process is training this run; wait for it or stop it"
                ) from None
            yield
        finally:
            os.close(handle)
