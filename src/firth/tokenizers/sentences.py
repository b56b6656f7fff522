"""Sentences as spans of the original text.

A mark such as 。！？ ends a sentence at once; . ! ? (and ; in Greek) only before white space, and not after an
abbreviation, an initial, or a number such as "3.5" or "No. 5". Closing quotes and brackets stay with the sentence they
close; an empty line always ends one.
"""

import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import regex
from numpy.typing import NDArray

from firth.tokenizers.words import EVERY

# Where a sentence ends whatever follows; full stops, question and exclamation marks of Latin script need a closer look.
_NOT_SURE = ".!?\u2024\ufe52\ufe56\ufe57\uff0e"
ENDS = "".join(char for char in regex.findall(r"\p{STerm}", EVERY) if char not in _NOT_SURE)
ENDS += "\u037e\u10fb\u0f0d\u0f0e"  # the question mark of Greek, the paragraph mark of Georgian, shads of Tibetan
_WIDE_ENDS = frozenset(ENDS)
_CLOSERS = "\"'”’»›」』】》）)]"
_OPENERS = "“‘«‹"  # which close in German, Czech, Russian, Danish...: directly after a mark, where white space follows
# Marks above U+FFFF stand apart: a class that holds them is searched one by one, others by a table.
_LOW_ENDS = "".join([char for char in ENDS if char < "\uffff"])
_HIGH_ENDS = "".join([char for char in ENDS if char > "\uffff"])
_MARK = rf"(?:[.!?…{_LOW_ENDS}]|(?=[\U00010000-\U0010ffff])[{_HIGH_ENDS}])"
_CLOSED = rf"(?:[ \xa0\u202f]»(?=\s|\Z)|[{re.escape(_CLOSERS)}{_OPENERS}]+(?=\s|\Z)|[{re.escape(_CLOSERS)}]+)"
_BORDER = re.compile(rf"({_MARK}+|\n)(?:(?<!\n){_CLOSED})?(\s*)")
_ABBREVIATIONS = frozenset(
    """mr mrs ms mx dr prof rev hon st sr jr gen col lt capt sgt cpl maj cmdr adm gov sen rep pres vs etc eg ie viz cf al
    ca approx inc ltd co corp plc dept univ assn bros est ed eds jan feb apr jun jul aug sep sept oct nov dec mon tue
    wed thu fri ave blvd rd hwy mt ft oz lb lbs hr hrs a.m p.m i.e e.g u.s u.k u.n ph.d""".split()
)
# Of other languages, as far as they are no words of English.
_ABBREVIATIONS |= frozenset(
    """bzw usw nr str sog inkl ggf evtl vgl z.b d.h u.a o.ä np ul ks sra srta dra ud uds ee.uu núm pág mme mlle tj tzv např
    doç yrd tp pgs ths руб им ул т.е т.к т.д т.п стр гг вв тыс млн млрд др проф акад рис табл обл тов κα δρ καθ π.χ δηλ
    डॉ श्री प्रो திரு திருமதி""".split()
)
_TITLES = frozenset("гдсκدأم")  # one letter, unless a number stands before: д. Иванова, but 1990 г.
_MONTHS = "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember".split()
_DAY = re.compile(rf"(?:{'|'.join(_MONTHS)})\b|\d{{1,2}}\.\s?\d{{2,4}}\b")  # 3. Oktober, 3. 10. 2023
# After these a number of one or two digits is an ordinal before a noun: Im 19. Jahrhundert, der 1. FC Köln.
_ORDINAL = re.compile(
    r"(?<!\w)(?:im|(?<!I )am|vom|zum|zur|beim|ins|der|die|das|dem|den|des|ein|eine|einen|einem|einer|jede[rmns]?)\s+$",
    re.I,
)
_SPACED = re.compile(r"[A-ZÄÖÜ]\w{0,2}\.")  # what follows the first letter in z. B., u. U., v. Chr.
_SPACED_BEFORE = re.compile(r"\b[a-zäöü]\.\s$")  # the first letter in d. h.
_AMOUNTS = frozenset(("Mio", "Mrd", "Tsd"))
_NAMED = re.compile(r"(?:^|\s)(?!(?:El|Al|Del|O|Ao|Do|Estimado|Caro|Prezado)\s)[^\W\d_]\w*\s+$")  # ... King Sr.
_DATE = re.compile(r"(?<!\d)\d{1,2}\.\s?\d{1,2}$")
_GREEK_QUESTION = re.compile(rf"(;){_CLOSED}?(\s*)")
_BEFORE_NUMBERS = frozenset("no nos fig figs eq eqs ref refs vol vols pp ch sec art mar sat sun min max".split())
_LONGEST = max(map(len, _ABBREVIATIONS | _BEFORE_NUMBERS))
_MAY_END = frozenset(
    """etc inc ltd co corp jr sr a.m p.m u.s u.k u.n ph.d usw u.a ud ee.uu руб т.д т.п гг вв тыс млн млрд др""".split()
)
_NARROW, _WIDE_MARK, _BREAK, _CLOSER, _BLANK = 1, 2, 3, 4, 5


@cache
def _kinds() -> NDArray[np.uint8]:
    """What each character below U+20000 is to a border."""
    kinds = np.zeros(0x20000, np.uint8)
    for kind, chars in (
        (_BLANK, [chr(code) for code in range(0x3001) if chr(code).isspace()]),
        (_CLOSER, _CLOSERS + _OPENERS),
        (_NARROW, ".!?"),
        (_WIDE_MARK, f"…{ENDS}"),
        (_BREAK, "\n"),
    ):
        kinds[[ord(char) for char in chars]] = kind
    return kinds


