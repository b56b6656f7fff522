"""Sentinels: the tokens that stand for what was taken out of a text (Raffel et al. 2020, 3.1.4).

``<extra_id_0>`` is the last id of the vocabulary, ``<extra_id_1>`` the one before, as published. They are added
behind a vocabulary that is already there, so that a corpus need not be prepared again.
"""

import re
from collections.abc import Mapping, Sequence

from tokenizers import AddedToken, Tokenizer, processors

from firth.core.errors import FirthError
from firth.tokenizers.pieces import Pieces

PATTERN = re.compile(r"<extra_id_(\d+)>")


def sentinel(number: int) -> str:
    """How sentinel ``number`` is written."""
    return f"<extra_id_{number}>"


def sentinel_ids(pieces: Pieces) -> list[int]:
    """The ids of sentinels 0, 1, 2, ...; empty where the vocabulary has none."""
    found: list[int] = []
    while (number := pieces.id(sentinel(len(found)))) is not None:
        found.append(number)
    return found


def with_sentinels(pieces: Pieces, count: int) -> Pieces:
    """The same pieces with ``count`` sentinels behind them, and texts that end with the token that ends texts.
    Pieces that have sentinels already are left as they are."""
    there = len(sentinel_ids(pieces))
    if there:
        if there < count:
            raise FirthError(f"the tokenizer has {there} sentinels, not {count}: set num_sentinels={there}")
        return pieces
    assert pieces.eos_id is not None
    backend = Tokenizer.from_str(pieces.backend.to_str())
    # White space before one belongs to what it stands for, as in the pieces of a running text.
    backend.add_special_tokens(
        [AddedToken(sentinel(number), special=True, normalized=False, lstrip=True) for number in reversed(range(count))]
    )
    end = pieces.token(pieces.eos_id)
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A:0 {end}:0", pair=f"$A:0 {end}:0 $B:1 {end}:1", special_tokens=[(end, pieces.eos_id)]
    )
    found = Pieces(backend)
    assert sentinel_ids(found) == list(range(pieces.vocab_size + count - 1, pieces.vocab_size - 1, -1))
    return found


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
