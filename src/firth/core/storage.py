"""What is not on this machine: files by address, and work on a Ray cluster (``Cluster``).

Files and folders by address (``s3://bucket/news``, ``gs://``, ``memory://``): read through a local cache, written so that what is
half there is never taken for whole.

Any store that fsspec knows will do; credentials come from the environment, as the store's own package reads them. The cache
(``FIRTH_CACHE``, or ``~/.cache/firth``) has a folder for each content: its name is a hash of the address and of the checksums,
sizes and times that the store gives, so a file that changed is fetched again. A store has no rename, so the description
(``corpus.json``, ``firth.json``) is written last and removed first: a folder without one is not a corpus. While files are sent
there is a mark beside them, so the same command may go on after a kill, and only what Firth has written is ever replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from firth.core.errors import FirthError, Interrupted
from firth.core.types import Progress

_DESCRIPTIONS = ("corpus.json", "firth.json")
_MARK = ".firth-sending"
_MADE = "made.txt"  # beside a folder that is whole: what it was made with
_NEVER_FETCHED = ("checkpoints", _MARK)
_FLAT = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss")  # stores without folders: "making" one makes a bucket
_PACKAGES = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "requests", "urllib3")  # their errors

Found = TypeVar("Found")


def _open(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    kind = address.partition("://")[0]
    try:
        import fsspec

        store, path = fsspec.core.url_to_fs(address)
        store.invalidate_cache()  # of what was listed before: other processes write, too
        return store, path
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
        raise FirthError(f"{address}: the store failed ({_first_line(error)}); try again") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _PACKAGES:
            raise
        if "credential" in type(error).__name__.lower():
            raise FirthError(
                f"{address}: the store asks for credentials ({_first_line(error)}); set them in the environment"
            ) from None
        raise FirthError(
            f"{address}: the store failed ({_first_line(error)}); check the address of the store and try again"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


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


def made_there(
    address: str,
    overwrite: bool,
    settings: str,
    make: Callable[[Path], Found],
    read: Callable[[Path], Found],
) -> Found:
    """A folder that is made on this machine and sent to an address. Where it was made with the same ``settings`` and only not
    sent to its end, it is read and sent; after an interruption the same command goes on with what is in the cache."""
    store, root = _open(address)
    folder = cache_folder() / "sending" / hashlib.sha256(address.encode()).hexdigest()[:32]
    made, note = folder / PurePosixPath(root).name, folder / _MADE
    with _errors_of(address):
        _claim(store, root, address, overwrite or _note(note) == settings)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(folder, address):
        found = _made_before(made, note, settings, read)
        if found is None:
            try:
                found = make(made)
            except Exception as error:
                if not isinstance(error, Interrupted):
                    shutil.rmtree(folder, ignore_errors=True)
                    _unmark(store, root)
                raise
            note.write_text(settings, encoding="utf-8")
        with _errors_of(address):
            send(made, store, root)  # when it fails, what was made and the mark stay for the same command
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _note(path: Path) -> str | None:
    """The settings of what waits here to be sent."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8")
    return None


def _made_before(made: Path, note: Path, settings: str, read: Callable[[Path], Found]) -> Found | None:
    """What was made with these settings and not sent; anything else goes."""
    with contextlib.suppress(FirthError, OSError):
        if _note(note) == settings:
            return read(made)
    shutil.rmtree(made, ignore_errors=True)
    note.unlink(missing_ok=True)
    return None


def _unmark(store: Any, root: str) -> None:
    """Takes the mark away where nothing was sent; what half a sending left may be replaced only with it."""
    mark = f"{root}/{_MARK}"
    with contextlib.suppress(Exception):  # the error before it is what counts
        store.invalidate_cache()
        if not [name for name in store.find(root) if name.lstrip("/") != mark.lstrip("/")] or any(
            store.exists(f"{root}/{name}") for name in _DESCRIPTIONS
        ):
            store.rm_file(mark)


