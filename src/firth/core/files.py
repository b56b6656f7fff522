"""Files on disk: files and folders that appear whole or not at all, checksums, JSON, tensors (safetensors),
standard input; and the limits for what others made (depth and size of JSON, errors of other libraries).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from filelock import FileLock, Timeout
from pydantic import JsonValue

from firth.core.config import show_bytes
from firth.core.errors import DiskFull, FirthError, missing_package

if TYPE_CHECKING:
    import torch

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_IMPOSSIBLE = {errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EEXIST}
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")  # NumPy does not say why
_PATIENCE_S = 2.0  # for another process that writes the same file
_NOT_MODEL = "checkpoints probe report.html metrics.jsonl dev.jsonl folds.jsonl suspects.tsv README.md".split()


@contextlib.contextmanager
def disk_errors(what: str | Path) -> Iterator[None]:
    """Turns a full, read-only or forbidden disk into a one-sentence ``FirthError``.

    Rust writers (safetensors, tokenizers) report the error code only in their message.
    """
    try:
        yield
    except FirthError:
        raise
    except Exception as error:
        code = error.errno if isinstance(error, OSError) else None
        found = re.search(r"os error (\d+)", str(error))
        if code is None and found:
            code = int(found.group(1))
        if code is None and isinstance(error, OSError) and _SHORT_WRITE.search(str(error)):
            code = errno.ENOSPC
        if code in _FULL:
            raise DiskFull(what) from error
        if code in _FORBIDDEN:
            raise FirthError(f"{what}: no permission to write there; choose another path") from error
        if code in _IMPOSSIBLE:
            raise FirthError(f"{what}: cannot be created ({os.strerror(code)}); choose another path") from error
        raise


def sync_file(path: Path) -> None:
    """Waits until a file is on disk. Windows does so only with files that are open for writing."""
    can_write = os.access(path, os.W_OK)
    if can_write or os.name != "nt":
        with open(path, "r+b" if can_write else "rb") as handle:
            os.fsync(handle.fileno())


def sync_folder(folder: Path) -> None:
    """Makes renames inside the folder durable, where a folder can be opened (not on Windows)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def behind_link(path: Path) -> Path:
    """Where a symbolic link leads: what is written under its name goes there, and the link stays."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def is_special(path: Path) -> bool:
    """A device, a pipe or a socket, such as /dev/null: nothing may take its name."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def require_not_special(path: Path) -> None:
    """For what is written aside and then renamed."""
    if is_special(path):
        raise FirthError(f"{path}: a device or a pipe, which is not replaced; choose another path")


@contextlib.contextmanager
def atomic_file(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write into; it gets its final name only after all bytes are written. A device or a pipe is written to directly.

    ``durable=False`` skips fsync: safe against a killed process, not against a power cut. Use it for
    files that are verified before use.
    """
    if is_special(path):
        with disk_errors(path), open(path, "wb") as handle:
            yield handle
        return
    path = behind_link(path)
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path), claimed(temporary, path):
        try:
            with open(temporary, "wb") as handle:
                yield handle
                handle.flush()
                if durable:
                    os.fsync(handle.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)


@contextlib.contextmanager
def claimed(temporary: Path, path: Path, folder: bool = False) -> Iterator[None]:
    """Makes a temporary file or folder that this process alone writes. One that a killed process left is taken over;
    where another process is at work, that is said in one sentence. Windows has no such locks."""
    while True:
        if folder:
            temporary.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":
            yield
            return
        way = os.O_RDONLY | os.O_NOFOLLOW | (os.O_DIRECTORY if folder else os.O_CREAT)
        descriptor = os.open(temporary, way, 0o666)
        try:
            _lock(descriptor, path)
            if _is_at(descriptor, temporary):
                yield
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether a file that was opened has its name still: it may have been renamed or removed since."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, path: Path) -> None:
    """Waits a moment for another process (two may write the same small file), then refuses."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise FirthError(
                    f"{path}: another process is writing it now; wait for it or choose another path"
                ) from None
            time.sleep(0.02)
        except OSError:  # a file system without locks
            return
        else:
            return


