"""From what the user names (files, folders, globs, ``-``) to opened, decompressed files."""

import contextlib
import glob
import gzip
import io
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
PACKINGS = (".gz", ".zst")


@dataclass(frozen=True)
class Source:
    """One file of text: where it is, how it is laid out, how it is packed."""

    path: Path
    format: str  # txt, jsonl, csv, tsv, parquet
    packing: str  # "", ".gz", ".zst"
    name: str  # as the user would call it

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def _describe(path: Path, format: str, name: str | None = None) -> Source | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in PACKINGS else ""
    known = FORMATS.get(suffixes[-1]) if suffixes else None
    chosen = known if format == "auto" else format
    return Source(path, chosen, packing, name or str(path)) if chosen else None


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
            inside = [
                source for file in sorted(path.rglob("*")) if file.is_file() if (source := _describe(file, format))
            ]
            if not inside:
                raise FirthError(
                    f"{word}: no text in this folder (looked for {', '.join(FORMATS)}, also .gz and .zst); name the files or their --format"
                )
            found += inside
        elif path.exists():
            found.append(_describe(path, format) or Source(path, "txt", "", word))
        elif matches := sorted(glob.glob(word, recursive=True)):
            found += [
                source for match in matches if Path(match).is_file() if (source := _describe(Path(match), format))
            ]
        else:
            raise FirthError(f"{word}: no such file or folder; check the path")
    for source in found:
        if source.size == 0:
            raise FirthError(f"{source.name}: the file is empty; remove it from the list or fill it")
    if not found:
        raise FirthError(f"{' '.join(inputs)}: matches no text file; check the pattern")
    return found


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
            else:
                handle = stack.enter_context(open(source.path, "rb", buffering=1 << 20))
            yield handle
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FirthError(
            f"{source.name}: the {source.packing} archive is broken or cut off ({error}); copy it again"
        ) from None
    except PermissionError:
        raise FirthError(f"{source.name}: no permission to read it; change its mode or copy it") from None
    except OSError as error:
        if source.packing == ".zst" and error.errno is None:
            raise FirthError(f"{source.name}: the .zst archive is broken or cut off ({error}); copy it again") from None
        raise
