"""Characters and words of a text.

Characters: the classes of BERT's basic tokenization (Devlin et al. 2018), the character ids of ELMo, borders
between visible characters. Words: letters by Unicode properties, Chinese by the segmenter rjieba. Invisible format
characters (soft hyphens, marks of direction) belong to no word and part none (Unicode annex 29, WB4).
"""

import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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
# Hebrew acronyms have their mark before the last letter, or it is U+05F4; Catalan parts two l by a point.
_INSIDE = r"(?:(?<=\p{Hebrew})(?:[\u05f3\u05f4]|\"(?=\p{Hebrew}\p{M}*(?!\p{L})))|(?<=[lL])·(?=[lL]))"
_FLAG = r"\p{Regional_Indicator}{2}[\p{M}\u200d]*"  # \X alone looks at a whole run of flags for each
WORD = regex.compile(
    rf"{_LETTER}+(?:(?:['’\u200c\u200d]|{_INSIDE}){_LETTER}+)*"
    rf"|[\p{{Katakana}}ー{VOICED}]+|\p{{Hiragana}}[\p{{Hiragana}}ー{VOICED}]*|\p{{Han}}[\p{{Han}}\p{{M}}]*"
    rf"|(?=[{CLUSTERED}]){_CLUSTER}|{_FLAG}|(?![\s\x1c-\x1f\u200b])\X",
    regex.V1,
)
_ASCII_WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
_WITHOUT_SPACES = {
    "Japanese": (f"[{KANA}]", "runs of one script"),
    **{name: (rf"\p{{{name}}}", "clusters") for name in ("Thai", "Lao", "Khmer", "Myanmar", "Tai_Tham", "Tai_Le")},
}
UNSPACED = regex.compile(f"[{CLUSTERED}{KANA}]")
# Invisible: soft hyphens, marks of direction, joiners of words; not those that shape letters (U+200C, U+200D) or part
# words (U+200B), nor signs that are drawn (of Arabic numbers).
INVISIBLE = "\xad\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
# What nobody sees or is a control, as a pattern of the tokenizers that delete nothing else.
UNSEEN = f"[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\u200b\ufffd{INVISIBLE}]"
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_SIZE = 0x20000  # all letters but rare ideographs are below
_CHINESE_SHARE = 0.9
_BLANK = "".join(map(chr, [code for code in range(0x3001) if chr(code).isspace()])) + "\u200b"
EVERY = "".join(map(chr, [*range(0x80, 0xD800), *range(0xE000, _SIZE)]))
Spans = list[tuple[int, int]]


def without_invisible(text: str) -> str:
    """The text without format characters that nobody sees; joiners of letters stay."""
    return text if text.isascii() or _INVISIBLE.search(text) is None else _INVISIBLE.sub("", text)


def spans_through_invisible(text: str, find: Callable[[str], Spans]) -> Spans:
    """The spans of words as they are found in the text without them."""
    if text.isascii() or _INVISIBLE.search(text) is None:
        return find(text)
    seen = np.ones(len(text), np.bool_)
    seen[[match.start() for match in _INVISIBLE.finditer(text)]] = False
    places = np.flatnonzero(seen).tolist()
    return [(places[start], places[end - 1] + 1) for start, end in find(_INVISIBLE.sub("", text))]


def parts_through_invisible(text: str, cut: Callable[[str], list[str]]) -> list[str]:
    """The parts that a text without them falls into, which joined are the text: they go with what stands before."""
    if text.isascii() or _INVISIBLE.search(text) is None:
        return cut(text)
    ends = itertools.accumulate(map(len, cut(_INVISIBLE.sub("", text))))
    seen = np.ones(len(text), np.bool_)
    seen[[match.start() for match in _INVISIBLE.finditer(text)]] = False
    places = [*np.flatnonzero(seen).tolist(), len(text)]
    borders = [0, *(places[end] for end in ends)]
    return [text[start:end] for start, end in itertools.pairwise(borders)] or [text]


def find_words(text: str) -> list[str]:
    """The words of a text that is not Chinese."""
    found: list[str] = _ASCII_WORD.findall(text) if text.isascii() else WORD.findall(without_invisible(text))
    return found


