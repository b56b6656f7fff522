"""From what the user names (files, folders, globs, ``-``) to opened, decompressed files."""

import contextlib
import glob
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from firth.core.errors import FirthError

FORMATS = {
    ".txt": "txt",
    ".text": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
PACKINGS = (".gz", ".zst", ".zip")


@dataclass(frozen=True)
class Source:
    """One file of text: where it is, how it is laid out, how it is packed."""

    path: Path
    format: str  # txt, jsonl, csv, tsv, parquet
    packing: str  # "", ".gz", ".zst", ".zip" (of one file)
    name: str  # as the user would call it

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def _describe(path: Path, format: str, otherwise: str | None = None) -> Source | None:
    """What the name says; a name that says nothing is ``otherwise``, or none of ours."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in PACKINGS else ""
    if packing == ".zip":
        inside = _zipped(path)
        if len(inside) != 1:
            if otherwise is None:
                return None
            raise FirthError(f"{path}: holds {len(inside)} files; unpack it and name those that are meant")
        suffixes = [suffix.lower() for suffix in Path(inside[0]).suffixes]
    known = FORMATS.get(suffixes[-1]) if suffixes else None
    chosen = format if format != "auto" else known or otherwise
    return Source(path, chosen, packing, str(path)) if chosen else None


def _zipped(path: Path) -> list[str]:
    """The names of the files in a zip archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [info.filename for info in archive.infolist() if not info.is_dir()]
    except zipfile.BadZipFile as error:
        raise FirthError(f"{path}: the .zip archive is broken or cut off ({error}); copy it again") from None


def _describe_all(paths: list[Path], format: str, otherwise: str | None = None) -> list[Source]:
    return [source for path in paths if path.is_file() if (source := _describe(path, format, otherwise))]


def _inside(folder: Path) -> list[Path]:
    """Everything below a folder in sorted order, except what is hidden."""
    return sorted(
        path for path in folder.rglob("*") if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def find_sources(inputs: list[str], format: str = "auto") -> list[Source]:
    """The files meant by paths, folders (searched whole, in sorted order) and globs."""
    if not inputs:
        raise FirthError("no input: name at least one file, folder or glob, or - for standard input")
    if format != "auto" and format not in FORMATS.values():
        raise FirthError(f"unknown format '{format}': choose txt, jsonl, csv, tsv or parquet")
    found: list[Source] = []
    for word in inputs:
        path = Path(word)
        if path.is_dir():
            inside = _describe_all(_inside(path), format)
            if not inside:
                raise FirthError(
                    f"{word}: no text in this folder (looked for {', '.join(FORMATS)}, also .gz, .zst and .zip); name the files or their --format"
                )
            found += inside
        elif path.exists():
            found += _describe_all([path], format, "txt") or [Source(path, "txt", "", word)]
        elif matches := [Path(match) for match in sorted(glob.glob(word, recursive=True))]:
            found += _describe_all(matches, format) or _describe_all(matches, format, "txt")
        else:
            raise FirthError(f"{word}: no such file or folder; check the path")
    for source in found:
        if source.size == 0:
            raise FirthError(f"{source.name}: the file is empty; remove it from the list or fill it")
    if not found:
        raise FirthError(f"{' '.join(inputs)}: matches no text file; check the pattern")
    return found


@contextlib.contextmanager
def seekable(source: Source) -> Iterator[BinaryIO]:
    """The unpacked bytes as a file that can be read in any order (parquet); unpacked to disk if need be."""
    with contextlib.ExitStack() as stack:
        handle = stack.enter_context(open_source(source))
        if source.packing:
            import shutil
            import tempfile

            spool = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(handle, spool, 1 << 20)
            spool.seek(0)
            handle = cast(BinaryIO, spool)
        yield handle


@contextlib.contextmanager
def open_source(source: Source) -> Iterator[BinaryIO]:
    """The unpacked bytes; a broken or cut-off archive is named."""
    handle: BinaryIO
    try:
        with contextlib.ExitStack() as stack:
            if source.packing == ".gz":
                handle = cast(BinaryIO, stack.enter_context(gzip.open(source.path, "rb")))
            elif source.packing == ".zst":
                import pyarrow

                packed = stack.enter_context(pyarrow.input_stream(str(source.path), compression="zstd"))
                handle = io.BufferedReader(packed, 1 << 20)
            elif source.packing == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(source.path))
                handle = cast(BinaryIO, stack.enter_context(archive.open(_zipped(source.path)[0])))
            else:
                handle = stack.enter_context(open(source.path, "rb", buffering=1 << 20))
            yield handle
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise FirthError(
            f"{source.name}: the {source.packing} archive is broken or cut off ({error}); copy it again"
        ) from None
    except RuntimeError as error:
        if source.packing != ".zip":
            raise
        raise FirthError(f"{source.name}: cannot be unpacked ({error}); unpack it and name the file") from None
    except PermissionError:
        raise FirthError(f"{source.name}: no permission to read it; change its mode or copy it") from None
    except OSError as error:
        if source.packing == ".zst" and error.errno is None:
            raise FirthError(f"{source.name}: the .zst archive is broken or cut off ({error}); copy it again") from None
        raise
