"""Input files: resolves paths, folders and globs, decompresses and decodes; reads tables (tsv, csv, jsonl, a JSON list,
parquet) as rows with line numbers.
"""

import bz2
import codecs
import contextlib
import glob
import gzip
import io
import lzma
import os
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from firth.core.config import address_of, local_path
from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.core.storage import expand

FORMATS = {
    ".txt": "txt",
    ".text": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".docx": "docx",
    ".pdf": "pdf",
    ".tar": "tar",
    ".tgz": "tar",
}
PACKINGS = (".gz", ".bz2", ".xz", ".zst", ".zip")
_NOT_READ = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), "a spreadsheet, which is not read; save it as .csv (UTF-8)"),
    **dict.fromkeys((".doc", ".odt", ".rtf"), "a document of a kind that is not read; save it as .docx or .txt"),
    **dict.fromkeys(
        (".7z", ".rar", ".lz4", ".lz", ".lzma", ".br", ".z"),
        f"packed in a way that is not read; unpack it or pack it as one of {', '.join(PACKINGS)}",
    ),
}
TEXT_ONLY = ("docx", "pdf", "tar")  # documents without columns
_ENDINGS = ", ".join(dict.fromkeys(FORMATS.values()))


class PassedOver(UserWarning):
    """Of files that were named together with texts, or lie beside them, some were not read."""


def say_passed_over(name: str, endings: Counter[str], what: str) -> None:
    """Warns of what was not read, counted by its kind."""
    if endings:
        shown = ", ".join(f"{ending} {count:,}" for ending, count in endings.most_common(8))
        more = ", ..." if len(endings) > 8 else ""
        count = f"{endings.total():,} {what}{'s' * (endings.total() > 1)}"
        warnings.warn(f"{name}: passed over {count} ({shown}{more})", PassedOver, stacklevel=2)


class Meter:
    """How far a file has been read: the place in the compressed bytes, or a share that its reader sets."""

    def __init__(self) -> None:
        self.raw: BinaryIO | None = None
        self.share: float | None = None
        self.done = False

    def place(self, size: int) -> int:
        if self.done:
            return size
        if self.share is not None:
            return int(self.share * size)
        return 0 if self.raw is None else min(self.raw.tell(), size)


@dataclass(frozen=True)
class Source:
    """One input file with its format and compression."""

    path: Path
    format: str  # txt, json, jsonl, csv, tsv, parquet, arrow, docx, pdf, tar
    packing: str  # compression: "", ".gz", ".bz2", ".xz", ".zst", ".zip" (with one member)
    name: str  # for messages, as the user wrote it
    meter: Meter = field(default_factory=Meter, compare=False, repr=False)

    @property
    def size(self) -> int:
        return self.path.stat().st_size


Stamp: TypeAlias = tuple[int, int]
"""Size and time of the last change."""


def stamps(sources: Sequence[Source]) -> list[Stamp]:
    """By which a change of files is seen while they are read."""
    found = [source.path.stat() for source in sources]
    return [(one.st_size, one.st_mtime_ns) for one in found]


def require_unchanged(sources: Sequence[Source], before: Sequence[Stamp]) -> None:
    """Refuses what was made of files that another program wrote at the same time."""
    for source, then, now in zip(sources, before, stamps(sources), strict=True):
        if then != now:
            raise FirthError(
                f"{source.name}: changed while it was read; wait until it is whole and run the command again"
            )


