"""Files and folders by address (``s3://bucket/news``, ``gs://``, ``memory://``): read through a local cache, written so that what is
half there is never taken for whole.

Any store that fsspec knows will do; credentials come from the environment, as the store's own package reads them. The cache
(``FIRTH_CACHE``, or ``~/.cache/firth``) has a folder for each content: its name is a hash of the address and of the checksums,
sizes and times that the store gives, so a file that changed is fetched again. A store has no rename, so the description
(``corpus.json``, ``firth.json``) is written last and removed first: a folder without one is not a corpus.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from firth.core.errors import FirthError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}([^/].*)")  # one slash: as Path writes it
_DESCRIPTIONS = ("corpus.json", "firth.json")
_NEVER_FETCHED = ("checkpoints",)


def address_of(path: str | Path) -> str | None:
    """The address that a path stands for; none for a path of this machine."""
    match = _ADDRESS.fullmatch(str(path))
    if match is None or match[1] == "file" or Path(path).exists():
        return None
    return f"{match[1]}://{match[2].rstrip('/')}"


def named(path: Path) -> str:
    """A path as a record keeps it: its address, or absolute."""
    return address_of(path) or str(path.absolute())


def _open(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    kind = address.partition("://")[0]
    try:
        import fsspec

        return fsspec.core.url_to_fs(address)
    except ImportError as error:
        missing = "s3fs" if kind == "s3" else "gcsfs" if kind == "gs" else getattr(error, "name", None) or "fsspec"
        raise FirthError(
            f"{address}: needs a package that is missing: pip install 'firth[cluster]' {missing}"
        ) from None
    except ValueError:
        raise FirthError(f"{address}: '{kind}' is no kind of store that fsspec knows; check the address") from None


@contextlib.contextmanager
def _told(address: str) -> Iterator[None]:
    try:
        yield
    except FirthError:
        raise
    except FileNotFoundError:
        raise FirthError(f"{address}: no such file or folder in the store; check the address") from None
    except PermissionError:
        raise FirthError(f"{address}: the store does not allow it; check the credentials in the environment") from None
    except OSError as error:
        raise FirthError(f"{address}: the store failed ({str(error).splitlines()[0][:200]}); try again") from None


def cache_folder() -> Path:
    return Path(os.environ.get("FIRTH_CACHE") or Path.home() / ".cache" / "firth")


def expand(address: str) -> list[str]:
    """The addresses of the files that an address stands for: a file, a folder or a glob, in sorted order."""
    store, path = _open(address)
    with _told(address):
        if store.isfile(path):
            return [address]
        found = store.glob(path) if any(char in path for char in "*?[") else store.find(path)
        files = [name for name in sorted(found) if store.isfile(name) and not PurePosixPath(name).name.startswith(".")]
    if not files:
        raise FirthError(f"{address}: no such file or folder in the store; check the address")
    kind = address.partition("://")[0]
    return [f"{kind}://{name.lstrip('/')}" for name in files]


def local_path(path: str | Path) -> Path:
    """A file or folder on this machine: fetched once into the cache where an address is given."""
    address = address_of(path)
    if address is None:
        return Path(path)
    store, root = _open(address)
    with _told(address):
        files = [root] if store.isfile(root) else sorted(store.find(root))
        inside = {name: PurePosixPath(name).relative_to(root) if name != root else None for name in files}
        files = [name for name in files if (at := inside[name]) is None or at.parts[0] not in _NEVER_FETCHED]
        if not files:
            raise FileNotFoundError
        facts = "\0".join(f"{name} {store.checksum(name)}" for name in files)
        goal = (
            cache_folder() / hashlib.sha256(f"{address}\0{facts}".encode()).hexdigest()[:32] / PurePosixPath(root).name
        )
        if not goal.exists():
            _fetch(store, files, inside, goal)
    return goal


def _fetch(store: Any, files: list[str], inside: dict[str, PurePosixPath | None], goal: Path) -> None:
    goal.parent.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=goal.parent.parent, prefix=".fetching-"))
    try:
        for name in files:
            at = inside[name]
            target = temporary / goal.name if at is None else temporary / goal.name / at
            target.parent.mkdir(parents=True, exist_ok=True)
            store.get_file(name, str(target))
        with contextlib.suppress(OSError):  # another process was faster with the same content
            os.rename(temporary, goal.parent)
        if not goal.exists():
            raise FirthError(f"{goal}: cannot be put into the cache; name another folder with FIRTH_CACHE")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def written_to(out: Path, overwrite: bool) -> Iterator[Path]:
    """Where a new folder is made: ``out`` itself, or a local one that is sent to the address ``out`` at the end."""
    address = address_of(out)
    if address is None:
        yield out
        return
    store, root = _open(address)
    with _told(address):
        if store.exists(root) and store.find(root) and not overwrite:
            raise FirthError(f"{address}: exists already; choose another --out or replace it with --overwrite")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".sending-") as folder:
        made = Path(folder) / PurePosixPath(root).name
        yield made
        with _told(address):
            send(made, store, root)


def send(folder: Path, store: Any, root: str) -> None:
    """A folder to a store: whole as soon as its description is there, which is the last file that is written."""
    for name in _DESCRIPTIONS:
        if store.exists(f"{root}/{name}"):
            store.rm_file(f"{root}/{name}")
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name in _DESCRIPTIONS)
    for path in files:
        goal = f"{root}/{path.relative_to(folder).as_posix()}"
        store.makedirs(str(PurePosixPath(goal).parent), exist_ok=True)
        store.put_file(str(path), goal)
    kept = {f"{root}/{path.relative_to(folder).as_posix()}".lstrip("/") for path in files}
    for name in store.find(root):
        if name.lstrip("/") not in kept:
            store.rm_file(name)
