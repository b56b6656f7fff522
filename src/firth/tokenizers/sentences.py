"""Sentence borders for English and Chinese, as spans of the original text.

A mark such as 。！？ ends a sentence at once; . ! ? only before white space, and not after an
abbreviation, an initial, or a number such as "3.5" or "No. 5". Closing quotes and brackets stay
with the sentence they close; an empty line always ends one.
"""

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

_WIDE = frozenset("。！？｡")
_CLOSERS = "\"'”’」』】》）)]"
_BORDER = re.compile(rf"([.!?…。！？｡]+|\n)(?:(?<!\n)[{re.escape(_CLOSERS)}]+)?(\s*)")
_ABBREVIATIONS = frozenset(
    """mr mrs ms mx dr prof rev hon st sr jr gen col lt capt sgt cpl maj cmdr adm gov sen rep pres vs etc eg ie viz cf al
    ca approx inc ltd co corp plc dept univ assn bros est ed eds jan feb apr jun jul aug sep sept oct nov dec mon tue
    wed thu fri ave blvd rd hwy mt ft oz lb lbs hr hrs a.m p.m i.e e.g u.s u.k u.n ph.d""".split()
)
_BEFORE_NUMBERS = frozenset("no nos fig figs eq eqs ref refs vol vols pp ch sec art mar sat sun min max".split())
_LONGEST = max(map(len, _ABBREVIATIONS | _BEFORE_NUMBERS))
_MAY_END = frozenset(("etc", "inc", "ltd", "co", "corp", "jr", "sr", "a.m", "p.m", "u.s", "u.k", "u.n", "ph.d"))


_NARROW, _WIDE_MARK, _BREAK, _CLOSER, _BLANK = 1, 2, 3, 4, 5


@cache
def _kinds() -> NDArray[np.uint8]:
    """What each character below U+10000 is to a border."""
    kinds = np.zeros(0x10000, np.uint8)
    for kind, chars in (
        (_BLANK, [chr(code) for code in range(0x3001) if chr(code).isspace()]),
        (_CLOSER, _CLOSERS),
        (_NARROW, ".!?"),
        (_WIDE_MARK, "…。！？｡"),
        (_BREAK, "\n"),
    ):
        kinds[[ord(char) for char in chars]] = kind
    return kinds


def _candidates(text: str) -> list[int]:
    """Where a border may be: the first mark of each, sought by NumPy because the regular
    expression is slow to pass over the letters between."""
    if text.isascii():
        kind = _kinds()[np.frombuffer(text.encode(), np.uint8)]
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        kind = _kinds()[np.minimum(codes, 0xFFFF)]
    places = np.flatnonzero((kind > 0) & (kind <= _BREAK))
    here = kind[places]
    after = np.append(kind, np.uint8(0))[places + 1]
    before = np.append(np.uint8(0), kind)[places]
    nothing = ((here == _NARROW) & (after == 0)) | ((here == _BREAK) & (after != _BREAK) & (after != _BLANK))
    again = (before > 0) & (before < _BREAK) & (here != _BREAK)
    found: list[int] = places[~(nothing | again)].tolist()
    return found


def split_sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence, without the white space around it."""
    spans: list[tuple[int, int]] = []
    start = len(text) - len(text.lstrip())
    size = len(text.rstrip())
    end = start
    for place in _candidates(text):
        if place < end:
            continue  # part of the marks or the space before
        match = _BORDER.match(text, place, size)
        if match is None:
            break
        marks, space = match.groups()
        end = match.end()
        if end == size:
            break
        if marks == ".":
            if not space or not (_stops(text, match.start(), end) or space.count("\n") > 1):
                continue
        elif marks not in _WIDE and not _closes(text, end, marks, space):
            continue
        close = end - len(space)
        if marks == "\n":
            close = start + len(text[start:close].rstrip())
        spans.append((start, close))
        start = end
    if size > start:
        spans.append((start, size))
    return spans


def _stops(text: str, start: int, end: int) -> bool:
    """Whether the single full stop at ``start`` closes a sentence; white space follows, then ``end``."""
    following = text[end]
    if following.islower():
        return False
    word = text[max(0, start - 24) : start].rpartition(" ")[2]
    if word.isalpha() and len(word) > _LONGEST:
        return True
    word = word.rpartition("\n")[2].lstrip("\"'“‘([-")
    if len(word) == 1:
        return not (word.isupper() and word != "I")
    bare = word.lower()
    if bare in _BEFORE_NUMBERS:
        return not following.isdigit()
    if bare in _ABBREVIATIONS:
        return bare in _MAY_END and following.isupper()
    return "." not in bare or any(len(part) > 1 for part in bare.split(".")) or following.isupper()


def _closes(text: str, end: int, marks: str, space: str) -> bool:
    """Whether marks other than a single full stop close a sentence."""
    if marks == "\n":
        return "\n" in space
    if space.count("\n") >= 2:
        return True
    if not _WIDE.isdisjoint(marks) or "……" in marks:
        return True
    if not space:
        return marks == "…" and text[end] >= "\u2e80"
    return not text[end].islower()
