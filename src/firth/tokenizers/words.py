"""Characters, words and sentences of a text.

Characters: the classes of BERT's basic tokenization (Devlin et al. 2018), the character ids of ELMo, borders
between visible characters. Words: letters by Unicode properties, Chinese by the segmenter rjieba. Sentences of
English and Chinese, as spans of the original text: a mark such as 。！？ ends a sentence at once; . ! ? only before
white space, and not after an abbreviation, an initial, or a number such as "3.5" or "No. 5". Closing quotes and
brackets stay with the sentence they close; an empty line always ends one.
"""

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeVar

import numpy as np
import regex
from numpy.typing import NDArray

CLUSTERED = r"\p{LineBreak=SA}"
KANA = r"\p{Hiragana}\p{Katakana}ー\uff66-\uff9f"
VOICED = r"\u3099\u309a\uff9e\uff9f"
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{CLUSTERED}{KANA}\p{{Han}}]]"
# A vowel that is written before its consonant, the consonant with its signs, those stacked below it, and what follows.
_CLUSTER = r"\p{Logical_Order_Exception}?\X(?:(?<=[\u17d2\u1039])\X)*[\p{M}\u0e30\u0e32\u0e45\u0eb0\u0eb2]*"
WORD = regex.compile(
    rf"{_LETTER}+(?:['’\u200c\u200d]{_LETTER}+)*"
    rf"|[\p{{Katakana}}ー{VOICED}]+|\p{{Hiragana}}[\p{{Hiragana}}ー{VOICED}]*|\p{{Han}}[\p{{Han}}\p{{M}}]*"
    rf"|(?=[{CLUSTERED}]){_CLUSTER}|(?![\s\x1c-\x1f])\X",
    regex.V1,
)
_ASCII_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
_WITHOUT_SPACES = {
    "Japanese": (f"[{KANA}]", "runs of one script"),
    **{name: (rf"\p{{{name}}}", "clusters") for name in ("Thai", "Lao", "Khmer", "Myanmar", "Tai_Tham", "Tai_Le")},
}
_UNSPACED = regex.compile(f"[{CLUSTERED}{KANA}]")
_SIZE = 0x20000  # all letters but rare ideographs are below
_CHINESE_SHARE = 0.9

# Where a sentence ends whatever follows; full stops, question and exclamation marks of Latin script need a closer look.
_NOT_SURE = ".!?\u2024\ufe52\ufe56\ufe57\uff0e"
_EVERY = "".join(map(chr, [*range(0x80, 0xD800), *range(0xE000, _SIZE)]))
ENDS = "".join(char for char in regex.findall(r"\p{STerm}", _EVERY) if char not in _NOT_SURE)
ENDS += "\u037e\u10fb"  # the question mark of Greek, the paragraph mark of Georgian


def find_words(text: str) -> list[str]:
    """The words of a text that is not Chinese."""
    found: list[str] = (_ASCII_WORD if text.isascii() else WORD).findall(text)
    return found


