"""Classes of characters as BERT's tokenizer sees them (basic tokenization, Devlin et al. 2018)."""

import functools
import re
import unicodedata
from collections.abc import Iterable

_HAN = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
HAN_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in _HAN)
# White space for Python's str.split() that BERT deletes as control characters instead.
DELETED_SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
_WIDE = f"{HAN_CLASS}\u3001-\u303f\uff01-\uff65"
_GAP = re.compile(rf"(?<=[{_WIDE}])[ ]+(?=[{_WIDE}])")


def whole_characters(text: str) -> str:
    """JSON can spell half a surrogate pair, which is no character: U+FFFD stands in its place."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_han(char: str) -> bool:
    """The ideographs that BERT sets apart."""
    code = ord(char)
    return code >= 0x3400 and any(first <= code <= last for first, last in _HAN)


def spaced(words: Iterable[str]) -> str:
    """Words with spaces between, except between Chinese characters."""
    out = ""
    for word in words:
        gap = bool(out and word) and not (is_han(out[-1]) and is_han(word[0]))
        out += f" {word}" if gap else word
    return out


def close_gaps(text: str) -> str:
    """Chinese without the spaces between its characters that pieces put there."""
    return _GAP.sub("", text)


@functools.cache
def joins(char: str) -> bool:
    """Whether a border beside this character may be inside a word.

    No for ideographs, white space and plain punctuation; yes, to be safe, for everything else
    (letters, digits, marks, and control characters, which vanish and so join their neighbours).
    """
    if is_han(char) or (char.isspace() and char not in DELETED_SPACES):
        return False
    code = ord(char)
    settled = code < 0x3100 or 0xFF00 <= code <= 0xFFEF
    ascii_mark = 33 <= code <= 126 and not char.isalnum()
    mark = ascii_mark or (settled and unicodedata.category(char).startswith("P"))
    return not (mark and unicodedata.normalize("NFD", char) == char)
