"""The bytes that a rank sends in a step, counted as those of a ring in both ways of training together."""

import pytest
import torch

from firth.training import ranks
from firth.training.ranks import Replicated, Sharded, ring_bytes


class Done:
    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        return torch.futures.Future()


class Bucket:
    def buffer(self) -> torch.Tensor:
        return torch.zeros(30)


@pytest.mark.parametrize(("size", "passes", "sent"), [(1, 2, 0), (2, 2, 120), (4, 2, 180), (4, 1, 90)])
def test_ring(size: int, passes: int, sent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """(n-1)/n of the bytes to gather or to scatter, twice that to sum."""
    monkeypatch.setattr(ranks.distributed, "get_world_size", lambda: size)
    assert ring_bytes(120, passes) == sent


def test_both_ways_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """For P weights of 4 bytes, n ranks and a batches: 2 (n-1)/n 4P, and (2a + 1) (n-1)/n 4P."""
    monkeypatch.setattr(ranks.distributed, "get_world_size", lambda: 3)
    monkeypatch.setattr(ranks.distributed, "all_reduce", lambda tensor, async_op: Done())
    plain, sharded = Replicated.__new__(Replicated), Sharded.__new__(Sharded)
    plain._sum(None, Bucket())  # type: ignore[arg-type]
    assert plain.exchanged == 2 * 2 * 120 // 3
    sharded._bytes, sharded.parts = 120, []
    sharded.wrapped = lambda work: work()  # type: ignore[assignment, return-value]
    for last in (False, True):
        with sharded.collecting(last):
            assert sharded.run(lambda: 7) == 7
    assert sharded.exchanged == (2 * 2 + 1) * 2 * 120 // 3
