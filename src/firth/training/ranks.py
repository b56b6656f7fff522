"""The processes of one training: the rank of this one, sums over all of them, and what is said when one fails.

Started by ``torchrun`` (it sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR), the same command trains with several processes;
with one process nothing here does anything. ``wrap`` exchanges gradients (DDP) or shards the weights (FSDP2).
"""

import hashlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import distributed, nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.distributed_c10d import PrefixStore, Store, _get_default_store
from torch.distributed.rendezvous import rendezvous

from firth.core.errors import FirthError

TIMEOUT_S = 1800.0
_HASH = 8  # numbers of a SHA-256, 32 bits each
_LOST = ("gloo", "NCCL", "Connection", "Timed out", "timed out", "timeout", "Broken pipe", "Socket", "store")


def process_count() -> int:
    """How many processes this one was started with."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_rank() -> int:
    return int(os.environ.get("RANK", "0"))


def restarted() -> bool:
    """Whether ``torchrun --max-restarts`` has started this command once more, after a process was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def own_share(total: int) -> slice:
    """The lanes of this process, of so many that all processes share."""
    each = total // process_count()
    return slice(process_rank() * each, (process_rank() + 1) * each)


@contextmanager
def rank_folder(out: Path) -> Iterator[Path]:
    """Where this process writes: ``out`` on the first rank. The others do the same work for the sake of the exchange, in a
    folder that is thrown away."""
    if process_rank() == 0:
        yield out
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / out.name


@cache
def code_hash() -> str:
    """Of all source files of the package."""
    folder, found = Path(__file__).parent.parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return found.hexdigest()


class Ranks:
    """This process among all processes of a training."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self.size, self.rank = process_count(), process_rank()
        self.timeout_s = timeout_s
        if self.size == 1:
            return
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))  # so that device=cuda is this rank's own
        if not distributed.is_initialized():
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            _join_group(backend, timedelta(seconds=timeout_s))

    @property
    def first(self) -> bool:
        return self.rank == 0

    # -- sums and other exchanges of small things

    def sum_counts(self, counts: Mapping[str, int]) -> dict[str, int]:
        return {name: int(value) for name, value in self._sum(counts, torch.int64).items()}

    def sum_values(self, values: Mapping[str, float]) -> dict[str, float]:
        return self._sum(values, torch.float64)

    def _sum(self, values: Mapping[str, float], dtype: torch.dtype) -> dict[str, float]:
        """Name by name over all ranks."""
        if self.size == 1:
            return dict(values)
        names = sorted(values)
        tensor = torch.tensor([values[name] for name in names], dtype=dtype)
        distributed.all_reduce(tensor)
        return dict(zip(names, tensor.tolist(), strict=True))

    def share(self, tensor: torch.Tensor) -> None:
        """What the first rank holds, on all of them."""
        if self.size > 1:
            distributed.broadcast(tensor, 0)

    def whole_lanes(self, tensor: torch.Tensor, dim: int) -> torch.Tensor:
        """The lanes of all ranks, of which each has its own part of this tensor."""
        if self.size == 1:
            return tensor
        own = own_share(tensor.shape[dim])
        found = torch.zeros_like(tensor)
        found.narrow(dim, own.start, own.stop - own.start).copy_(tensor.narrow(dim, own.start, own.stop - own.start))
        distributed.all_reduce(found)
        return found

    def any(self, flag: bool) -> bool:
        """Whether it is so on any rank."""
        return self.sum_counts({"flag": int(flag)})["flag"] > 0

    def wait(self) -> None:
        if self.size > 1:
            distributed.barrier()

    def require_same(self, facts: Mapping[str, str]) -> None:
        """Refuses ranks that would train different things: each fact must be the same on all of them."""
        if self.size == 1:
            return
        names = sorted(facts)
        own = torch.frombuffer(
            bytearray(b"".join(hashlib.sha256(facts[name].encode()).digest() for name in names)), dtype=torch.int32
        )
        found = [torch.empty_like(own) for _ in range(self.size)]
        distributed.all_gather(found, own)
        for rank, other in enumerate(found):
            for place, name in enumerate(names):
                part = slice(place * _HASH, (place + 1) * _HASH)
                if not torch.equal(other[part], found[0][part]):
                    raise FirthError(
                        f"rank {rank} has another {name} than rank 0: give all ranks the same and start again"
                    )

    # -- faults

    def beat(self, step: int) -> None:
        """Notes how far this rank is, so that the others can say who is late."""
        if self.size > 1:
            _store().set(f"firth/{self.rank}", f"{step} {socket.gethostname()}")

    def _behind(self) -> str:
        """The ranks that are behind the others, by their last notes."""
        try:
            store, notes = _store(), {}
            store.set_timeout(timedelta(seconds=2))
            for rank in range(self.size):
                there = store.check([f"firth/{rank}"])
                step, _, host = store.get(f"firth/{rank}").decode().partition(" ") if there else ("-1", "", "")
                notes[rank] = (int(step), host)
        except (RuntimeError, ValueError):
            return "rank 0, or the node it runs on, does not answer"
        least = min(step for step, _ in notes.values())
        late = [rank for rank, (step, _) in notes.items() if step == least]
        if len(late) == self.size:
            late = [rank for rank in late if rank != self.rank]
        named = ", ".join(f"rank {rank}" + (f" on {notes[rank][1]}" if notes[rank][1] else "") for rank in late)
        reached = f"not beyond step {least}" if least >= 0 else "not at its first step"
        return f"{named} did not answer ({reached})"

    @contextmanager
    def losses_named(self, when: str) -> Iterator[None]:
        """A rank that was lost or is too slow becomes one sentence that names it."""
        try:
            yield
        except RuntimeError as error:
            said = str(error)
            if self.size == 1 or not (isinstance(error, distributed.DistError) or any(word in said for word in _LOST)):
                raise
            slow = "imed out" in said or "timeout" in said
            cause = f"waited {self.timeout_s:g} s in vain (rank_timeout_s)" if slow else "the connection was lost"
            raise FirthError(
                f"rank {self.rank} at {when}: {self._behind()}; {cause}; see what that rank printed, then go on with --resume"
            ) from error


def _join_group(backend: str, timeout: timedelta) -> None:
    """Every start by torchrun has names of its own in the store, which some rendezvous keep when all ranks start again."""
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
        named = PrefixStore(f"firth/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        distributed.init_process_group(backend, store=named, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise FirthError(
            f"rank {process_rank()}: not all {process_count()} processes met at {where} ({str(error).splitlines()[0]}); start them by torchrun, all with one address"
        ) from None


def _store() -> Store:
    return _get_default_store()


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


def ring_bytes(num_bytes: int, passes: int) -> int:
    """What each rank sends in ``passes`` rounds of a ring: one gathers or scatters tensors of so many bytes, two sum them."""
    size = distributed.get_world_size()
    return passes * num_bytes * (size - 1) // size


class Parallel:
    """One process: nothing is exchanged."""

    sharded = False
    exchanged = 0  # bytes of gradients and weights that this rank has sent (``ring_bytes``), for benchmarks

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
        self.exchanged += ring_bytes(flat.nbytes, 2)
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
        self.exchanged += ring_bytes(self._bytes, 2)  # gathered forward and backward
        return self.wrapped(work)

    def test(self, work: Callable[[], Found]) -> Found:
        return self.wrapped(work)

    @contextmanager
    def collecting(self, last: bool) -> Iterator[None]:
        for part in self.parts:
            part.set_requires_gradient_sync(last)
        self.exchanged += ring_bytes(self._bytes, 1) if last else 0  # gradients, scattered
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
