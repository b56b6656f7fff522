"""Standard input, read as every command reads it."""

import sys
from collections.abc import Iterator

from firth.core.errors import FirthError


def stdin_lines() -> Iterator[tuple[int, str]]:
    """Lines as they come, without their ends, counted from 1."""
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise FirthError(f"standard input:{number}: not utf-8; convert it first") from None
        yield number, line.rstrip("\r\n")
