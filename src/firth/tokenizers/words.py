"""What a reader sees as one character may be several: marks, joined emoji, flags are not cut apart."""

import re
import unicodedata

from firth.tokenizers.characters import HAN_CLASS

_JOINER = "\u200d"


def _extends(char: str) -> bool:
    """Whether a character belongs to the one before it: marks, variation selectors, skin tones, joiners, tags."""
    code = ord(char)
    if code < 0x300:
        return False
    return (
        char == _JOINER
        or unicodedata.category(char).startswith("M")
        or 0x1F3FB <= code <= 0x1F3FF
        or 0xE0020 <= code <= 0xE007F
    )


def _flag_letter(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def is_border(text: str, place: int) -> bool:
    """Whether a reader sees two characters on the two sides of a place (the main rules of Unicode annex 29)."""
    if place <= 0 or place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    if _extends(after) and not before.isspace():
        return False
    if before == _JOINER and ord(after) >= 0x2190 and not unicodedata.category(after).startswith("L"):
        return False
    if _flag_letter(before) and _flag_letter(after):
        run = place
        while run > 0 and _flag_letter(text[run - 1]):
            run -= 1
        return (place - run) % 2 == 0
    return True


def whole_characters(text: str, start: int, end: int) -> tuple[int, int]:
    """The range widened to whole characters; an empty range stays empty."""
    if start >= end:
        return start, end
    while not is_border(text, start):
        start -= 1
    while not is_border(text, end):
        end += 1
    return start, end


_HAN = re.compile(f"[{HAN_CLASS}]")
_LEADS = re.compile(rb"[\xe3-\xe9\xef\xf0]")
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def has_han(text: str) -> bool:
    """Whether a Chinese character occurs (the ranges that BERT sets apart)."""
    # The class of all ideographs is slow to search for, their first bytes are not.
    return (
        not text.isascii()
        and _LEADS.search(text.encode("utf-8", "surrogatepass")) is not None
        and _HAN.search(text) is not None
    )


def cut(text: str) -> list[str]:
    """Chinese words in order; joined they are the text again."""
    import rjieba

    words: list[str] = rjieba.cut(text)
    return words


def split_words(text: str, chinese: bool | None = None) -> list[tuple[int, int]]:
    """(start, end) of each word; white space belongs to none. ``chinese`` says so of a part of a longer text."""
    if not (has_han(text) if chinese is None else chinese):
        return [match.span() for match in WORD.finditer(text)]
    spans, start = [], 0
    for word in cut(text):
        end = start + len(word)
        if not word.isspace():
            spans.append((start, end))
        start = end
    return spans
