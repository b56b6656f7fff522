"""Which documents of a block are Chinese and which have words that no space parts, counted for all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from firth.tokenizers.segmentation import Segmentation
from firth.tokenizers.words import EVERY, HAN_RANGES, UNSPACED, letter_kinds, mostly_ideographic

_LETTERS, _HAN, _UNSPACED = 3, 4, 8  # the kinds of letters below 4, then what may be added to them
_SIZE = 0x30000  # no ideographs of BERT are above


@dataclass(frozen=True)
class DocumentScripts:
    """Of each document: whether it has ideographs, letters of scripts without spaces, and is Chinese by their share."""

    han: NDArray[np.bool_]
    unspaced: NDArray[np.bool_]
    mostly_ideographs: NDArray[np.bool_]

    def chinese(self, how: Segmentation) -> NDArray[np.bool_]:
        """``how.is_chinese`` of each document."""
        return np.zeros_like(self.han) if how.kanji else self.han & self.mostly_ideographs

    def lack_spaces(self, how: Segmentation) -> NDArray[np.bool_]:
        """``how.lacks_spaces`` of each document."""
        lacking = self.unspaced & ~(self.han & self.mostly_ideographs)
        return lacking | self.han if how.kanji else lacking


@cache
def _kinds() -> NDArray[np.uint8]:
    kinds = np.zeros(_SIZE, np.uint8)
    letters = letter_kinds()
    kinds[: len(letters)] = letters
    for first, last in HAN_RANGES:
        kinds[first : last + 1] |= _HAN
    kinds[list(map(ord, UNSPACED.findall(EVERY)))] |= _UNSPACED
    return kinds


def document_scripts(text: str, sizes: NDArray[np.int64] | Sequence[int]) -> DocumentScripts:
    """``sizes``: how many characters of the text each document has; the last may have fewer."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds()[np.minimum(codes, _SIZE - 1)]
    letters = kinds & _LETTERS
    bounds = np.append(0, np.cumsum(sizes))

    def counts(found: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.diff(np.searchsorted(np.flatnonzero(found), bounds))

    others, latin, ideographs = (counts(letters == kind) for kind in (1, 2, 3))
    return DocumentScripts(
        counts((kinds & _HAN) > 0) > 0,
        counts((kinds & _UNSPACED) > 0) > 0,
        mostly_ideographic(ideographs, others, latin),
    )
