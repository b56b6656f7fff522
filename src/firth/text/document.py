"""A document, the unit that readers give and encoders take."""

from typing import NamedTuple


class Document(NamedTuple):
    """A text, and its sentences as (start, end) where the file says so itself."""

    text: str
    sentences: list[tuple[int, int]] | None = None
