"""Which tokens of a long text are read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.core.errors import FirthError
from firth.tasks.training import best_windows, pieces_of, window_starts


def ranges(*borders: tuple[int, int]) -> list[int]:
    return [number for first, last in borders for number in range(first, last)]


@pytest.mark.parametrize(
    ("num_tokens", "wanted"),
    [
        (510, [(0, 510)]),
        (511, [(0, 128), (511 - 382, 511)]),
        (800, [(0, 128), (800 - 382, 800)]),
        (801, [(0, 256), (801 - 254, 801)]),
        (5000, [(0, 256), (5000 - 254, 5000)]),
    ],
)
def test_head_and_tail_as_published(num_tokens: int, wanted: list[tuple[int, int]]) -> None:
    (piece,) = pieces_of(num_tokens, 510, "head_tail")
    assert piece.tolist() == ranges(*wanted)


@pytest.mark.parametrize("num_tokens", [510, 511, 800, 801])
def test_head_or_tail(num_tokens: int) -> None:
    assert pieces_of(num_tokens, 510, "head")[0].tolist() == list(range(510))
    assert pieces_of(num_tokens, 510, "tail")[0].tolist() == list(range(num_tokens - 510, num_tokens))


def test_head_and_tail_of_other_rooms_are_in_proportion() -> None:
    # 126 tokens of room: 126 * 128 / 510 = 31.6 and 126 * 256 / 510 = 63.2; the border is at 197.6 tokens.
    assert pieces_of(197, 126, "head_tail")[0].tolist() == ranges((0, 32), (197 - 94, 197))
    assert pieces_of(198, 126, "head_tail")[0].tolist() == ranges((0, 63), (198 - 63, 198))


@pytest.mark.parametrize("policy", ["head", "tail", "head_tail", "windows"])
def test_what_fits_is_whole(policy: str) -> None:
    assert [piece.tolist() for piece in pieces_of(3, 3, policy)] == [[0, 1, 2]]
    assert [piece.tolist() for piece in pieces_of(0, 3, policy)] == [[]]


def test_windows_by_hand() -> None:
    pieces = pieces_of(10, 4, "windows", stride=3)
    assert [piece.tolist() for piece in pieces] == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    # The last window is moved back and stays full.
    assert window_starts(9, 4, 3) == [0, 3, 5]
    # Token 3 ends window 0 and begins window 1: equal, so the earlier; 2 is nearer the edge of window 0 than of none.
    assert best_windows(pieces, 10).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]


@settings(deadline=None)
@given(num_tokens=st.integers(0, 120), room=st.integers(1, 40), data=st.data())
def test_windows_lose_nothing(num_tokens: int, room: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, room))
    pieces = pieces_of(num_tokens, room, "windows", stride)
    assert sorted(set(np.concatenate(pieces).tolist())) == list(range(num_tokens))
    starts = [piece[0] for piece in pieces if len(piece)]
    assert starts == sorted(set(starts))
    for piece in pieces:
        assert len(piece) == min(room, num_tokens)
        assert (np.diff(piece) == 1).all()
    windows = best_windows(pieces, num_tokens)
    for token, window in enumerate(windows.tolist()):
        contexts = []
        for piece in pieces:
            if token in piece:
                left = num_tokens if piece[0] == 0 else token - piece[0]
                right = num_tokens if piece[-1] == num_tokens - 1 else piece[-1] - token
                contexts.append(min(left, right))
            else:
                contexts.append(-1)
        assert window == int(np.argmax(contexts))


@settings(deadline=None)
@given(num_tokens=st.integers(0, 3000), room=st.integers(1, 700), policy=st.sampled_from(["head", "tail", "head_tail"]))
def test_one_piece_keeps_the_order(num_tokens: int, room: int, policy: str) -> None:
    (piece,) = pieces_of(num_tokens, room, policy)
    assert len(piece) == min(num_tokens, room)
    assert (np.diff(piece) > 0).all()
    assert len(piece) == 0 or (piece[0] >= 0 and piece[-1] < num_tokens)


def test_bad_settings() -> None:
    with pytest.raises(FirthError, match=r"unknown policy for long text 'heads': did you mean 'head'"):
        pieces_of(10, 5, "heads")
    with pytest.raises(FirthError, match="stride 6 is not between 1 and the 5 tokens"):
        pieces_of(10, 5, "windows", 6)
    with pytest.raises(FirthError, match="no room for tokens"):
        pieces_of(10, 0, "head")