@contextlib.contextmanager
def _only_one(folder: Path, address: str) -> Iterator[None]:
    lock = FileLock(folder.with_suffix(".lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise FirthError(f"{address}: another process of this machine is writing there now; wait for it") from None
    try:
        yield
    finally:
        lock.release()


def _claim(store: Any, root: str, address: str, overwrite: bool) -> None:
    """Refuses a place that has something already; else leaves a mark there, which also shows that one may write."""
    mark = f"{root}/{_MARK}"
    whole = any(store.exists(f"{root}/{name}") for name in _DESCRIPTIONS)
    if whole or (not store.exists(mark) and store.find(root)):  # a mark beside something whole: nothing was sent yet
        if not overwrite:
            raise FirthError(f"{address}: exists already; choose another --out or replace it with --overwrite")
        if not whole:
            raise FirthError(f"{address}: not a corpus, so --overwrite does not touch it; choose another --out")
    _put(store, mark, None)


def _put(store: Any, goal: str, path: Path | None) -> None:
    """A file to a store, or an empty one."""
    kinds = (store.protocol,) if isinstance(store.protocol, str) else store.protocol
    if not set(kinds) & set(_FLAT):
        store.makedirs(str(PurePosixPath(goal).parent), exist_ok=True)
    if path is None:
        store.pipe_file(goal, b"")
    else:
        store.put_file(str(path), goal)


def send(folder: Path, store: Any, root: str) -> None:
    """A folder to a store: whole as soon as its description is there, which is the last file that is written."""
    _put(store, f"{root}/{_MARK}", None)
    for name in _DESCRIPTIONS:
        if store.exists(f"{root}/{name}"):
            store.rm_file(f"{root}/{name}")
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name in _DESCRIPTIONS)
    for path in files:
        _put(store, f"{root}/{path.relative_to(folder).as_posix()}", path)
    kept = {f"{root}/{path.relative_to(folder).as_posix()}".lstrip("/") for path in files}
    for name in store.find(root):
        if name.lstrip("/") not in kept:
            store.rm_file(name)


Item = TypeVar("Item")
_RETRIES = 3
_LOOPBACK = ("127.0.0.1", "localhost")
_AHEAD = 2  # jobs under way for each core


class Cluster:
    """A running Ray cluster; without an address one is started on this machine for as long as this process runs. A job has
    so many ``cores``."""

    def __init__(self, address: str | None = None, num_cpus: int | None = None, cores: int = 1) -> None:
        if address is None or address.rpartition("://")[2].rpartition(":")[0] in _LOOPBACK:
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # else Ray takes the machine's own address
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
        self.num_cpus, self.cores = max(1, int(ray.cluster_resources().get("CPU", 1))), cores
        most = max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=1)
        if not 1 <= cores <= most:
            raise FirthError(f"cores is {cores}: a job runs on one machine, and the largest of this cluster has {most}")

    def put(self, value: object) -> Any:
        """Something that many jobs need, sent to each node once."""
        return self.ray.put(value)

    def call(self, function: Callable[..., Found], *arguments: object) -> Found:
        """One job, waited for."""
        return self._result(_remote(self.ray, function, self.cores).remote(*arguments))

    def ordered(self, function: Callable[..., Found], jobs: Iterable[Sequence[object]]) -> Iterator[Found]:
        """``function(*job)`` for every job, in the order of the jobs."""
        remote, waiting = _remote(self.ray, function, self.cores), deque[Any]()
        try:
            for job in jobs:
                waiting.append(remote.remote(*job))
                if len(waiting) >= _AHEAD * max(1, self.num_cpus // self.cores):
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            for left in waiting:
                self.ray.cancel(left)

    def paired(
        self, function: Callable[..., Found], items: Iterable[Item], job: Callable[[Item], Sequence[object]]
    ) -> Iterator[tuple[Item, Found]]:
        """Every item, in its order, with ``function(*job(item))``."""
        waiting = deque[Item]()

        def jobs() -> Iterator[Sequence[object]]:
            for item in items:
                waiting.append(item)
                yield job(item)

        for found in self.ordered(function, jobs()):
            yield waiting.popleft(), found

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
def _remote(ray: Any, function: Callable[..., Any], cores: int) -> Any:
    def there(*arguments: object) -> object:
        os.environ["FIRTH_CORES"] = os.environ["OMP_NUM_THREADS"] = str(cores)
        if "torch" in sys.modules:  # of the job before
            sys.modules["torch"].set_num_threads(cores)
        return function(*arguments)

    return ray.remote(num_cpus=cores, max_retries=_RETRIES)(there)


def run_jobs(
    cluster: Cluster | None, function: Callable[..., Found], jobs: Sequence[Sequence[object]], progress: Progress | None
) -> list[Found]:
    """``function(*job)`` for every job: here, one after another, or all on a cluster. The function says itself what is done
    already, so a job that was lost may be run again."""
    if cluster is None:
        return [function(*job) for job in jobs]
    found: list[Found] = []
    for result in cluster.ordered(function, jobs):
        found.append(result)
        if progress is not None:
            progress({"event": "cells", "done": len(found), "total": len(jobs)})
    return found