def write_bytes(path: Path, data: bytes) -> None:
    with atomic_file(path) as handle:
        handle.write(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    write_bytes(
        path, text.encode("utf-8", "backslashreplace")
    )  # half a character, as in file names, is escaped as JSON does


def read_json(path: Path, kind: type[dict[str, Any]] | type[list[Any]] | None = None) -> Any:
    """The value of a file, within the limits of ``parse_json``; of this kind (``dict``, ``list``) where one is named."""
    try:
        if not stat.S_ISREG((status := path.stat()).st_mode):  # a pipe would be waited for
            raise FirthError(f"{path}: not a plain file; copy it again")
        if status.st_size > MAX_JSON_BYTES:
            raise FirthError(f"{path}: {show_bytes(status.st_size)} of JSON, which no such file has; check the file")
        found = parse_json(path.read_bytes(), path)
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    if kind is not None and not isinstance(found, kind):
        wanted = "an object with names" if kind is dict else "a list"
        raise FirthError(f"{path}: not {wanted}, as it should be; the file is damaged or has another format")
    return found


@contextlib.contextmanager
def atomic_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill; it gets its final name only after everything in it is on disk. With ``overwrite`` it takes the place
    of the folder of that name, which stays until then."""
    require_not_special(path)
    path = behind_link(path)
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path), claimed(temporary, path, folder=True):
        try:
            if not overwrite and path.is_dir() and any(path.iterdir()):  # another process was faster
                raise FirthError(f"{path}: exists already; choose another path")
            empty_dir(temporary)  # of what a killed process left
            yield temporary
            for name in sorted(temporary.rglob("*")):
                if name.is_file():
                    sync_file(name)
            sync_folder(temporary)
            if overwrite:
                replace_folder(temporary, path)
            else:
                os.replace(temporary, path)
                sync_folder(path.parent)
        except BaseException as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if isinstance(error, FirthError):
                error.args = (str(error).replace(str(temporary), str(path)),)
            raise


def empty_dir(folder: Path, keep: Collection[str] = ()) -> None:
    """Removes what is in a folder, but for these names."""
    for path in [path for path in folder.iterdir() if path.name not in keep]:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def replace_folder(new: Path, out: Path) -> None:
    """Gives ``new`` the name ``out``; what was there stays until then."""
    for folder in (new, *(path for path in new.rglob("*") if path.is_dir())):
        sync_folder(folder)
    if out.exists():
        move_aside(out)
    os.rename(new, out)
    shutil.rmtree(aside(out), ignore_errors=True)
    sync_folder(out.parent)


def aside(path: Path) -> Path:
    """Where a folder waits while another one is made in its place."""
    path = behind_link(path)
    return path.with_name(f".{path.name}.old")


def move_aside(path: Path) -> None:
    require_not_special(path)
    shutil.rmtree(aside(path), ignore_errors=True)
    os.rename(behind_link(path), aside(path))


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_files(folder: Path, expected: dict[str, str], remedy: str) -> None:
    """Raises an error for the first file that is missing or does not match its checksum."""
    for name, wanted in expected.items():
        path = folder / name
        if not path.is_file():
            raise FirthError(f"{path}: missing; {remedy}")
        if checksum(path) != wanted:
            raise FirthError(f"{path}: damaged (its checksum is not the one it was written with); {remedy}")


def fingerprint(path: Path) -> str:
    """A short content hash of a file or a model folder. Checkpoints, reports and probes are not hashed."""
    if path.is_file():
        return checksum(path)[:16]
    names = sorted(name for name in path.rglob("*") if name.is_file() and not _ignored(name.relative_to(path)))
    found = hashlib.sha256()
    for name in names:
        found.update(f"{name.relative_to(path)}\0{checksum(name)}\0".encode())
    return found.hexdigest()[:16]


def _ignored(path: Path) -> bool:
    return any(part.startswith(".") or part in _NOT_MODEL for part in path.parts)


def stdin_lines() -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line without its newline) as lines arrive."""
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise FirthError(f"standard input:{number}: not utf-8; convert it to UTF-8 first") from None
        yield number, line.rstrip("\r\n")


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes the file atomically; equal tensors give equal bytes."""
    from safetensors.torch import save_file

    require_not_special(path)
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        try:
            ready = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
            save_file(ready, temporary, {"format": "pt"})
            sync_file(temporary)
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


_KINDS = ("bool", "uint8", "int8", "int16", "float16", "bfloat16", "int32", "float32", "float64", "int64")
_KIND_NAMES = {"bool": "BOOL", "bfloat16": "BF16"}


def stream_order(tensors: Mapping[str, torch.Tensor]) -> list[str]:
    """The order of tensors in a safetensors file: wide types first, then by name."""
    return sorted(tensors, key=lambda name: (-_KINDS.index(_kind(tensors[name])), name))


def _kind(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def stream_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], read: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """The file that ``save_tensors`` writes, one tensor after another: ``read`` gives all numbers of one that is in shards."""
    import torch

    names, header, at = stream_order(tensors), {"__metadata__": {"format": "pt"}}, 0
    described: dict[str, object] = dict(header)
    for name in names:
        tensor, kind = tensors[name], _kind(tensors[name])
        size = tensor.numel() * tensor.element_size()
        shown = _KIND_NAMES.get(kind) or kind[0].upper() + kind.lstrip("uintfloa")
        described[name] = {"dtype": shown, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as handle:
        handle.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            found = read(tensors[name]).detach().cpu().contiguous()
            handle.write(found.reshape(-1).view(torch.uint8).numpy().data)


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Reads ``.safetensors``, or a PyTorch ``.bin`` that holds plain tensors only."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    except (SafetensorError, RuntimeError, ValueError, EOFError, MemoryError, KeyError) as error:
        raise FirthError(f"{path}: not a complete weights file ({shorten(error)}); copy it again") from None
    except Exception as error:
        raise FirthError(
            f"{path}: contains more than plain tensors, so it is not loaded ({type(error).__name__}); convert it to safetensors"
        ) from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise FirthError(f"{path}: not a plain dict of named tensors; convert it to safetensors")
    for name, tensor in found.items():
        _require_plain(path, name, tensor)
    return {str(name): tensor for name, tensor in found.items()}


def _require_plain(path: Path, name: object, tensor: torch.Tensor) -> None:
    """A pickled tensor may claim more numbers than it stores (stride 0), or store them in other ways."""
    import torch

    plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise FirthError(f"{path}: '{name}' is not a plain tensor with all its numbers; convert it to safetensors")


MAX_JSON_BYTES = 1 << 28
MAX_JSON_DEPTH = 64


def parse_json(
    raw: bytes | str, where: str | Path, remedy: str = "the file is damaged or has another format"
) -> JsonValue:
    """A JSON value that is neither too large nor nested too deeply; what is wrong is said in a sentence."""
    if len(raw) > MAX_JSON_BYTES:
        raise FirthError(f"{where}: more than {show_bytes(MAX_JSON_BYTES)} of JSON; {remedy}")
    try:
        found: JsonValue = json.loads(raw)
    except RecursionError:
        raise FirthError(f"{where}: not valid JSON (nested too deeply); {remedy}") from None
    except ValueError as error:
        raise FirthError(f"{where}: not valid JSON ({shorten(error)}); {remedy}") from None
    if _is_deep(found):
        raise FirthError(f"{where}: not valid JSON (nested too deeply); {remedy}")
    return found


def _is_deep(value: JsonValue) -> bool:
    """Layer by layer: nothing recurses, however deep the value is."""
    layer: list[JsonValue] = [value]
    for _ in range(MAX_JSON_DEPTH):
        inner: list[JsonValue] = []
        for one in layer:
            if isinstance(one, dict):
                inner += [part for part in one.values() if isinstance(part, dict | list)]
            elif isinstance(one, list):
                inner += [part for part in one if isinstance(part, dict | list)]
        if not inner:
            return False
        layer = inner
    return True


def shorten(error: object, most: int = 160) -> str:
    """The first line of a library's message, not longer than a sentence may be."""
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else type(error).__name__
    return first if len(first) <= most else f"{first[: most - 3]}..."


@contextmanager
def foreign_errors(where: str | Path, what: str) -> Iterator[None]:
    """Around the reading of a file by a library: whatever it raises becomes one sentence. A panic of a Rust library is
    no ``Exception``, so it is known by its name; other such exceptions stop the process."""
    try:
        yield
    except FirthError:
        raise
    except ModuleNotFoundError as error:
        raise missing_package(error) from None
    except FileNotFoundError:
        raise FirthError(f"{where}: no such file") from None
    except PermissionError:
        raise FirthError(f"{where}: no permission to read it; change its mode or copy it") from None
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = shorten(error) or type(error).__name__
        raise FirthError(f"{where}: not {what} ({reason}); copy it again") from error


@contextlib.contextmanager
def lock_folder(folder: Path, refusal: str, named: Path | None = None) -> Iterator[None]:
    """Only one process works in a folder at a time; another one gets the refusal, which names the folder."""
    require_not_special(folder)
    lock = FileLock(_lock_path(folder), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise FirthError(f"{named or folder}: {refusal}") from None
    try:
        yield
    finally:
        lock.release()


def _lock_path(folder: Path) -> Path:
    """A file for the lock of a folder, outside of it: Windows moves no folder in which a file is open."""
    key = hashlib.sha256(f"{Path.home()} {folder.resolve()}".encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"firth-{key}.lock"
