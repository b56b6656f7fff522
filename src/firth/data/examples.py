"""Labelled examples: plain data that readers yield and tasks consume.

``where`` is the example's source for messages, mostly ``file:line``. Offsets count characters (code
points) of the original text.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class TextExample:
    """One text or a text pair, with its class label or its score (a number)."""

    text: str
    second: str | None = None
    label: str | float | None = None
    where: str = ""


@dataclass(frozen=True)
class TagExample:
    """Words with their tags, and the text with the offsets of each word."""

    words: list[str]
    tags: list[str] | None = None
    where: str = ""
    text: str = ""
    offsets: list[tuple[int, int]] = field(default_factory=list)


class Answer(NamedTuple):
    """A span of a passage."""

    text: str
    start: int


@dataclass(frozen=True)
class AnswerExample:
    """A question about a passage; ``impossible`` where the passage does not answer it.

    ``answers`` are spans of the passage; ``references`` are all annotated answer texts, used for scoring.
    """

    id: str
    question: str
    passage: str
    answers: list[Answer] = field(default_factory=list)
    impossible: bool = False
    where: str = ""
    references: list[str] = field(default_factory=list)


class SenseMark(NamedTuple):
    """Words ``start`` to ``end`` of a sentence together have one of ``senses`` (any counts as correct).

    ``item`` is the entry whose senses are candidates: a lemma with its part of speech.
    """

    id: str
    item: str
    start: int
    end: int
    senses: tuple[str, ...]


@dataclass(frozen=True)
class SenseExample:
    """A tokenized sentence or longer context with sense annotations."""

    words: list[str]
    marks: list[SenseMark]
    where: str = ""
