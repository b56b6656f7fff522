"""Rows of batches: special tokens, cuts, padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.core.types import Frame
from firth.tasks.data import by_owner
from firth.tasks.training import collate, cut_pair, frame_row

BERT = Frame((101,), (102,), (102,))
XLNET = Frame((), (4,), (4, 3), last_segment=2)


def test_frames() -> None:
    one = frame_row(BERT, np.asarray([7, 8, 9]), None, np.arange(3))
    assert one.ids.tolist() == [101, 7, 8, 9, 102]
    assert one.segments.tolist() == [0] * 5
    assert one.source.tolist() == [-1, 0, 1, 2, -1]
    two = frame_row(BERT, np.asarray([7]), np.asarray([8, 9]), np.asarray([5, 6]))
    assert two.ids.tolist() == [101, 7, 102, 8, 9, 102]
    assert two.segments.tolist() == [0, 0, 0, 1, 1, 1]
    assert two.source.tolist() == [-1, -1, -1, 5, 6, -1]
    last = frame_row(XLNET, np.asarray([7]), np.asarray([8]), np.asarray([0]))
    assert last.ids.tolist() == [7, 4, 8, 4, 3]
    assert last.segments.tolist() == [0, 0, 1, 1, 2]
    assert last.source.tolist() == [-1, -1, 0, -1, -1]
    assert frame_row(XLNET, np.asarray([7]), None, np.asarray([0])).segments.tolist() == [0, 0, 2]
    assert (BERT.size(False), BERT.size(True), XLNET.size(True)) == (2, 3, 3)


def test_words_as_characters() -> None:
    row = frame_row(Frame((1,)), np.full((2, 3), 7), None, np.arange(2))
    assert row.ids.tolist() == [[1, 1, 1], [7, 7, 7], [7, 7, 7]]
    assert collate([row, frame_row(Frame(), np.zeros((0, 3), np.int64), None, np.arange(0))], 0)["ids"].shape == (
        2,
        3,
        3,
    )


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ((3, 4, 10), (3, 4)),
        ((3, 20, 10), (3, 7)),
        ((20, 3, 10), (7, 3)),
        ((20, 20, 10), (5, 5)),
        ((20, 20, 11), (5, 6)),
    ],
)
def test_the_longer_text_is_cut_first(sizes: tuple[int, int, int], kept: tuple[int, int]) -> None:
    assert cut_pair(*sizes) == kept


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 40))
def test_cuts_fill_the_room(first: int, second: int, room: int) -> None:
    kept = cut_pair(first, second, room)
    assert sum(kept) == min(first + second, room)
    assert kept[0] <= first
    assert kept[1] <= second


def test_padding() -> None:
    rows = [frame_row(BERT, np.arange(size), None, np.arange(size)) for size in (3, 1)]
    arrays = collate(rows, pad_id=50)
    assert arrays["ids"].tolist() == [[101, 0, 1, 2, 102], [101, 0, 102, 50, 50]]
    assert arrays["doc_ids"].tolist() == [[1] * 5, [1, 1, 1, 0, 0]]


def test_empty_texts_have_a_column() -> None:
    empty = frame_row(Frame(), np.zeros(0, np.int64), None, np.arange(0))
    arrays = collate([empty], 0)
    assert arrays["ids"].shape == (1, 1)
    assert arrays["doc_ids"].sum() == 0


def test_rows_of_an_example() -> None:
    rows = [np.asarray([number]) for number in range(4)]
    found = by_owner(rows, np.asarray([0, 1, 1, 2]))
    assert [[int(row[0]) for row in some] for some in found] == [[0], [1, 2], [3]]
