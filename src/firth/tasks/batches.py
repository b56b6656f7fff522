"""Batches of texts, counted in tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from firth.core.batching import Ints, cut_batches, hashed
from firth.core.errors import FirthError, nearest
from firth.core.types import Frame

OneRow = TypeVar("OneRow")
_POOL = 4  # batches that share out their rows by length


def shuffled_batches(
    lens: Sequence[int] | NDArray[np.int64], max_tokens: int, max_rows: int, seed: int, epoch: int, by_length: bool
) -> list[NDArray[np.int64]]:
    """Row numbers of each batch of an epoch: all rows once, in shuffled order.

    A batch has at most ``max_rows`` rows and, padded, at most ``max_tokens`` tokens (unless one row
    alone is longer). A pure function of its arguments: any batch of any epoch can be made again.
    ``by_length`` is for models that compute padding: of the rows of a few batches those of like length come
    together. Not of all rows: length tells what kind of text it is, and batches of one kind each teach
    badly (a tagger from 600 sentences came to an F1 of .52 in place of .61).
    """
    lens_N = np.asarray(lens, np.int64)
    order = np.argsort(hashed(seed, epoch, 2, np.arange(len(lens_N))), kind="stable")
    if by_length:
        pool = np.arange(len(order)) // (_POOL * max_rows)
        order = order[np.lexsort((lens_N[order], pool))]
    borders = cut_batches(lens_N[order], max_tokens, max_rows)
    batches = [order[first:last] for first, last in pairwise(borders.tolist())]
    if by_length:
        order = np.argsort(hashed(seed, epoch, 3, np.arange(len(batches))), kind="stable")
        return [batches[number] for number in order]
    return batches


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
    target: Any  # a label, tags, or spans with offsets: only its task reads it
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


def collate(rows: Sequence[Row], pad_id: int) -> dict[str, Ints]:
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
    return {"ids": ids, "doc_ids": blocks, "segments": segments}


def by_owner(rows: Sequence[OneRow], owner: Ints) -> list[list[OneRow]]:
    """Rows sorted into the examples that they belong to."""
    found: list[list[OneRow]] = [[] for _ in range(int(owner[-1]) + 1)]
    for row, number in zip(rows, owner.tolist(), strict=True):
        found[number].append(row)
    return found


Policy = Literal["head", "tail", "head_tail", "windows"]
POLICIES: tuple[str, ...] = get_args(Policy)

# Of 510 tokens: 128 + 382 for texts up to 800 tokens, 256 + 254 for longer ones.
_ROOM, _MIDDLING, _SHORT_HEAD, _LONG_HEAD = 510, 800, 128, 256


def pieces_of(num_tokens: int, room: int, policy: str, stride: int | None = None) -> list[NDArray[np.int64]]:
    """The token numbers of each piece of a text; one piece unless the policy is ``windows``.

    ``stride`` is how far each window starts after the one before (half the room if none is given).
    A text that fits is one whole piece, and so is an empty one.
    """
    assert num_tokens >= 0
    if room < 1:
        raise FirthError(f"no room for tokens ({room}): give the model more positions or a shorter second text")
    if policy not in POLICIES:
        raise FirthError(f"unknown policy for long text '{policy}': {nearest(policy, list(POLICIES))}")
    if num_tokens <= room:
        return [np.arange(num_tokens)]
    if policy == "head":
        return [np.arange(room)]
    if policy == "tail":
        return [np.arange(num_tokens - room, num_tokens)]
    if policy == "head_tail":
        head_len = head_of(num_tokens, room)
        return [np.concatenate((np.arange(head_len), np.arange(num_tokens - (room - head_len), num_tokens)))]
    return [start + np.arange(room) for start in window_starts(num_tokens, room, stride)]


def head_of(num_tokens: int, room: int) -> int:
    """How many of ``room`` tokens come from the head; the published numbers in proportion to the room."""
    short = num_tokens * _ROOM <= _MIDDLING * room
    return round(room * (_SHORT_HEAD if short else _LONG_HEAD) / _ROOM)


def window_starts(num_tokens: int, room: int, stride: int | None = None) -> list[int]:
    """Where windows start. The last one is moved back so that it is full: a window of a few tokens
    would weigh as much as any other when windows are pooled."""
    step = max(1, room // 2) if stride is None else stride
    if not 1 <= step <= room:
        raise FirthError(f"stride {step} is not between 1 and the {room} tokens of a window: some would be left out")
    last = max(0, num_tokens - room)
    return [*range(0, last, step), last]


def best_windows(pieces: Sequence[NDArray[np.int64]], num_tokens: int) -> NDArray[np.int64]:
    """For each token the number of the window in which it stands farthest from an edge.

    So that in long documents every token is judged once, with the most context (Devlin et al. 2018,
    "maximum context"). Where the text itself begins or ends nothing is cut off: that is no edge.
    Of equals the earlier window is taken. Pieces must be stretches, as ``windows`` makes them.
    """
    best_T = np.full(num_tokens, -1, np.int64)
    window_T = np.full(num_tokens, -1, np.int64)
    for number, piece in enumerate(pieces):
        if len(piece) == 0:
            continue
        first, last = int(piece[0]), int(piece[-1])
        left = piece - first if first > 0 else np.full(len(piece), num_tokens)
        right = last - piece if last < num_tokens - 1 else np.full(len(piece), num_tokens)
        context = np.minimum(left, right)
        better = context > best_T[piece]
        best_T[piece[better]] = context[better]
        window_T[piece[better]] = number
    assert num_tokens == 0 or window_T.min() >= 0, "a token is in no window"
    return window_T
