"""Documents in containers: word processor files (docx), pdf, tar archives of texts as WebDataset writes them, and the arrow
files of Hugging Face's ``datasets``. Nothing is unpacked to disk, and a file that unpacks to more than it should is refused.
"""

import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast
from xml.etree.ElementTree import Element, XMLPullParser

from firth.core.errors import FirthError, import_extra, nearest
from firth.core.files import foreign_errors
from firth.data.sources import (
    Source,
    marked_encoding,
    open_source,
    require_characters,
    say_passed_over,
    seekable,
    text_decoder,
)

if TYPE_CHECKING:
    import pyarrow

MAX_PART_BYTES = 200_000_000  # of the text of one document, unpacked
_BLOCK_BYTES = 1 << 20
_MAX_DEPTH = 1000
_WORD = (  # what word processors write, and the same by the strict standard
    "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}",
    "{http://purl.oclc.org/ooxml/wordprocessingml/main}",
)
_OTHERS = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"  # the same thing for newer and older programs
_DOCUMENT = "word/document.xml"
_NOT_TEXT = ("del", "moveFrom", "pPr")  # deleted; moved from here; how a paragraph looks, its tab stops too
_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def read_docx(source: Source) -> str:
    """The paragraphs of a word processor file, each in a line, that of a text box before the one it stands in; what was
    deleted or moved away under revision is left out, and of a thing that is there twice, for newer and older programs, one."""
    with seekable(source) as handle:
        try:
            with zipfile.ZipFile(handle) as archive, archive.open(_DOCUMENT) as part:
                return "\n".join(_paragraphs(part, source.name))
        except KeyError:
            raise FirthError(f"{source.name}: no {_DOCUMENT} in it; save it as .docx again") from None
        except FirthError:
            raise
        except Exception as error:  # of the archive, of its compression, of XML
            raise FirthError(f"{source.name}: not a whole .docx file ({error}); copy it or save it again") from None


def _paragraphs(part: IO[bytes], name: str) -> Iterator[str]:
    found: list[list[str]] = [[]]  # the words of the paragraphs that are open, one inside the other
    chosen: list[bool] = []  # of the alternates that are open: whether one was read
    skipped = 0  # how deep inside what is no text
    for event, element in _events(part, name):
        kind = _kind(element.tag)
        if event == "start":
            hidden = kind in _NOT_TEXT or (kind in ("Choice", "Fallback") and bool(chosen) and chosen[-1])
            if skipped or hidden:
                skipped += 1
            elif kind == "AlternateContent":
                chosen.append(False)
            elif kind in ("Choice", "Fallback") and chosen:
                chosen[-1] = True
            elif kind == "p":
                found.append([])
        elif skipped:
            skipped -= 1
        elif kind == "AlternateContent":
            chosen.pop()
        elif kind == "t":
            found[-1].append(element.text or "")
        elif kind in _SIGNS:
            found[-1].append(_SIGNS[kind])
        elif kind == "p":
            yield "".join(found.pop())
            element.clear()
    if any(found[0]):
        yield "".join(found[0])


def _kind(tag: str) -> str:
    """The name of an element that says something about text, whatever the standard; else an empty one."""
    space, _, name = tag.rpartition("}")
    return name if f"{space}}}" in _WORD or f"{space}}}" == _OTHERS else ""


def _events(part: IO[bytes], name: str) -> Iterator[tuple[str, Element]]:
    """Beginnings and ends of elements, within limits of size and depth."""
    parser: XMLPullParser[Element] = XMLPullParser(["start", "end"])
    size = depth = 0
    while block := part.read(_BLOCK_BYTES):
        size += len(block)
        if size > MAX_PART_BYTES:
            raise FirthError(
                f"{name}: unpacks to more than {MAX_PART_BYTES // 1_000_000} MB; split it or save it as text"
            )
        if b"<!DOCTYPE" in block or b"<!ENTITY" in block:
            raise FirthError(f"{name}: declares entities, which no word processor writes; save it as .docx again")
        parser.feed(block)
        for event, *rest in parser.read_events():
            depth += 1 if event == "start" else -1
            if depth > _MAX_DEPTH:
                raise FirthError(f"{name}: elements inside each other {_MAX_DEPTH:,} deep; save it as .docx again")
            yield str(event), cast(Element, rest[0])
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


