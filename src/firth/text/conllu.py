"""CoNLL-U (universaldependencies.org/format.html): words, their parts of speech and their places.

Tags are of syntactic words. A word written together with others (``don't`` = ``do`` + ``n't``) keeps
the part of the surface that it is, or the whole of it where the parts are not spelled so.
"""

from collections.abc import Iterator
from itertools import groupby

from firth.core.errors import FirthError
from firth.core.examples import TagExample

_COLUMNS = {"upos": 3, "xpos": 4}


def conllu_examples(name: str, lines: Iterator[tuple[int, str]], tag: str = "upos") -> Iterator[TagExample]:
    """One example a sentence; ``tag`` is upos or xpos."""
    if tag not in _COLUMNS:
        raise FirthError(f"{name}: no column '{tag}' of tags in CoNLL-U; choose upos or xpos")
    for full, group in groupby(lines, key=lambda line: bool(line[1].strip())):
        if full:
            example = _sentence(name, list(group), _COLUMNS[tag])
            if example.words:
                yield example


def _sentence(name: str, lines: list[tuple[int, str]], tag_place: int) -> TagExample:
    text = ""
    words: list[str] = []
    tags: list[str] = []
    surfaces: list[tuple[str, int, bool]] = []  # form, number of words in it, a space behind
    inside = 0  # syntactic words still to come of a surface
    for number, line in lines:
        if line.startswith("#"):
            text = line.partition("=")[2].strip() if line.startswith("# text =") else text
            continue
        fields = line.split("\t")
        if len(fields) != 10:
            raise FirthError(f"{name}:{number}: {len(fields)} columns where CoNLL-U has 10; mend this line")
        span = fields[0]
        if "." in span:
            continue  # an empty node: no word of the text
        spaced = "SpaceAfter=No" not in fields[9].split("|")
        if "-" in span:
            first, _, last = span.partition("-")
            if not (first.isdecimal() and last.isdecimal()):
                raise FirthError(f"{name}:{number}: '{span}' is no range of words; mend this line")
            inside = int(last) - int(first) + 1
            surfaces.append((fields[1], inside, spaced))
            continue
        words.append(fields[1])
        tags.append(fields[tag_place])
        if inside:
            inside -= 1
        else:
            surfaces.append((fields[1], 1, spaced))
    places = _find(text, surfaces) if text else None
    if places is None:
        text, places = _put_together(surfaces)
    offsets = _word_places(words, surfaces, places)
    return TagExample(words, tags, f"{name}:{lines[0][0]}", text, offsets)


def _find(text: str, surfaces: list[tuple[str, int, bool]]) -> list[int] | None:
    """Where each surface starts in the given text, if they follow one another in it."""
    starts, place = [], 0
    for form, _, _ in surfaces:
        while place < len(text) and text[place].isspace() and not text.startswith(form, place):
            place += 1
        if not text.startswith(form, place):
            return None
        starts.append(place)
        place += len(form)
    return starts


def _put_together(surfaces: list[tuple[str, int, bool]]) -> tuple[str, list[int]]:
    text, starts = "", []
    for form, _, spaced in surfaces:
        starts.append(len(text))
        text += form + (" " if spaced else "")
    return text.rstrip(), starts


def _word_places(words: list[str], surfaces: list[tuple[str, int, bool]], starts: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for (form, count, _), start in zip(surfaces, starts, strict=True):
        parts = words[len(found) : len(found) + count]
        if "".join(parts).lower() == form.lower() and len("".join(parts)) == len(form):
            for part in parts:
                found.append((start, start + len(part)))
                start += len(part)
        else:
            found += [(start, start + len(form))] * len(parts)
    return found
