"""Documents cut into passages: whole sentences up to a size, the last ones repeated at the beginning of the next passage.

A unit is a word between spaces, or a Chinese character.
"""

import re
from collections.abc import Sequence

from firth.tokenizers.sentences import split_sentences
from firth.tokenizers.words import HAN_CLASS

_UNIT = re.compile(rf"[{HAN_CLASS}]|[^\s{HAN_CLASS}]+")
_LONGEST_UNIT = 200  # characters: what is longer is no word and counts as several
Span = tuple[int, int]


def num_units(text: str) -> int:
    return sum(1 + (len(unit) - 1) // _LONGEST_UNIT for unit in _UNIT.findall(text))


def unit_spans(text: str) -> list[Span]:
    """Words between spaces, and Chinese characters, as (start, end)."""
    return [match.span() for match in _UNIT.finditer(text)]


def cut_passages(text: str, sentences: Sequence[Span] | None, size: int, overlap: int) -> list[Span]:
    """Passages of at most ``size`` units as (start, end); each repeats up to ``overlap`` sentences of the one before, as
    long as these fill less than half of it. A sentence that is longer than a passage is cut."""
    parts = [
        part
        for start, end in sentences or split_sentences(text)
        for part in _cut_long(text, *_bare(text, start, end), size)
    ]
    sizes = [num_units(text[start:end]) for start, end in parts]
    found: list[Span] = []
    first = 0
    while True:
        last, room = first, size - sizes[first] if sizes else 0
        while last + 1 < len(parts) and sizes[last + 1] <= room:
            last += 1
            room -= sizes[last]
        found += [(parts[first][0], parts[last][1])] if parts else []
        if last + 1 >= len(parts):
            return found
        before, first, repeated = first, last + 1, 0
        for _ in range(overlap):
            repeated += sizes[first - 1]
            fits = repeated + sizes[last + 1] <= size  # else the next passage would hold nothing new
            if first - 1 == before or 2 * repeated > size or not fits:
                break
            first -= 1


def _bare(text: str, start: int, end: int) -> Span:
    """Without white space around it."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _cut_long(text: str, start: int, end: int, size: int) -> list[Span]:
    """A sentence, cut where it has more units than a passage."""
    if start == end:
        return []
    found: list[Span] = []
    begin, stop, room = start, start, size
    for unit in _UNIT.finditer(text, start, end):
        for place in range(unit.start(), unit.end(), _LONGEST_UNIT):
            if room == 0:
                found.append((begin, stop))
                begin, room = place, size
            stop, room = min(place + _LONGEST_UNIT, unit.end()), room - 1
    return [*found, (begin, end)]
