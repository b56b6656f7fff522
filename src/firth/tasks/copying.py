"""Copying as a task: pairs from plain text, for a model that writes to learn to repeat what it reads.

A source is a stretch of a text, one clause or several in a row; its target is one of these clauses. Titles, summaries and
answers repeat much of what they are written from, and some hundred of them do not teach that. Half of the sources are a
single clause: from these a small model finds within minutes how to go on as the source does, which it then does in long
texts; from long texts alone it does not find it in that time.
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence

# a Latin sign ends a clause before white space or a Chinese character, not inside 3.14 or 10:30
_SIGNS = re.compile(r"[。；，：？！…\n]|[.;,:?!](?=\s|$|[\u3400-\u9fff])")
_SIZES = {1: 4, 2: 2, 4: 1, 8: 1}  # clauses of a source: how often
_CHARS = range(4, 121)  # of a clause that is a target
_ENOUGH = 50_000  # pairs; few texts are read again, and cut elsewhere, until there are so many
_PASSES = 8  # at the most

Span = tuple[int, int]


def split_clauses(text: str) -> list[Span]:
    """Where clauses begin and end, without the signs after them and the white space around them."""
    found = []
    begin = 0
    for sign in (*_SIGNS.finditer(text), None):
        part = text[begin : sign.start() if sign else len(text)]
        stripped = part.strip()
        if stripped:
            start = begin + part.index(stripped)
            found.append((start, start + len(stripped)))
        begin = sign.end() if sign else len(text)
    return found


def _stretches(text: str, spans: Sequence[Span], draw: random.Random) -> Iterator[tuple[str, str]]:
    """The whole text in stretches of random size, each with one of its clauses."""
    at = 0
    while at < len(spans):
        size = draw.choices(list(_SIZES), list(_SIZES.values()))[0]
        inside = spans[at : at + size]
        at += size
        end = spans[at][0] if at < len(spans) else len(text)
        able = [text[start:stop] for start, stop in inside if stop - start in _CHARS]
        if able:
            yield text[inside[0][0] : end].strip(), draw.choice(able)


def copies(texts: Iterable[str], seed: int = 0) -> list[tuple[str, str]]:
    """(source, target) pairs in the order of the texts; the same for the same texts and seed."""
    parted = [(text, split_clauses(text)) for text in texts]
    draw = random.Random(seed)
    pairs: list[tuple[str, str]] = []
    for _ in range(_PASSES):
        for text, spans in parted:
            pairs += _stretches(text, spans, draw)
        if len(pairs) >= _ENOUGH:
            break
    return pairs
