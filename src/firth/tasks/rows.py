"""From tokens to rows of a batch: special tokens around, long texts cut by the policy, padding.

B rows, T tokens, N examples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.text_reader import Frame

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Row:
    """One row that a model reads. ``source`` is the number of each token in the text that matters (the
    last one given: of a pair the second), -1 for all others."""

    ids: Ints  # [T] or [T, characters]
    segments: Ints
    source: Ints
    part: int = 0  # 1: the second text of a pair that is read apart
    shared: Ints | None = None  # of a pair that is read apart: 1 where a token stands in the other text, too


@dataclass(frozen=True)
class Item:
    """An example as rows; ``target`` is whatever its task learns from."""

    rows: tuple[Row, ...]
    target: Any
    number: int  # of the example

    @property
    def longest(self) -> int:
        return max(len(row.ids) for row in self.rows)


def frame_row(frame: Frame, first: Ints, second: Ints | None, source: Ints, part: int = 0) -> Row:
    """before, first, (between, second,) after; ``source`` numbers the tokens of the last text."""
    pieces: list[tuple[Ints, int]] = [(_special(frame.before, first), 0), (first, 0)]
    if second is not None:
        pieces += [(_special(frame.between, first), 0), (second, 1)]
    pieces.append((_special(frame.after, first), 0 if second is None else 1))
    ids = np.concatenate([piece for piece, _ in pieces])
    segments = np.concatenate([np.full(len(piece), segment) for piece, segment in pieces])
    if frame.last_segment is not None:
        segments[-1] = frame.last_segment
    places = np.full(len(ids), -1)
    end = len(ids) - len(frame.after)
    places[end - len(source) : end] = source
    return Row(ids, segments, places, part)


def _special(ids: tuple[int, ...], like: Ints) -> Ints:
    """Special tokens in the shape of the text's own (with characters: the same number in each place)."""
    column = np.asarray(ids, np.int64)
    return column.reshape(-1, *(1 for _ in like.shape[1:])) + np.zeros((len(ids), *like.shape[1:]), np.int64)


def cut_pair(first_len: int, second_len: int, room: int) -> tuple[int, int]:
    """How much of each text is kept: the longer one is cut first, until both fit."""
    if first_len + second_len <= room:
        return first_len, second_len
    half = room // 2
    if first_len <= half:
        return first_len, room - first_len
    if second_len <= room - half:
        return room - second_len, second_len
    return half, room - half


def collate(rows: Sequence[Row], pad_id: int) -> dict[str, NDArray[Any]]:
    """Arrays [B, T]: ids, blocks (1 where there is a token) and segments; T is at least 1, also for empty texts."""
    longest = max(1, *(len(row.ids) for row in rows))
    ids = np.full((len(rows), longest, *rows[0].ids.shape[1:]), pad_id, np.int64)
    blocks = np.zeros((len(rows), longest), np.int64)
    segments = np.zeros((len(rows), longest), np.int64)
    for number, row in enumerate(rows):
        size = len(row.ids)
        ids[number, :size] = row.ids
        blocks[number, :size] = 1
        segments[number, :size] = row.segments
    return {"ids": ids, "blocks": blocks, "segments": segments}


def by_owner(rows: Sequence[NDArray[Any]], owner: NDArray[np.int64]) -> list[list[NDArray[Any]]]:
    """Rows sorted into the examples that they belong to."""
    found: list[list[NDArray[Any]]] = [[] for _ in range(int(owner[-1]) + 1)]
    for row, number in zip(rows, owner.tolist(), strict=True):
        found[number].append(row)
    return found
