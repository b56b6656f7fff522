"""From opened files to decoded text and numbered lines; bad bytes and endless lines are named."""

import codecs
from collections.abc import Iterator

from firth.core.errors import FirthError
from firth.text.sources import Source, open_source

MAX_LINE_CHARS = 16_000_000
_BLOCK_BYTES = 1 << 20


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        return codecs.getincrementaldecoder(encoding)()
    except LookupError:
        raise FirthError(
            f"unknown encoding '{encoding}': use a name that Python knows, such as utf-8, gb18030 or latin-1"
        ) from None


def text_blocks(source: Source, encoding: str) -> Iterator[str]:
    """The decoded text in blocks that end anywhere; a byte order mark at its head is left out."""
    decoder = _decoder(encoding)
    line = 1
    first = True
    with open_source(source) as handle:
        final = False
        while not final:
            raw = handle.read(_BLOCK_BYTES)
            final = not raw
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
            line += text.count("\n")
            if text:
                yield text


def numbered_lines(source: Source, encoding: str) -> Iterator[tuple[int, str]]:
    """Lines without their ends, counted from 1."""
    number = 0
    held = ""
    for block in text_blocks(source, encoding):
        lines = (held + block).split("\n")
        held = lines.pop()
        if len(held) > MAX_LINE_CHARS:
            raise FirthError(
                f"{source.name}:{number + len(lines) + 1}: a line of more than {MAX_LINE_CHARS // 1_000_000} MB; if it is one running text read it with --layout file, else break it into lines"
            )
        for line in lines:
            number += 1
            yield number, line.rstrip("\r")
    if held:
        yield number + 1, held.rstrip("\r")
