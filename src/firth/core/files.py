"""Files that appear whole or not at all, checksums, and a clear word when the disk is full."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from firth.core.errors import FirthError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_IMPOSSIBLE = {errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EEXIST}


@contextlib.contextmanager
def disk_errors(what: str | Path) -> Iterator[None]:
    """Turns a full, read-only or forbidden disk into one sentence.

    Rust writers (safetensors, tokenizers) report the code only in their message.
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
        if code in _FULL:
            raise FirthError(
                f"{what}: the disk is full or a size limit was reached; free some space and run the same command again"
            ) from error
        if code in _FORBIDDEN:
            raise FirthError(f"{what}: no permission to write there; choose another place") from error
        if code in _IMPOSSIBLE:
            raise FirthError(f"{what}: cannot be made ({os.strerror(code)}); choose another place") from error
        raise


def sync_folder(folder: Path) -> None:
    """Makes renames inside the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_file(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write into; it takes its name only when everything is on disk.

    Without ``durable`` a kill does no harm, but a power cut may: for what is checked before use.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_errors(path):
        try:
            with open(temporary, "wb") as handle:
                yield handle
                handle.flush()
                if durable:
                    os.fsync(handle.fileno())
            os.replace(temporary, path)
            if durable:
                sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    with atomic_file(path) as handle:
        handle.write(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise FirthError(f"{path}: not valid JSON ({error}); the file is damaged or of another kind") from None


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it takes its name only when everything in it is on disk."""
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    with disk_errors(path):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            for name in sorted(temporary.rglob("*")):
                if name.is_file():
                    with open(name, "rb") as handle:
                        os.fsync(handle.fileno())
            sync_folder(temporary)
            os.replace(temporary, path)
            sync_folder(path.parent)
        except FirthError as error:
            raise FirthError(str(error).replace(str(temporary), str(path))) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_files(folder: Path, expected: dict[str, str], remedy: str) -> None:
    """Every named file is there and as it was written; else the file is named."""
    for name, wanted in expected.items():
        path = folder / name
        if not path.is_file():
            raise FirthError(f"{path}: missing; {remedy}")
        if checksum(path) != wanted:
            raise FirthError(f"{path}: damaged (its checksum is not the one it was written with); {remedy}")


def fingerprint(path: Path) -> str:
    """Of a file, or of all files in a folder that make the model (not checkpoints, reports, probes): equal for equal content."""
    if path.is_file():
        return checksum(path)[:16]
    names = sorted(name for name in path.rglob("*") if name.is_file() and not _passed_over(name.relative_to(path)))
    found = hashlib.sha256()
    for name in names:
        found.update(f"{name.relative_to(path)}\0{checksum(name)}\0".encode())
    return found.hexdigest()[:16]


_NOT_MODEL = ("checkpoints", "probe", "report.html", "metrics.jsonl")


def _passed_over(path: Path) -> bool:
    return any(part.startswith(".") or part in _NOT_MODEL for part in path.parts)