def _candidates(text: str) -> Iterator[tuple[int, bool]]:
    """Where a border may be: the first mark of each, sought by NumPy because the regular
    expression is slow to pass over the letters between; and whether it is but one mark, one blank and a letter."""
    if text.isascii():
        kind = _kinds()[np.frombuffer(text.encode(), np.uint8)]
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        kind = _kinds()[np.minimum(codes, 0x1FFFF)]
        if ";" in text:  # the question mark of Greek, as it is typed
            asked = np.flatnonzero(codes == 0x3B)
            letters = codes[asked - 1]
            kind[asked[(asked > 0) & ((letters >> 7 == 7) | (letters >> 8 == 0x1F))]] = _NARROW
    places = np.flatnonzero(kind - np.uint8(1) < _BREAK)
    kind = np.concatenate((kind, np.zeros(2, np.uint8)))
    here, after, before = kind[places], kind[places + 1], kind[places - 1]  # before the first there is nothing, too
    nothing = ((here == _NARROW) & (after == 0)) | ((here == _BREAK) & (after != _BREAK) & (after != _BLANK))
    again = (before > 0) & (before < _BREAK) & (here != _BREAK)
    kept = ~(nothing | again)
    places, here, after = places[kept], here[kept], after[kept]
    plain = (here <= _WIDE_MARK) & (after == _BLANK) & (kind[places + 2] == 0)
    return zip(places.tolist(), plain.tolist(), strict=True)


def split_sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence, without the white space around it."""
    spans: list[tuple[int, int]] = []
    start = len(text) - len(text.lstrip())
    size = len(text.rstrip())
    end = start
    for place, plain in _candidates(text):
        if place < end:
            continue  # part of the marks or the space before
        if plain and place + 2 < size:
            mark, after = text[place], place + 2
            if mark in _WIDE_ENDS or (_stops(text, place, after) if mark == "." else not _is_lower(text[after])):
                spans.append((start, place + 1))
                start = end = after
            continue
        match = (_GREEK_QUESTION if text[place] == ";" else _BORDER).match(text, place, size)
        if match is None:
            break
        marks, space = match.groups()
        end = match.end()
        if end == size:
            break
        if marks == ".":
            if not space or not (_stops(text, match.start(), end) or space.count("\n") > 1):
                continue
        elif (marks not in _WIDE_ENDS and not _closes(text, end, marks, space)) or (
            text[end] in "とっ" and text[end - 1] in "」』"
        ):
            continue
        close = end - len(space)
        if marks == "\n":
            close = start + len(text[start:close].rstrip())
        spans.append((start, close))
        start = end
    if size > start:
        spans.append((start, size))
    return spans


def _is_lower(char: str) -> bool:
    """Whether a sentence cannot begin with it: Georgian letters are lower case to Unicode, but none begins with a capital."""
    return char.islower() and char.title() != char


def _is_date(text: str, start: int, end: int) -> bool:
    """Whether a full stop stands between a month and a year: 3. 10. 2023."""
    return text[end : end + 4].isdecimal() and _DATE.search(text[max(0, start - 8) : start]) is not None


def _is_ordinal(text: str, start: int, end: int, number: str) -> bool:
    """Whether a full stop behind a number of one or two digits belongs to it: a day, or what an article stands before."""
    if _DAY.match(text, end) or _is_date(text, start, end):
        return True
    first = start - len(number)
    return text[end].isupper() and _ORDINAL.search(text[max(0, first - 12) : first]) is not None


def _is_spaced(text: str, start: int, end: int) -> bool:
    """Whether a small letter with a full stop is half of an abbreviation: z. B., d. h."""
    before = text[max(0, start - 5) : start - 1]
    return _SPACED.match(text, end) is not None or _SPACED_BEFORE.search(before) is not None


def _is_suffix(text: str, start: int) -> bool:
    """Whether Sr. stands behind a name, as in English, and not before one, as in Spanish and Portuguese."""
    before = text[max(0, start - 26) : start - 2]
    found = _NAMED.search(before)
    return found is not None and found[0].strip()[0].isupper()


def _stops(text: str, start: int, end: int) -> bool:
    """Whether the single full stop at ``start`` closes a sentence; white space follows, then ``end``."""
    following = text[end]
    if _is_lower(following):
        return False
    word = text[max(0, start - 24) : start].rpartition(" ")[2]
    if word.isalpha() and len(word) > _LONGEST:
        return True
    word = word.rpartition("\n")[2].lstrip("\"'“‘([-")
    if len(word) == 1 and word.islower() and _is_spaced(text, start, end):
        return False
    if len(word) == 1 and not word.isdigit():
        titled = word in _TITLES and not text[max(0, start - 4) : start - 1].rstrip()[-1:].isdigit()
        return not (titled or (word.isupper() and word != "I"))
    if len(word) < 3 and word.isdecimal() and _is_ordinal(text, start, end, word):
        return False
    if word in _AMOUNTS or (word == "Sr" and not _is_suffix(text, start)):
        return False
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
    if not _WIDE_ENDS.isdisjoint(marks) or "……" in marks:
        return True
    if not space:
        return marks == "…" and text[end] >= "\u2e80"
    return not _is_lower(text[end])
