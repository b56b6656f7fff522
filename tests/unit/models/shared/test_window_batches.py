"""Rows of like length together: nothing is lost, whichever way they are laid out."""

import numpy as np

from firth.nn.arrays import packed_batches, padded_batches

ROWS = [np.full(length, number) for number, length in enumerate([5, 2, 9, 0, 3, 2])]


def test_end_to_end() -> None:
    found = list(packed_batches(ROWS, 8))
    assert [numbers.tolist() for numbers, _, _ in found] == [[3, 1, 5, 4], [0], [2]]
    for numbers, ids, lens in found:
        assert ids.tolist() == [number for number in numbers for _ in ROWS[number]]
        assert lens == [len(ROWS[number]) for number in numbers]
    assert list(packed_batches([])) == []


def test_padded() -> None:
    found = list(padded_batches(ROWS, pad_id=7, batch_tokens=8))
    assert [numbers.tolist() for numbers, _, _ in found] == [[3, 1, 5], [4], [0], [2]]
    assert found[0][1].tolist() == [[7, 7], [1, 1], [5, 5]]
    assert found[0][2].tolist() == [[0, 0], [1, 1], [1, 1]]
    assert list(padded_batches([])) == []