_IN_TAR = ("txt", "json", "jsonl", "ndjson")


def read_tar(source: Source, column: str, encoding: str) -> Iterator[str]:
    """Every ``.txt`` of an archive as a document, and the field ``column`` of every ``.json`` that has one and of every line
    of a ``.jsonl``. Other members (pictures, sounds, what is known of them) are passed over and counted."""
    count = 0
    passed: Counter[str] = Counter()
    lacking: FirthError | None = None
    text_decoder(encoding)
    try:
        with open_source(source) as handle, tarfile.open(fileobj=handle, mode="r|") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                suffix = name.rpartition(".")[2].lower()
                if not member.isfile() or name.startswith("._"):  # what macOS puts beside each file
                    continue
                if suffix not in _IN_TAR:
                    passed[f".{suffix[:20]}" if "." in name else "without an ending"] += 1
                    continue
                where = f"{source.name}: {member.name}"
                if member.size > MAX_PART_BYTES:
                    raise FirthError(f"{where} has more than {MAX_PART_BYTES // 1_000_000} MB; split it")
                part = archive.extractfile(member)
                assert part is not None
                for place, value in _values(part.read(), where, suffix, encoding):
                    if isinstance(value, dict) and column not in value:
                        lacking = FirthError(
                            f"{place}: no field '{column}': {nearest(column, list(value))}; choose with --column"
                        )
                        if suffix != "json":
                            raise lacking
                        passed[f".json without '{column}'"] += 1
                        continue
                    count += 1
                    yield _text_of(value, column, place)
    except (FirthError, OSError):
        raise
    except Exception as error:  # tarfile raises what it happens to meet in a damaged header
        raise FirthError(f"{source.name}: the .tar archive is damaged or truncated ({error}); copy it again") from None
    if not count:
        raise lacking or FirthError(f"{source.name}: no .txt, .json or .jsonl in this archive; name files with text")
    say_passed_over(source.name, passed, "member")


def _values(data: bytes, where: str, suffix: str, encoding: str) -> Iterator[tuple[str, object]]:
    """What one member holds, and where: its text, or JSON values."""
    encoding = marked_encoding(data, encoding)
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise FirthError(f"{where}: not {encoding} (byte 0x{data[error.start]:02x}); name its --encoding") from None
    except UnicodeError as error:
        raise FirthError(f"{where}: not {encoding} ({error}); name its --encoding") from None
    require_characters(text, encoding, where)
    if suffix == "txt":
        yield where, text
        return
    lines = [(where, text)]
    if suffix != "json":
        lines = [(f"{where}:{number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for place, line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FirthError(f"{place}: not valid JSON ({error}); fix or remove it") from None
        yield from ((place, one) for one in (value if isinstance(value, list) and suffix == "json" else [value]))


def _text_of(value: object, column: str, where: str) -> str:
    """The text of a document, or of a field of it."""
    if isinstance(value, dict):
        value = value[column]
    if not isinstance(value, str):
        raise FirthError(f"{where}: '{column}' is not a string but {type(value).__name__}; choose another --column")
    if "\0" in value:
        raise FirthError(f"{where}: contains NUL bytes: it is UTF-16 or not text; name its --encoding")
    return value


def arrow_batches(
    source: Source, choose: Callable[[Sequence[str]], str] | None = None, whole: bool = True
) -> Iterator["pyarrow.RecordBatch"]:
    """The batches of an arrow file, as ``datasets`` writes it (a stream) or as other programs do (a file);
    with the column that is chosen among their names, and only that one unless ``whole``."""
    import pyarrow
    import pyarrow.ipc

    try:
        with seekable(source) as handle:
            reader = _arrow_reader(handle)
            column = None if choose is None else choose(reader.schema.names)
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
