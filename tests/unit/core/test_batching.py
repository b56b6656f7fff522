"""Batches by length: everything once, within the limits, and as full as the order allows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.core.types import batches_by_length, cut_batches, pad

LENS = st.lists(st.integers(0, 60), max_size=80)


def size(lens: list[int], padded: bool) -> int:
    return len(lens) * max(lens) if padded else sum(lens)


@settings(deadline=None)
@given(
    lens=LENS,
    max_tokens=st.none() | st.integers(1, 200),
    max_rows=st.none() | st.integers(1, 20),
    padded=st.booleans(),
    equal=st.booleans(),
)
def test_each_batch_is_full_but_not_more(
    lens: list[int], max_tokens: int | None, max_rows: int | None, padded: bool, equal: bool
) -> None:
    def fits(some: list[int]) -> bool:
        few = max_rows is None or len(some) <= max_rows
        small = max_tokens is None or size(some, padded) <= max_tokens
        return few and small and (not equal or len(set(some)) == 1)

    borders = cut_batches(lens, max_tokens, max_rows, padded=padded, equal=equal).tolist()
    assert borders[0] == 0
    assert borders[-1] == len(lens)
    for first, last in pairwise(borders):
        assert last - first == 1 or (last > first and fits(lens[first:last]))
        assert last == len(lens) or not fits(lens[first : last + 1])


@settings(deadline=None)
@given(lens=LENS, max_tokens=st.integers(1, 200), longest_first=st.booleans())
def test_every_number_once_in_the_order_of_lengths(lens: list[int], max_tokens: int, longest_first: bool) -> None:
    found = [number for some in batches_by_length(lens, max_tokens, longest_first=longest_first) for number in some]
    assert found == sorted(range(len(lens)), key=lambda number: -lens[number] if longest_first else lens[number])


def test_by_hand() -> None:
    def numbers(*given: object, **more: object) -> list[list[int]]:
        return [some.tolist() for some in batches_by_length(*given, **more)]  # type: ignore[arg-type]

    assert cut_batches([3, 2, 5, 1, 9, 1], 10, 3).tolist() == [0, 2, 4, 5, 6]
    assert numbers([1, 7, 3, 7], 100, 2, longest_first=True) == [[1, 3], [2, 0]]
    assert numbers([5, 2, 9, 0, 3, 2], 8, padded=False) == [[3, 1, 5, 4], [0], [2]]
    assert numbers([5, 2, 9, 0, 3, 2], 8) == [[3, 1, 5], [4], [0], [2]]
    assert numbers([8, 16, 8, 8], 16, longest_first=True, equal=True) == [[1], [0, 2], [3]]
    assert numbers([], 8) == []
    assert cut_batches([]).tolist() == [0]


def test_padding() -> None:
    ids, mask = pad([np.asarray([4, 5, 6]), np.asarray([7]), np.asarray([], np.int64)], 9)
    assert ids.tolist() == [[4, 5, 6], [7, 9, 9], [9, 9, 9]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("limits", [{"max_tokens": 0}, {"max_rows": 0}])
def test_nothing_fits_into_nothing(limits: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        cut_batches([1], **limits)
