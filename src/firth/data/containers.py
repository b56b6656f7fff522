"""Documents in containers: word processor files (docx), pdf, tar archives of texts as WebDataset writes them, and the arrow
files of Hugging Face's ``datasets``. Nothing is unpacked to disk, and a file that unpacks to more than it should is refused.
"""

import json
import tarfile
import zipfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from firth.core.errors import FirthError, import_extra, nearest
from firth.core.files import foreign_errors
from firth.data.sources import Source, open_source, seekable

if TYPE_CHECKING:
    import pyarrow

MAX_PART_BYTES = 200_000_000  # of the text of one document, unpacked
_BLOCK_BYTES = 1 << 20
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DOCUMENT = "word/document.xml"


def read_docx(source: Source) -> str:
    """The paragraphs of a word processor file, each in a line; what was deleted under revision is left out."""
    with seekable(source) as handle:
        try:
            with zipfile.ZipFile(handle) as archive, archive.open(_DOCUMENT) as part:
                return "\n".join(_paragraphs(part, source.name))
        except KeyError:
            raise FirthError(f"{source.name}: no {_DOCUMENT} in it; save it as .docx again") from None
        except (zipfile.BadZipFile, ParseError, RuntimeError, EOFError, ValueError, OverflowError) as error:
            raise FirthError(f"{source.name}: not a whole .docx file ({error}); copy it or save it again") from None


def _paragraphs(part: IO[bytes], name: str) -> Iterator[str]:
    parser: XMLPullParser[Element] = XMLPullParser(["end"])
    words: list[str] = []
    size = 0
    while block := part.read(_BLOCK_BYTES):
        size += len(block)
        if size > MAX_PART_BYTES:
            raise FirthError(
                f"{name}: unpacks to more than {MAX_PART_BYTES // 1_000_000} MB; split it or save it as text"
            )
        if b"<!DOCTYPE" in block or b"<!ENTITY" in block:
            raise FirthError(f"{name}: declares entities, which no word processor writes; save it as .docx again")
        parser.feed(block)
        for _, *rest in parser.read_events():
            found = cast(Element, rest[0])
            if found.tag == f"{_WORD}t":
                words.append(found.text or "")
            elif found.tag in (f"{_WORD}tab", f"{_WORD}br", f"{_WORD}cr"):
                words.append("\t" if found.tag.endswith("tab") else "\n")
            elif found.tag == f"{_WORD}p":
                yield "".join(words)
                words.clear()
                found.clear()
    parser.close()


def read_pdf(source: Source) -> Iterator[str]:
    """The text of each page, as far as the file has it as text and not as a picture."""
    pypdf = import_extra("pypdf", "pdf", f"{source.name}: reading pdf")
    with seekable(source) as handle, foreign_errors(source.name, "a pdf that can be read"):
        found = pypdf.PdfReader(handle)
        if found.is_encrypted and not found.decrypt(""):
            raise FirthError(f"{source.name}: asks for a password; save it without one")
        size = 0
        for page in found.pages:
            text: str = page.extract_text()
            size += len(text)
            if size > MAX_PART_BYTES:
                raise FirthError(f"{source.name}: more than {MAX_PART_BYTES // 1_000_000} MB of text; split it")
            yield text


def read_tar(source: Source, column: str, encoding: str) -> Iterator[str]:
    """Every ``.txt`` of an archive as a document, and the field ``column`` of every ``.json``; other members (pictures,
    sounds) are passed over."""
    count = 0
    try:
        with open_source(source) as handle, tarfile.open(fileobj=handle, mode="r|") as archive:
            for member in archive:
                suffix = member.name.rpartition(".")[2].lower()
                if not member.isfile() or suffix not in ("txt", "json"):
                    continue
                if member.size > MAX_PART_BYTES:
                    raise FirthError(
                        f"{source.name}: {member.name} has more than {MAX_PART_BYTES // 1_000_000} MB; split it"
                    )
                part = archive.extractfile(member)
                assert part is not None
                count += 1
                yield _member(part.read(), f"{source.name}: {member.name}", suffix, column, encoding)
    except (tarfile.TarError, EOFError) as error:
        raise FirthError(f"{source.name}: the .tar archive is damaged or truncated ({error}); copy it again") from None
    if not count:
        raise FirthError(f"{source.name}: no .txt and no .json in this archive; name files with text")


def _member(data: bytes, where: str, suffix: str, column: str, encoding: str) -> str:
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
        value = json.loads(text) if suffix == "json" else text
    except LookupError:
        raise FirthError(
            f"unknown encoding '{encoding}': use one of Python's names, such as utf-8 or latin-1"
        ) from None
    except UnicodeDecodeError as error:
        raise FirthError(f"{where}: not {encoding} (byte 0x{data[error.start]:02x}); name its --encoding") from None
    except (ValueError, RecursionError) as error:
        raise FirthError(f"{where}: not valid JSON ({error}); fix or remove it") from None
    if isinstance(value, dict):
        if column not in value:
            raise FirthError(f"{where}: no field '{column}': {nearest(column, list(value))}; choose with --column")
        value = value[column]
    if not isinstance(value, str):
        raise FirthError(f"{where}: '{column}' is not a string but {type(value).__name__}; choose another --column")
    if "\0" in value:
        raise FirthError(f"{where}: contains NUL bytes: it is UTF-16 or not text; name its --encoding")
    return value


def arrow_batches(source: Source, column: str | None = None, whole: bool = True) -> Iterator["pyarrow.RecordBatch"]:
    """The batches of an arrow file, as ``datasets`` writes it (a stream) or as other programs do (a file);
    with ``column``, and only that one unless ``whole``."""
    import pyarrow
    import pyarrow.ipc

    try:
        with seekable(source) as handle:
            reader = _arrow_reader(handle)
            if column is not None and column not in reader.schema.names:
                raise FirthError(
                    f"{source.name}: no column '{column}': {nearest(column, reader.schema.names)}; choose with --column"
                )
            for batch in reader:
                source.meter.share = min(handle.tell() / max(source.size, 1), 1.0)
                for start in range(0, batch.num_rows, 256):
                    part = batch.slice(start, 256)
                    yield part if whole or column is None else part.select([column])
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise FirthError(f"{source.name}: not a complete arrow file ({error}); copy it again") from None


def _arrow_reader(handle: BinaryIO) -> Any:
    import pyarrow.ipc

    magic = handle.read(6)
    handle.seek(0)
    if magic != b"ARROW1":
        return pyarrow.ipc.open_stream(handle)
    file = pyarrow.ipc.open_file(handle)

    class Batches:
        schema = file.schema

        def __iter__(self) -> Iterator["pyarrow.RecordBatch"]:
            return (file.get_batch(number) for number in range(file.num_record_batches))

    return Batches()
