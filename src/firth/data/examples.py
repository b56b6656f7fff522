"""Labelled examples as plain data: what readers give and tasks take.

``where`` says for messages where an example stands, ``file:line`` mostly. Places in a text are
counted in characters (code points) of the original.
"""

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class TextExample:
    """One text, or two to be compared, with its class or (a number) its score."""

    text: str
    second: str | None = None
    label: str | float | None = None
    where: str = ""


@dataclass(frozen=True)
class TagExample:
    """Words with their tags, and the text in which each word stands at ``offsets``."""

    words: list[str]
    tags: list[str] | None = None
    where: str = ""
    text: str = ""
    offsets: list[tuple[int, int]] = field(default_factory=list)


class Answer(NamedTuple):
    """A stretch of a passage."""

    text: str
    start: int


@dataclass(frozen=True)
class AnswerExample:
    """A question to a passage; ``impossible`` where the passage is known not to answer it.

    ``answers`` stand in the passage; ``references`` are the texts of all that people gave, for scores.
    """

    id: str
    question: str
    passage: str
    answers: list[Answer] = field(default_factory=list)
    impossible: bool = False
    where: str = ""
    references: list[str] = field(default_factory=list)


class SenseMark(NamedTuple):
    """Words ``start`` to ``end`` of a sentence, taken together, mean one of ``senses`` (any is right).

    ``item`` is what the sense is chosen for: a lemma with its part of speech.
    """

    id: str
    item: str
    start: int
    end: int
    senses: tuple[str, ...]


@dataclass(frozen=True)
class SenseExample:
    """A sentence or a longer context in words, some of which are marked with their sense."""

    words: list[str]
    marks: list[SenseMark]
    where: str = ""