def _describe(path: Path, format: str, otherwise: str | None = None) -> Source | None:
    """The format by the file's suffixes; an unknown suffix means ``otherwise``, or None."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in PACKINGS else ""
    if suffixes and suffixes[-1] == ".tgz":
        packing = ".gz"
    if packing == ".zip":
        inside = _zipped(path)
        if len(inside) != 1:
            if otherwise is None:
                return None
            raise FirthError(f"{path}: contains {len(inside)} files, not one; unpack it and name the right ones")
        suffixes = [suffix.lower() for suffix in Path(inside[0]).suffixes]
    if otherwise is not None and format == "auto" and suffixes and suffixes[-1] in _NOT_READ:
        raise FirthError(f"{shown_name(path)}: {_NOT_READ[suffixes[-1]]} and name that")
    known = FORMATS.get(suffixes[-1]) if suffixes else None
    chosen = format if format != "auto" else known or otherwise
    return Source(path, chosen, packing, shown_name(path)) if chosen else None


def shown_name(path: Path) -> str:
    """The name of a file as text; bytes that are not UTF-8 as their numbers."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _zipped(path: Path) -> list[str]:
    """The names of the files in a zip archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [info.filename for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError) as error:
        raise FirthError(f"{path}: the .zip archive is damaged or truncated ({error}); copy it again") from None


def _describe_all(paths: list[Path], format: str, otherwise: str | None = None) -> list[Source]:
    return [source for path in paths if path.is_file() if (source := _describe(path, format, otherwise))]


def _inside(folder: Path) -> list[Path]:
    """All files below a folder in sorted order, except hidden ones."""
    return sorted(
        path for path in folder.rglob("*") if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _of_folder(word: str, folder: Path, format: str) -> list[Source]:
    """The texts of a folder; what else is there is passed over."""
    paths = _of_dataset(folder) or [path for path in _inside(folder) if path.is_file()]
    found = [source for source in _describe_all(paths, format) if _is_text(source, format)]
    if not found:
        raise FirthError(
            f"{word}: no text in this folder (looked for {', '.join(name for name in FORMATS if name != '.json')}, also {', '.join(PACKINGS)}); name the files or their --format"
        )
    _say_left(word, paths, found)
    return found


def _is_text(source: Source, format: str) -> bool:
    """Of what was found and not named: a .json may be anything."""
    return source.format != "json" or format == "json"


def _say_left(word: str, paths: list[Path], found: list[Source]) -> None:
    read = {source.path for source in found}
    left = (path for path in paths if path not in read and path.is_file())
    say_passed_over(word, Counter(path.suffix.lower() or "without an ending" for path in left), "file")


def _of_dataset(folder: Path) -> list[Path]:
    """The arrow files of a folder that ``datasets`` wrote (``save_to_disk``), in their order; nothing for other folders."""
    if (folder / "dataset_dict.json").is_file():
        splits = sorted(path.name for path in folder.iterdir() if (path / "state.json").is_file())
        raise FirthError(
            f"{folder}: a dataset of several splits ({', '.join(splits)}); name one, such as {folder / 'train'}"
        )
    state = folder / "state.json"
    if not state.is_file() or not (folder / "dataset_info.json").is_file():
        return []
    found = read_json(state)
    files = found.get("_data_files") if isinstance(found, dict) else None
    names = [one.get("filename") for one in files if isinstance(one, dict)] if isinstance(files, list) else []
    if isinstance(found, dict) and found.get("_indices_data_files"):
        raise FirthError(f"{folder}: a selection of rows; write it with flatten_indices() before save_to_disk()")
    paths = [folder / name for name in names if isinstance(name, str) and Path(name).name == name]
    if not paths or not all(path.is_file() for path in paths):
        raise FirthError(f"{state}: names files that are not here; copy the whole folder again")
    return paths


def find_sources(inputs: list[str], format: str = "auto", skip_empty: bool = False) -> list[Source]:
    """The files that paths, folders (searched recursively, in sorted order) and globs stand for; ``skip_empty``: without the
    empty ones of a folder that has others."""
    if not inputs:
        raise FirthError("no input: name at least one file, folder or glob, or - for standard input")
    if format != "auto" and format not in FORMATS.values():
        raise FirthError(f"unknown format '{format}': choose one of {_ENDINGS}")
    found: list[Source] = []
    for word in inputs:
        if not word.strip():  # Path("") would be the folder one is in
            raise FirthError("an empty text or name: write some words, or name a file, folder or glob")
        path = Path(word)
        address = address_of(word)
        if address is not None:
            for one in expand(address):
                sources = _describe_all([local_path(one)], format, None if one != address else "txt")
                found += [replace(source, name=one) for source in sources if one == address or _is_text(source, format)]
        elif path.is_dir():
            inside = _of_folder(word, path, format)
            found += [source for source in inside if source.size] or inside if skip_empty else inside
        elif path.exists():
            found += _describe_all([path], format, "txt") or [Source(path, "txt", "", word)]
        elif matches := [Path(match) for match in sorted(glob.glob(word, recursive=True))]:
            sources = _describe_all(matches, format) or _describe_all(matches, format, "txt")
            _say_left(word, matches, sources)
            found += sources
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
    """The decompressed bytes as a seekable file (for parquet); a temporary file if compressed."""
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


class _Unxz(io.RawIOBase):
    """The content of an .xz file. Python's own reader takes as much memory as the file asks for."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw, self.part = raw, self._new()

    def _new(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        while True:
            data = b""
            if self.part.eof:  # another stream may follow, after zeros
                data = self.part.unused_data.lstrip(b"\0") or self.raw.read(1 << 16).lstrip(b"\0")
                if not data:
                    return 0
                self.part = self._new()
            elif self.part.needs_input and not (data := self.raw.read(1 << 16)):
                raise EOFError("it ends too early")
            found = self.part.decompress(data, len(buffer))
            if found:
                buffer[: len(found)] = found
                return len(found)


@contextlib.contextmanager
def open_source(source: Source) -> Iterator[BinaryIO]:
    """The decompressed bytes; a damaged archive raises a ``FirthError``."""
    handle: BinaryIO
    try:
        with contextlib.ExitStack() as stack:
            raw = stack.enter_context(open(source.path, "rb", buffering=1 << 20))
            meter = source.meter
            meter.raw, meter.share, meter.done = raw, None, False
            if source.packing == ".gz":
                handle = cast(BinaryIO, stack.enter_context(gzip.open(raw, "rb")))
            elif source.packing == ".bz2":
                handle = cast(BinaryIO, stack.enter_context(bz2.open(raw, "rb")))
            elif source.packing == ".xz":
                handle = io.BufferedReader(_Unxz(raw), 1 << 20)
            elif source.packing == ".zst":
                import pyarrow

                packed = stack.enter_context(pyarrow.CompressedInputStream(raw, "zstd"))
                handle = io.BufferedReader(packed, 1 << 20)
            elif source.packing == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(raw))
                handle = cast(BinaryIO, stack.enter_context(archive.open(_zipped(source.path)[0])))
            else:
                handle = raw
            try:
                yield handle
                meter.done = True
            finally:
                meter.raw = None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, OverflowError) as error:
        raise FirthError(
            f"{source.name}: the {source.packing} archive is damaged or truncated ({error}); copy it again"
        ) from None
    except RuntimeError as error:  # NotImplementedError is one
        if source.packing != ".zip":
            raise
        raise FirthError(f"{source.name}: cannot be unpacked ({error}); unpack it and name the file") from None
    except PermissionError:
        raise FirthError(f"{source.name}: no permission to read it; change its mode or copy it") from None
    except OSError as error:
        if source.packing and error.errno is None:
            raise FirthError(
                f"{source.name}: the {source.packing} archive is damaged or truncated ({error}); copy it again"
            ) from None
        raise


