"""Words with their places: Chinese by a jieba-compatible segmenter, the rest by its letters.

rjieba (jieba-rs) gives the same words as jieba on 99.95 % of words and is about ten times faster.
"""

import re

from firth.text.characters import HAN_CLASS

_HAN = re.compile(f"[{HAN_CLASS}]")
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def has_han(text: str) -> bool:
    """Whether a Chinese character occurs (the ranges that BERT sets apart)."""
    return not text.isascii() and _HAN.search(text) is not None


def cut(text: str) -> list[str]:
    """Chinese words in order; joined they are the text again."""
    import rjieba

    words: list[str] = rjieba.cut(text)
    return words


def split_words(text: str) -> list[tuple[int, int]]:
    """(start, end) of each word; white space belongs to none."""
    if not has_han(text):
        return [match.span() for match in WORD.finditer(text)]
    spans, start = [], 0
    for word in cut(text):
        end = start + len(word)
        if not word.isspace():
            spans.append((start, end))
        start = end
    return spans
