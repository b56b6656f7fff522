"""Texts longer than a model reads: which tokens it sees, as index arithmetic.

``head``, ``tail`` and ``head_tail`` keep one piece (Sun et al. 2019, "How to Fine-Tune BERT for
Text Classification", §5.3.1); ``windows`` keeps every token in overlapping pieces.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, nearest

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
