"""Classes of characters as BERT's tokenizer sees them (basic tokenization, Devlin et al. 2018)."""

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

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


MAX_CHARS = 50
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
NUM_IDS = PADDING + 2  # with the shift
Integer = TypeVar("Integer", bound=np.integer)


def character_ids(words: Sequence[str], max_chars: int = MAX_CHARS) -> NDArray[np.int64]:
    """[words, max_chars]; long words lose their last bytes."""
    ids = np.full((len(words), max_chars), PADDING, np.int64)
    ids[:, 0] = BEGIN_WORD
    for row, word in zip(ids, words, strict=True):
        data = word.encode("utf-8", "ignore")[: max_chars - 2]
        row[1 : len(data) + 1] = np.frombuffer(data, np.uint8)
        row[len(data) + 1] = END_WORD
    return ids + 1


def border_ids(max_chars: int = MAX_CHARS) -> NDArray[np.int64]:
    """[2, max_chars]: the words that begin and end a sentence."""
    ids = np.full((2, max_chars), PADDING, np.int64)
    ids[:, 0] = BEGIN_WORD
    ids[:, 1] = BEGIN_SENTENCE, END_SENTENCE
    ids[:, 2] = END_WORD
    return ids + 1


def used_len(ids: NDArray[np.integer]) -> int:
    """How many characters the longest word has with its borders, before padding begins."""
    return int((ids != PADDING + 1).any(axis=0).nonzero()[0][-1]) + 1 if ids.size else 0


def trimmed(ids: NDArray[Integer], widest: int) -> NDArray[Integer]:
    """The same words with only as much padding as a convolution of that width can tell apart."""
    return np.ascontiguousarray(ids[:, : used_len(ids) + widest])