MAX_LINE_CHARS = 16_000_000
_BLOCK_BYTES = 1 << 20
_XZ_BYTES = 1 << 28


def text_decoder(encoding: str) -> codecs.IncrementalDecoder:
    """Refuses an encoding that does not exist, and those that are not of text."""
    try:
        found = codecs.lookup(encoding)
        if found._is_text_encoding and "\0" not in encoding:  # what Python's own open() asks
            return codecs.getincrementaldecoder(encoding)()
        raise LookupError
    except (LookupError, ValueError):
        raise FirthError(
            f"unknown encoding '{encoding}': use one of Python's names, such as utf-8, gb18030 or latin-1"
        ) from None


_MARKS = (  # byte order marks; that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def marked_encoding(raw: bytes, encoding: str) -> str:
    """The encoding that a byte order mark names, where the user did not ask for another one than UTF-8."""
    if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        return encoding
    return next((name for mark, name in _MARKS if raw.startswith(mark)), encoding)


def require_characters(text: str, encoding: str, name: str, line: int = 1) -> None:
    """Refuses halves of characters, which some encodings (utf-7, unicode_escape) can write and no tokenizer can read."""
    if encoding.lower() in ("utf-8", "utf8"):  # has been looked at
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line += text.count("\n", 0, error.start)
        raise FirthError(
            f"{name}:{line}: half a character (U+{ord(text[error.start]):04X}), which no {encoding} file of text has; fix this line or name the right --encoding"
        ) from None


def text_blocks(source: Source, encoding: str) -> Iterator[str]:
    """The decoded text in blocks of arbitrary boundaries, without a leading byte order mark."""
    decoder = text_decoder(encoding)
    line = 1
    first = True
    with open_source(source) as handle:
        final = False
        while not final:
            raw = handle.read(_BLOCK_BYTES)
            final = not raw
            if first and (marked := marked_encoding(raw, encoding)) != encoding:
                encoding, decoder = marked, text_decoder(marked)
            try:
                text = decoder.decode(raw, final)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                raise FirthError(
                    f"{source.name}:{line}: not {encoding} (byte 0x{error.object[error.start]:02x}); convert it, or name its --encoding, for example gb18030 or latin-1"
                ) from None
            except UnicodeError as error:
                raise FirthError(f"{source.name}:{line}: not {encoding} ({error}); name the right --encoding") from None
            if first and text:
                text = text.removeprefix("\ufeff")
                first = False
            if "\0" in text:
                line += text.count("\n", 0, text.index("\0"))
                raise FirthError(
                    f"{source.name}:{line}: contains NUL bytes: it is UTF-16 or not text; convert it to UTF-8 or name its --encoding"
                )
            require_characters(text, encoding, source.name, line)
            line += text.count("\n")
            if text:
                yield text


def numbered_lines(source: Source, encoding: str) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line without its newline)."""
    number = 0
    held = ""
    for block in text_blocks(source, encoding):
        lines = (held + block).split("\n")
        held = lines.pop()
        if len(held) > MAX_LINE_CHARS:
            raise FirthError(
                f"{source.name}:{number + len(lines) + 1}: a line of more than {MAX_LINE_CHARS // 1_000_000} MB; read it with --layout file if it is one text, or split it into lines"
            )
        for line in lines:
            number += 1
            yield number, line.rstrip("\r")
    if held:
        yield number + 1, held.rstrip("\r")