def ascii_word_starts(codes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where each of them begins in a text of ASCII, all at once."""
    kinds = _ascii_kinds()[codes]
    inside = kinds == 1
    joined = codes[1:-1] == ord("'")
    joined &= inside[:-2] & inside[2:]
    inside[1:-1] |= joined
    starts = inside | (kinds == 2)
    starts[1:] &= ~(inside[1:] & inside[:-1])
    return np.flatnonzero(starts)


@cache
def _ascii_kinds() -> NDArray[np.uint8]:
    """Which bytes are letters, digits and _ (1), and which are marks (2)."""
    kinds = np.zeros(0x80, np.uint8)
    for match in _ASCII_WORD.finditer("".join(map(chr, range(0x80)))):
        for char in match.group():
            kinds[ord(char)] = 1 if char.isalnum() or char == "_" else 2
    return kinds


def find_word_spans(text: str) -> Spans:
    """(start, end) of each of them."""
    return spans_through_invisible(text, _word_spans)


def _word_spans(text: str) -> Spans:
    return [match.span() for match in (_ASCII_WORD if text.isascii() else WORD).finditer(text)]


def spans_of_parts(parts: Iterable[str]) -> Spans:
    """(start, end) of the parts of a text that are words: white space and what nobody sees is none."""
    spans, start = [], 0
    for part in parts:
        end = start + len(part)
        if not (part.isspace() or is_blank(part)):
            spans.append((start, end))
        start = end
    return spans


def is_blank(part: str) -> bool:
    """Whether there is nothing to see."""
    return not part.isascii() and not _INVISIBLE.sub("", part).strip(_BLANK)


@cache
def letter_kinds() -> NDArray[np.uint8]:
    """Which characters below U+10000 are ideographs (3), Latin letters beyond ASCII (2), other letters or marks (1)."""
    kinds = np.zeros(_SIZE, np.uint8)
    codes = np.frombuffer(EVERY.encode("utf-32-le"), np.uint32)
    # Wide forms of ASCII are written in Chinese texts.
    others = r"[[\p{L}\p{M}]--[\p{Han}\u3001-\u303f\uff01-\uff65]]+"
    for kind, pattern in ((1, others), (2, r"[\p{Latin}--[\uff21-\uff5a]]+"), (3, r"\p{Han}+")):
        for match in regex.finditer(pattern, EVERY, regex.V1):
            kinds[codes[match.start() : match.end()]] = kind
    return kinds[:0x10000].copy()


def mostly_ideographs(text: str) -> bool:
    """Whether nine tenths of the letters that are not Latin are ideographs (else it is Japanese, Korean...), and Latin
    letters beyond ASCII, which a Chinese dictionary takes apart, are not more than those."""
    kinds = letter_kinds()[np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)]
    others, latin = np.count_nonzero(kinds == 1), np.count_nonzero(kinds == 2)
    if not others and not latin:
        return True
    ideographs, *rest = (np.asarray([count]) for count in (np.count_nonzero(kinds == 3), others, latin))
    return bool(mostly_ideographic(ideographs, *rest)[0])


def mostly_ideographic(
    ideographs: NDArray[np.int64], others: NDArray[np.int64], latin: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """The same by the numbers of letters in each of several texts."""
    return (ideographs >= _CHINESE_SHARE * (ideographs + others)) & (ideographs >= latin)


@cache
def _unspaced_bytes() -> dict[int, list[tuple[int, int]]]:
    """The first bytes of characters of scripts without spaces, and from where to where their second bytes are."""
    found: dict[int, list[tuple[int, int]]] = {}
    for first, second in sorted({(data[0], data[1]) for data in map(str.encode, UNSPACED.findall(EVERY))}):
        ranges = found.setdefault(first, [])
        if ranges and ranges[-1][1] == second - 1:
            ranges[-1] = ranges[-1][0], second
        else:
            ranges.append((second, second))
    return found


def may_lack_spaces(data: bytes) -> bool:
    """Whether UTF-8 text may hold characters of scripts without spaces; a quick look that is never wrongly no."""
    codes = np.frombuffer(data, np.uint8)
    for lead, ranges in _unspaced_bytes().items():
        if bytes([lead]) not in data:
            continue
        begins, seconds = codes[:-1] == lead, codes[1:]
        for first, last in ranges:
            places = np.flatnonzero(begins & (seconds - np.uint8(first) <= last - first))
            if lead == 0xEF and first <= 0xBD <= last:  # wide tildes and bars share two bytes with narrow kana
                places = places[(codes[places + 1] != 0xBD) | (codes[np.minimum(places + 2, len(codes) - 1)] >= 0xA6)]
            if len(places):
                return True
    return False


def has_unspaced(text: str) -> bool:
    """Whether a character of a script without spaces occurs, ideographs aside."""
    return not text.isascii() and UNSPACED.search(text) is not None


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


HAN_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
HAN_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in HAN_RANGES)
# White space for Python's str.split() that BERT deletes as control characters instead.
DELETED_SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
_WIDE = f"{HAN_CLASS}\u3001-\u30ff\uff01-\uff9f"
_GAP = re.compile(rf"(?<=[{_WIDE}])[ ]+(?=[{_WIDE}])")
MAX_CHARS = 50
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)
Integer = TypeVar("Integer", bound=np.integer)
_JOINER = "\u200d"
_HAN_RE = re.compile(f"[{HAN_CLASS}]")
_LEADS = [bytes([lead]) for lead in (*range(0xE3, 0xEA), 0xEF, 0xF0)]


def whole_characters(text: str) -> str:
    """JSON can spell half a surrogate pair, which is no character: it becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_han(char: str) -> bool:
    """The ideographs that BERT sets apart."""
    code = ord(char)
    return code >= 0x3400 and any(first <= code <= last for first, last in HAN_RANGES)


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
    data = b"" if text.isascii() else text.encode("utf-8", "surrogatepass")
    # The class of all ideographs is slow to search for, their first bytes are not.
    return any(lead in data for lead in _LEADS) and _HAN_RE.search(text) is not None


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

    return parts_through_invisible(text, lambda seen: keep_foreign(seen, rjieba.cut(seen)))


@cache
def _in_words() -> NDArray[np.uint8]:
    """Which characters below U+10000 are ASCII letters and digits (1), or letters, marks and digits of other scripts (2)."""
    found = np.zeros(0x10001, np.uint8)
    codes = np.frombuffer(EVERY.encode("utf-32-le"), np.uint32)
    for match in regex.finditer(r"[[\p{L}\p{M}\p{N}]--\p{Han}]+", EVERY, regex.V1):
        found[np.minimum(codes[match.start() : match.end()], 0x10000)] = 2
    found[0x10000] = 0
    found[[code for code in range(0x80) if chr(code).isalnum()]] = 1
    return found


def keep_foreign(text: str, words: list[str]) -> list[str]:
    """The words of a Chinese text, with those of other scripts whole (café, Путин), as they are in a text of their own."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = np.append(_in_words()[np.minimum(codes, 0x10000)], np.uint8(0))
    if not (kinds == 2).any():
        return words
    edges = np.flatnonzero(np.diff(kinds > 0, prepend=False))
    runs = edges.reshape(-1, 2)[np.maximum.reduceat(kinds, edges[::2]) == 2]
    ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
    firsts, lasts = np.searchsorted(ends, runs[:, 0], "right").tolist(), np.searchsorted(ends, runs[:, 1]).tolist()
    found: list[str] = []
    done = 0  # words that are in ``found``
    for (start, end), first, last in zip(runs.tolist(), firsts, lasts, strict=True):
        found += words[done:first]
        begin = int(ends[first - 1]) if first else 0
        if first < done:  # it has a word in common with the run before
            begin = int(ends[done - 1]) - len(found.pop())
        inner = [start + place for _, place in find_word_spans(text[start:end])[:-1]]
        found += [text[one:two] for one, two in itertools.pairwise((begin, *inner, int(ends[last])))]
        done = last + 1
    return found + words[done:]


def split_words(text: str, chinese: bool | None = None) -> Spans:
    """(start, end) of each word; white space belongs to none. ``chinese`` says so of a part of a longer text."""
    if not (is_chinese(text) if chinese is None else chinese):
        return find_word_spans(text)
    return spans_of_parts(cut(text))
