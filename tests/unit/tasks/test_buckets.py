"""Batches of an epoch: shuffled, within their limits, of like length where padding is computed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.tasks.training import shuffled_batches

LENS = st.lists(st.integers(0, 60), max_size=80)


@settings(deadline=None)
@given(lens=LENS, max_tokens=st.integers(1, 200), max_rows=st.integers(1, 20), seed=st.integers(0, 5))
def test_every_row_once_within_the_limits(lens: list[int], max_tokens: int, max_rows: int, seed: int) -> None:
    for batches in (
        shuffled_batches(lens, max_tokens, max_rows, seed, epoch=1, by_length=False),
        shuffled_batches(lens, max_tokens, max_rows, seed, epoch=1, by_length=True),
    ):
        assert sorted(row for rows in batches for row in rows.tolist()) == list(range(len(lens)))
        for rows in batches:
            longest = max(lens[row] for row in rows)
            assert 1 <= len(rows) <= max_rows
            assert len(rows) == 1 or len(rows) * longest <= max_tokens


@pytest.mark.parametrize("by_length", [False, True])
def test_shuffled_anew_in_every_epoch(by_length: bool) -> None:
    lens = np.random.default_rng(0).integers(5, 200, 2000)
    first, again, other = (
        shuffled_batches(lens, 10**6, 32, seed=3, epoch=epoch, by_length=by_length) for epoch in (0, 0, 1)
    )
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert {tuple(sorted(rows.tolist())) for rows in first} != {tuple(sorted(rows.tolist())) for rows in other}
    share = 1 - lens.sum() / sum(len(rows) * lens[rows].max() for rows in first)  # of padding
    assert share < 0.3 if by_length else share > 0.4
    means = np.asarray([lens[rows].mean() for rows in first])
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.3  # no curriculum by accident


def test_batches_are_of_all_kinds_where_padding_is_free() -> None:
    """600 rows of which half are short: every batch has about as many of them as the whole."""
    lens = np.asarray([5] * 300 + [50] * 300)
    for rows in shuffled_batches(lens, 10**6, 32, seed=0, epoch=0, by_length=False)[:-1]:
        assert 0.2 < (lens[rows] == 5).mean() < 0.8
