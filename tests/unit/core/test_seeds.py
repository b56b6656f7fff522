"""Randomness by key: pure, uniform, and different for different keys."""

import numpy as np

from firth.core.types import generator, hashed, uniform


def test_known_values() -> None:
    """SplitMix64 from state 0 (the first output of the published generator): never to change."""
    assert int(hashed(0)) == 0xE220A8397B1DCDAF
    assert hashed(1, 2, 3).dtype == np.uint64


def test_pure_in_any_order_and_shape() -> None:
    rows, columns = np.arange(7)[:, None], np.arange(11)
    table = hashed(5, rows, columns)
    assert table.shape == (7, 11)
    assert all(table[row, column] == hashed(5, row, column) for row in range(7) for column in range(11))
    np.testing.assert_array_equal(table[::-1], hashed(5, rows[::-1], columns))
    np.testing.assert_array_equal(table[3:5], hashed(5, rows[3:5].astype(np.int32), columns.astype(np.uint8)))


def test_uniform_moments_and_cells() -> None:
    drawn = uniform(3, np.arange(1_000_000))
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 4 / np.sqrt(12 * len(drawn))
    counts = np.bincount((drawn * 1000).astype(int), minlength=1000)
    chi2 = ((counts - 1000) ** 2 / 1000).sum()
    assert abs(chi2 - 999) < 4 * np.sqrt(2 * 999)


def test_neighbouring_keys_are_not_related() -> None:
    first, second = uniform(0, np.arange(200_000)), uniform(1, np.arange(200_000))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(200_000)
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 4 / np.sqrt(200_000)


def test_no_collisions_between_streams() -> None:
    """Seeds, steps and ranks near each other, and keys of other lengths and orders."""
    seeds, steps, ranks = np.arange(20)[:, None, None], np.arange(500)[:, None], np.arange(8)
    streams = [
        hashed(seeds, steps, ranks),
        hashed(seeds, steps),
        hashed(seeds, steps, ranks, 0),
        hashed(steps, ranks, 77),
    ]
    found = np.concatenate([stream.ravel() for stream in streams])
    repeated = 20 * 500 * 8 + 20 * 500 + 20 * 500 * 8 + 500 * 8
    assert len(found) == repeated
    assert len(np.unique(found)) == len(found)
    assert int(hashed(1, 2)) != int(hashed(2, 1))


def test_generator() -> None:
    assert (generator(1, 2).permutation(50) == generator(1, 2).permutation(50)).all()
    assert (generator(1, 2).permutation(50) != generator(1, 3).permutation(50)).any()
