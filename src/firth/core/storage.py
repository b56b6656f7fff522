"""What is not on this machine: files by address, and work on a Ray cluster (``Cluster``).

Files and folders by address (``s3://bucket/news``, ``gs://``, ``memory://``): read through a local cache, written so that what is
half there is never taken for whole.

Any store that fsspec knows will do; credentials come from the environment, as the store's own package reads them. The cache
(``FIRTH_CACHE``, or ``~/.cache/firth``) has a folder for each content: its name is a hash of the address and of the checksums,
sizes and times that the store gives, so a file that changed is fetched again. A store has no rename, so the description
(``corpus.json``, ``firth.json``) is written last and removed first: a folder without one is not a corpus.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from firth.core.errors import FirthError

_DESCRIPTIONS = ("corpus.json", "firth.json")
_NEVER_FETCHED = ("checkpoints",)


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
def _errors_of(address: str) -> Iterator[None]:
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
    with _errors_of(address):
        if store.isfile(path):
            return [address]
        found = store.glob(path) if any(char in path for char in "*?[") else store.find(path)
        files = [name for name in sorted(found) if store.isfile(name) and not PurePosixPath(name).name.startswith(".")]
    if not files:
        raise FirthError(f"{address}: no such file or folder in the store; check the address")
    kind = address.partition("://")[0]
    return [f"{kind}://{name.lstrip('/')}" for name in files]


def fetch(address: str) -> Path:
    """The file or folder of an address in the cache, fetched if it is not there yet."""
    store, root = _open(address)
    with _errors_of(address):
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
def sent_to(address: str, overwrite: bool) -> Iterator[Path]:
    """A new folder of this machine that is sent to an address at the end."""
    store, root = _open(address)
    with _errors_of(address):
        if store.exists(root) and store.find(root) and not overwrite:
            raise FirthError(f"{address}: exists already; choose another --out or replace it with --overwrite")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".sending-") as folder:
        made = Path(folder) / PurePosixPath(root).name
        yield made
        with _errors_of(address):
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


Found = TypeVar("Found")
_RETRIES = 3
_AHEAD = 2  # jobs under way for each core


class Cluster:
    """A running Ray cluster; without an address one is started on this machine for as long as this process runs."""

    def __init__(self, address: str | None = None, num_cpus: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise FirthError("--engine ray needs the package ray: pip install 'firth[cluster]'") from None
        self.ray: Any = ray
        if not ray.is_initialized():
            if address is not None:
                _require_answer(address)
            own: dict[str, Any] = {"num_cpus": num_cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            try:
                ray.init(
                    address=address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **({} if address else own),
                )
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise FirthError(
                    f"--address {address}: no Ray cluster answers there ({str(error).splitlines()[0]}); start one with: ray start --head"
                ) from None
        self.num_cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def put(self, value: object) -> Any:
        """Something that many jobs need, sent to each node once."""
        return self.ray.put(value)

    def call(self, function: Callable[..., Found], *arguments: object) -> Found:
        """One job, waited for."""
        return self._result(_remote(self.ray, function).remote(*arguments))

    def ordered(self, function: Callable[..., Found], jobs: Iterable[Sequence[object]]) -> Iterator[Found]:
        """``function(*job)`` for every job, in the order of the jobs."""
        remote, waiting = _remote(self.ray, function), deque[Any]()
        try:
            for job in jobs:
                waiting.append(remote.remote(*job))
                if len(waiting) >= _AHEAD * self.num_cpus:
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            for left in waiting:
                self.ray.cancel(left)

    def _result(self, reference: Any) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from None
            raise
        except errors.RayError as error:
            raise FirthError(
                f"a worker of the Ray cluster was lost {1 + _RETRIES} times ({type(error).__name__}); see ray status, then run the same command again"
            ) from None


def _require_answer(address: str) -> None:
    """Refuses an address where nothing listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        if address == "auto":
            return
        raise FirthError(
            f"--address {address}: not an address of a cluster; write HOST:PORT, or auto on one of its machines"
        )
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise FirthError(
            f"--address {address}: no Ray cluster answers there ({error}); start one with: ray start --head"
        ) from None


@cache
def _remote(ray: Any, function: Callable[..., Any]) -> Any:
    return ray.remote(num_cpus=1, max_retries=_RETRIES)(function)
