"""The working folder of ``prepare``: hidden beside the goal, locked, kept for going on after a kill.

What is wrong with the input or the disk leaves nothing behind, not even folders made on the way.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError, Interrupted
from firth.core.files import disk_errors, read_json, sync_folder, write_json


def check_goal(out: Path, overwrite: bool) -> None:
    """The goal is free, or is a corpus that may be replaced."""
    if not out.exists():
        return
    if not overwrite:
        raise FirthError(f"{out}: exists already; choose another --out, or replace it with --overwrite")
    if not out.is_dir() or not ((out / "corpus.json").is_file() or not any(out.iterdir())):
        raise FirthError(f"{out}: not a corpus, so --overwrite does not touch it; choose another --out")


@contextmanager
def working_folder(out: Path) -> Iterator[Path]:
    """Only an interruption leaves the folder there, so that the same command can go on."""
    folder = out.with_name(f".{out.name}.partial")
    made = [parent for parent in folder.parents if not parent.exists()]
    with disk_errors(out):
        folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise FirthError(
            f"{out}: another firth prepare is writing this corpus now; wait for it or choose another --out"
        ) from None
    try:
        with disk_errors(out):
            yield folder
    except Interrupted:
        raise
    except (FirthError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        for parent in made:  # the deepest first; one that is no longer empty stays
            with suppress(OSError):
                parent.rmdir()
        raise
    finally:
        os.close(lock)


def begin(folder: Path, settings: dict[str, Any]) -> None:
    """Keeps what an earlier try with the same settings left, and nothing else."""
    path = folder / "settings.json"
    if path.is_file() and read_json(path) == settings:
        return
    for old in folder.iterdir():
        if old.name != "stdin":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    write_json(path, settings)


def publish(new: Path, out: Path) -> None:
    """Gives ``new`` the name ``out``; what was there stays until then."""
    for folder in (new, *(path for path in new.rglob("*") if path.is_dir())):
        sync_folder(folder)
    old = out.with_name(f".{out.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        os.rename(out, old)
    os.rename(new, out)
    shutil.rmtree(old, ignore_errors=True)
    sync_folder(out.parent)
