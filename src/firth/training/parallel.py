"""Training in several processes: gradients summed over all ranks (``ddp``), or weights, gradients and moments in shards
(``fsdp``), by PyTorch's DistributedDataParallel and ``fully_shard``.

Models are read by many methods, not by ``forward`` alone, so both wrap ``Whole``, whose forward runs what it is given.
Losses are divided by the counts of all ranks before the backward pass: gradients are added, never averaged.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import distributed, nn
from torch._C._distributed_c10d import GradBucket

from firth.core.errors import FirthError
from firth.training.ranks import Ranks

Found = TypeVar("Found")


@runtime_checkable
class ShardedApart(Protocol):
    """A part of a network that has its weights only while one of these methods (or ``forward``) runs, under ``fsdp``."""

    entries: ClassVar[tuple[str, ...]]


class Whole(nn.Module):
    """A network and all that reads it: ``forward`` runs a function while the weights are there."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[], object]) -> object:
        return work()


class Parallel:
    """One process: nothing is exchanged."""

    sharded = False
    exchanged = 0  # bytes of gradients and weights that this rank has sent, for benchmarks

    def run(self, work: Callable[[], Found]) -> Found:
        """The loss of one batch, whose gradients follow."""
        return work()

    def test(self, work: Callable[[], Found]) -> Found:
        """Something that reads the weights without gradients."""
        return work()

    @contextmanager
    def collecting(self, last: bool) -> Iterator[None]:
        """The forward and backward pass of one of several batches of a step: only the last one is followed by an exchange."""
        yield


class Replicated(Parallel):
    """The whole network on each rank; gradients are summed in buckets while the backward pass goes on.

    Weights that a batch did not need have no gradient, as in one process. For that the graph of each pass is searched,
    and buckets keep the order of the weights, so that a run that was resumed adds in the same order.
    """

    def __init__(self, module: nn.Module) -> None:
        from torch.nn.parallel import DistributedDataParallel

        self.wrapped = DistributedDataParallel(
            Whole(module), forward_sync_buffers=False, find_unused_parameters=True, gradient_as_bucket_view=True
        )
        self.wrapped.register_comm_hook(None, self._sum)

    def _sum(self, state: None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        flat = bucket.buffer()
        self.exchanged += flat.nbytes
        work = distributed.all_reduce(flat, async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    def run(self, work: Callable[[], Found]) -> Found:
        return self.wrapped(work)

    @contextmanager
    def collecting(self, last: bool) -> Iterator[None]:
        if last:
            yield
        else:
            with self.wrapped.no_sync():
                yield


class Sharded(Parallel):
    """Each rank keeps its part of every weight; blocks get theirs together just before they are needed."""

    sharded = True

    def __init__(self, module: nn.Module, ranks: Ranks, device: str) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

        for part in module.modules():
            if getattr(part, "skips_weights", False):
                raise FirthError(
                    "parallel=fsdp needs every weight on every rank, and this output layer skips some: use parallel=ddp"
                )
        mesh = init_device_mesh(torch.device(device).type, (ranks.size,))
        for part in list(module.modules()):
            if isinstance(part, ShardedApart):
                fully_shard(part, mesh=mesh)
                for name in part.entries:
                    register_fsdp_forward_method(part, name)
        self.wrapped = Whole(module)
        fully_shard(self.wrapped, mesh=mesh)
        self.parts = [part for part in self.wrapped.modules() if isinstance(part, FSDPModule)]
        for part in self.parts:
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)
        self._bytes = sum(value.numel() * value.element_size() for value in module.parameters())

    def run(self, work: Callable[[], Found]) -> Found:
        self.exchanged += 2 * self._bytes  # gathered forward and backward
        return self.wrapped(work)

    def test(self, work: Callable[[], Found]) -> Found:
        return self.wrapped(work)

    @contextmanager
    def collecting(self, last: bool) -> Iterator[None]:
        for part in self.parts:
            part.set_requires_gradient_sync(last)
        self.exchanged += self._bytes if last else 0  # gradients, scattered
        yield


def wrap(kind: str, module: nn.Module, ranks: Ranks, device: str) -> Parallel:
    """The exchange of a training; ``fsdp`` changes the weights of the module into shards."""
    if ranks.size == 1:
        return Parallel()
    return Sharded(module, ranks, device) if kind == "fsdp" else Replicated(module)


# -- tensors in shards


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with all its rows; of a shard all ranks must ask at the same time."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def _in_shards(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "full_tensor")


def shard_like(full: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor, kept as another one is; the tensor itself where that is not in shards."""
    if not _in_shards(like) or full.ndim == 0:
        return full.to(like.device)
    from torch.distributed.tensor import DTensor, Shard

    assert isinstance(like, DTensor)
    (placement,) = like.placements
    assert isinstance(placement, Shard)
    mesh = like.device_mesh
    parts = full.chunk(mesh.size(), placement.dim)
    rank = mesh.get_local_rank()
    empty = full.new_empty([0 if dim == placement.dim else size for dim, size in enumerate(full.shape)])
    local = parts[rank] if rank < len(parts) else empty
    return DTensor.from_local(
        local.to(like.device), mesh, like.placements, run_check=False, shape=full.shape, stride=full.stride()
    )
