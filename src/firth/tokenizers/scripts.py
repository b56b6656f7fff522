"""Words and sentence ends by the properties that Unicode gives to characters, for every script.

Marks (vowel signs, accents, points) belong to the letters that carry them. Scripts that put no spaces between words
are not segmented by a dictionary here: kana and kanji fall into runs of one script, Thai, Lao, Khmer, Myanmar and
their relatives (the line-breaking class SA of Unicode annex 14) into clusters, a consonant with its vowels and signs.
"""

import re
from functools import cache

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


def ways_without_spaces(text: str) -> dict[str, str]:
    """Scripts without spaces in a text, and by what their words are found."""
    if not has_unspaced(text):
        return {}
    return {name.replace("_", " "): way for name, (chars, way) in _WITHOUT_SPACES.items() if regex.search(chars, text)}