def find_word_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of each of them."""
    return [match.span() for match in (_ASCII_WORD if text.isascii() else WORD).finditer(text)]


@cache
def _letters() -> NDArray[np.uint8]:
    """Which characters below U+10000 are ideographs (3), Latin letters beyond ASCII (2), other letters or marks (1)."""
    kinds = np.zeros(_SIZE, np.uint8)
    codes = np.frombuffer(_EVERY.encode("utf-32-le"), np.uint32)
    # Wide forms of ASCII are written in Chinese texts.
    others = r"[[\p{L}\p{M}]--[\p{Han}\u3001-\u303f\uff01-\uff65]]+"
    for kind, pattern in ((1, others), (2, r"[\p{Latin}--[\uff21-\uff5a]]+"), (3, r"\p{Han}+")):
        for match in regex.finditer(pattern, _EVERY, regex.V1):
            kinds[codes[match.start() : match.end()]] = kind
    return kinds[:0x10000].copy()


def mostly_ideographs(text: str) -> bool:
    """Whether nine tenths of the letters that are not Latin are ideographs (else it is Japanese, Korean...), and Latin
    letters beyond ASCII, which a Chinese dictionary takes apart, are not more than those."""
    kinds = _letters()[np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)]
    others, latin = np.count_nonzero(kinds == 1), np.count_nonzero(kinds == 2)
    if not others and not latin:
        return True
    ideographs = np.count_nonzero(kinds == 3)
    return bool(ideographs >= _CHINESE_SHARE * (ideographs + others) and ideographs >= latin)


@cache
def _unspaced_bytes() -> tuple[list[bytes], NDArray[np.bool_]]:
    """The first bytes, and the first two bytes, of characters of scripts without spaces."""
    pairs = np.zeros(0x10000, np.bool_)
    for char in _UNSPACED.findall(_EVERY):
        first, second = char.encode()[:2]
        pairs[first << 8 | second] = True
    return [bytes([first]) for first in np.unique(np.flatnonzero(pairs) >> 8).tolist()], pairs


def may_lack_spaces(data: bytes) -> bool:
    """Whether UTF-8 text may hold characters of scripts without spaces; a quick look that is never wrongly no."""
    leads, pairs = _unspaced_bytes()
    if not any(lead in data for lead in leads):
        return False
    codes = np.frombuffer(data, np.uint8)
    may_begin = np.zeros(256, np.bool_)
    may_begin[[lead[0] for lead in leads]] = True
    places = np.flatnonzero(may_begin[codes[:-1]])
    places = places[pairs[codes[places].astype(np.uint16) << 8 | codes[places + 1]]]
    # Wide tildes and bars share two bytes with narrow kana.
    return bool(
        (
            (codes[places] != 0xEF)
            | (codes[np.minimum(places + 2, len(codes) - 1)] >= 0xA6)
            | (codes[places + 1] != 0xBD)
        ).any()
    )


def has_unspaced(text: str) -> bool:
    """Whether a character of a script without spaces occurs, ideographs aside."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def scripts_of(texts: Iterable[str], least: float = 0.1) -> list[str]:
    """The scripts with at least this share of the letters, the most frequent first."""
    counts = Counter(char for text in texts for char in text if char.isalpha())
    scripts: Counter[str] = Counter()
    for char, count in counts.items():
        name = (
            unicodedata.name(char, "").partition(" ")[0].capitalize()
        )  # LATIN SMALL LETTER A, CJK UNIFIED IDEOGRAPH-...
        scripts["Han" if name == "Cjk" else name] += count
    return [name for name, count in scripts.most_common() if name and count >= least * counts.total()]


def ways_without_spaces(text: str) -> dict[str, str]:
    """Scripts without spaces in a text, and by what their words are found."""
    if not has_unspaced(text):
        return {}
    return {name.replace("_", " "): way for name, (chars, way) in _WITHOUT_SPACES.items() if regex.search(chars, text)}


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
_WIDE = f"{HAN_CLASS}\u3001-\u30ff\uff01-\uff9f"
_GAP = re.compile(rf"(?<=[{_WIDE}])[ ]+(?=[{_WIDE}])")
MAX_CHARS = 50
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
Integer = TypeVar("Integer", bound=np.integer)
_JOINER = "\u200d"
_HAN_RE = re.compile(f"[{HAN_CLASS}]")
_LEADS = re.compile(rb"[\xe3-\xe9\xef\xf0]")
_WIDE_ENDS = frozenset(ENDS)
_CLOSERS = "\"'”’»›」』】》）)]"
# Marks above U+FFFF stand apart: a class that holds them is searched one by one, others by a table.
_LOW_ENDS = "".join([char for char in ENDS if char < "\uffff"])
_HIGH_ENDS = "".join([char for char in ENDS if char > "\uffff"])
_MARK = rf"(?:[.!?…{_LOW_ENDS}]|(?=[\U00010000-\U0010ffff])[{_HIGH_ENDS}])"
_BORDER = re.compile(rf"({_MARK}+|\n)(?:(?<!\n)[{re.escape(_CLOSERS)}]+)?(\s*)")
_ABBREVIATIONS = frozenset(
    """mr mrs ms mx dr prof rev hon st sr jr gen col lt capt sgt cpl maj cmdr adm gov sen rep pres vs etc eg ie viz cf al
    ca approx inc ltd co corp plc dept univ assn bros est ed eds jan feb apr jun jul aug sep sept oct nov dec mon tue
    wed thu fri ave blvd rd hwy mt ft oz lb lbs hr hrs a.m p.m i.e e.g u.s u.k u.n ph.d""".split()
)
_BEFORE_NUMBERS = frozenset("no nos fig figs eq eqs ref refs vol vols pp ch sec art mar sat sun min max".split())
_LONGEST = max(map(len, _ABBREVIATIONS | _BEFORE_NUMBERS))
_MAY_END = frozenset(("etc", "inc", "ltd", "co", "corp", "jr", "sr", "a.m", "p.m", "u.s", "u.k", "u.n", "ph.d"))
_NARROW, _WIDE_MARK, _BREAK, _CLOSER, _BLANK = 1, 2, 3, 4, 5


