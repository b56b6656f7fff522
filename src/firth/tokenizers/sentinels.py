"""What stands behind sentinels, the tokens that replace what was removed from a text (Raffel et al. 2020, 3.1.4)."""

from collections.abc import Mapping, Sequence


def spans_of(ids: Sequence[int], sentinels: Sequence[int]) -> dict[int, list[int]]:
    """What follows each sentinel (by its number) up to the next; of one that comes twice, the first."""
    number_of = {token: number for number, token in enumerate(sentinels)}
    found: dict[int, list[int]] = {}
    into: list[int] = []
    for token in ids:
        if token in number_of:
            into = []
            found.setdefault(number_of[token], into)
        else:
            into.append(token)
    return found


def merged(ids: Sequence[int], spans: Mapping[int, Sequence[int]], sentinels: Sequence[int]) -> list[int]:
    """A text with every sentinel replaced by its span."""
    number_of = {token: number for number, token in enumerate(sentinels)}
    found: list[int] = []
    for token in ids:
        found += spans.get(number_of[token], ()) if token in number_of else (token,)
    return found
