"""One vector of many, by hand and the same for rows and for sequences end to end."""

import pytest
import torch

from firth.nn.layers import pool_owned, pool_tokens
from firth.nn.sentences import pool_sequences

HIDDEN = torch.tensor([[1.0, -2.0], [3.0, -4.0], [5.0, 6.0]])
WANTED = {
    "mean": [[2, -3], [0, 0], [5, 6]],
    "max": [[3, -2], [0, 0], [5, 6]],
    "cls": [[1, -2], [0, 0], [5, 6]],
    "last": [[3, -4], [0, 0], [5, 6]],
}


@pytest.mark.parametrize("pool", WANTED)
def test_sequences_end_to_end(pool: str) -> None:
    assert pool_sequences(HIDDEN, [2, 0, 1], [pool]).tolist() == WANTED[pool]


@pytest.mark.parametrize("pool", WANTED)
def test_rows(pool: str) -> None:
    rows = torch.stack((HIDDEN[:2], torch.zeros(2, 2), torch.stack((HIDDEN[2], torch.full((2,), 99.0)))))
    mask = torch.tensor([[True, True], [False, False], [True, False]])
    assert pool_tokens(rows, mask, pool).tolist() == WANTED[pool]


def test_the_last_token_need_not_be_as_far_as_there_are_tokens() -> None:
    mask = torch.tensor([[False, True, True, False]])
    assert pool_tokens(torch.arange(4.0).view(1, 4, 1), mask, "last").tolist() == [[2]]
    assert pool_tokens(torch.arange(4.0).view(1, 4, 1), mask, "mean").tolist() == [[1.5]]


def test_rows_of_owners() -> None:
    owner = torch.tensor([2, 0, 2])
    assert pool_owned(HIDDEN, owner, 3, "mean").tolist() == [[3, -4], [0, 0], [3, 2]]
    assert pool_owned(HIDDEN, owner, 3, "max").tolist() == [[3, -4], [0, 0], [5, 6]]


def test_what_is_no_pool() -> None:
    with pytest.raises(AssertionError):
        pool_tokens(HIDDEN[None], torch.ones(1, 3, dtype=torch.bool), "sum")