def whole_characters(text: str) -> str:
    """JSON can spell half a surrogate pair, which is no character: it becomes U+FFFD."""
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
    """Chinese and Japanese without the spaces between characters that pieces put there."""
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


def widen_to_characters(text: str, start: int, end: int) -> tuple[int, int]:
    """The range widened to whole characters; an empty range stays empty."""
    if start >= end:
        return start, end
    while not is_border(text, start):
        start -= 1
    while not is_border(text, end):
        end += 1
    return start, end


def has_han(text: str) -> bool:
    """Whether a Chinese character occurs (the ranges that BERT sets apart)."""
    # The class of all ideographs is slow to search for, their first bytes are not.
    return (
        not text.isascii()
        and _LEADS.search(text.encode("utf-8", "surrogatepass")) is not None
        and _HAN_RE.search(text) is not None
    )


def is_chinese(text: str) -> bool:
    """Whether words are sought by the Chinese dictionary: an ideograph occurs, and the text is not of another script
    that uses or cites some (Japanese, Korean, Thai...)."""
    return has_han(text) and mostly_ideographs(text)


def lacks_spaces(text: str) -> bool:
    """Whether a text that is not Chinese has words that no space parts."""
    return may_lack_spaces(text.encode("utf-8", "surrogatepass")) and has_unspaced(text) and not is_chinese(text)


def cut(text: str) -> list[str]:
    """Chinese words in order; joined they are the text again."""
    import rjieba

    words: list[str] = rjieba.cut(text)
    return words


def split_words(text: str, chinese: bool | None = None) -> list[tuple[int, int]]:
    """(start, end) of each word; white space belongs to none. ``chinese`` says so of a part of a longer text."""
    if not (is_chinese(text) if chinese is None else chinese):
        return find_word_spans(text)
    spans, start = [], 0
    for word in cut(text):
        end = start + len(word)
        if not word.isspace():
            spans.append((start, end))
        start = end
    return spans


@cache
def _kinds() -> NDArray[np.uint8]:
    """What each character below U+20000 is to a border."""
    kinds = np.zeros(0x20000, np.uint8)
    for kind, chars in (
        (_BLANK, [chr(code) for code in range(0x3001) if chr(code).isspace()]),
        (_CLOSER, _CLOSERS),
        (_NARROW, ".!?"),
        (_WIDE_MARK, f"…{ENDS}"),
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
        kind = _kinds()[np.minimum(codes, 0x1FFFF)]
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
        elif marks not in _WIDE_ENDS and not _closes(text, end, marks, space):
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
    if not _WIDE_ENDS.isdisjoint(marks) or "……" in marks:
        return True
    if not space:
        return marks == "…" and text[end] >= "\u2e80"
    return not text[end].islower()
