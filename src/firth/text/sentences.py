"""Sentence borders for English and Chinese, as spans of the original text.

A mark such as 。！？ ends a sentence at once; . ! ? only before white space, and not after an
abbreviation, an initial, or a number such as "3.5" or "No. 5". Closing quotes and brackets stay
with the sentence they close; an empty line always ends one.
"""

import re

_WIDE = frozenset("。！？｡")
_BORDER = re.compile(r"([.!?…。！？｡\n]+)[\"'”’」』】》）)\]]*(\s*)")
_ABBREVIATIONS = frozenset(
    """mr mrs ms mx dr prof rev hon st sr jr gen col lt capt sgt cpl maj cmdr adm gov sen rep pres vs etc eg ie viz cf al
    ca approx inc ltd co corp plc dept univ assn bros est fig figs eq eqs ref refs vol vols no nos pp ed eds ch sec art
    jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun ave blvd rd hwy mt ft oz lb lbs min max
    hr hrs a.m p.m i.e e.g u.s u.k u.n ph.d""".split()
)
_MAY_END = frozenset(("etc", "inc", "ltd", "co", "corp", "jr", "sr", "a.m", "p.m", "u.s", "u.k", "u.n", "ph.d"))


def _stops(text: str, start: int, end: int) -> bool:
    """Whether the single full stop at ``start`` closes a sentence; white space follows, then ``end``."""
    following = text[end]
    if following.islower():
        return False
    word = text[
        max(text.rfind(" ", max(0, start - 24), start), text.rfind("\n", max(0, start - 24), start)) + 1 : start
    ].lstrip("\"'“‘([-")
    if len(word) == 1:
        return not (word.isupper() and word != "I")
    bare = word.lower()
    if bare == "no":
        return not following.isdigit()
    if bare in _ABBREVIATIONS:
        return bare in _MAY_END and following.isupper()
    return "." not in bare or any(len(part) > 1 for part in bare.split(".")) or following.isupper()


def split_sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence, without the white space around it."""
    spans: list[tuple[int, int]] = []
    start = 0
    size = len(text)
    for match in _BORDER.finditer(text):
        end = match.end()
        if end < size:
            marks, space = match.groups()
            if marks == ".":
                if not space or (space.count("\n") < 2 and not _stops(text, match.start(), end)):
                    continue
            elif not _closes(text, end, marks, space):
                continue
        _add(spans, text, start, end)
        start = end
    _add(spans, text, start, size)
    return spans


def _closes(text: str, end: int, marks: str, space: str) -> bool:
    """Whether marks other than a single full stop close a sentence."""
    if "\n" in marks:
        space = marks[len(marks.rstrip("\n")) :] + space
        marks = marks.strip("\n")
        if space.count("\n") >= 2 or "\n\n" in marks:
            return True
        if not marks:
            return False
    if not _WIDE.isdisjoint(marks) or "……" in marks:
        return True
    if not space:
        return marks == "…" and text[end] >= "\u2e80"
    return not text[end].islower()


def _add(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    part = text[start:end]
    stripped = part.strip()
    if stripped:
        start += len(part) - len(part.lstrip())
        spans.append((start, start + len(stripped)))
