"""Data-parallel training: the rank of this process and sums over all of them. With one process it does nothing.

Started by ``torchrun`` (it sets RANK, WORLD_SIZE, MASTER_ADDR), the same command trains data-parallel:
each rank takes its own batches, gradients are summed, so that n ranks equal one with n times the
accumulation.
"""

import os
from collections.abc import Mapping

import torch
from torch import distributed, nn


class Ranks:
    """This process among its fellows."""

    def __init__(self) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        if self.size > 1 and not distributed.is_initialized():
            distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")

    @property
    def first(self) -> bool:
        return self.rank == 0

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

    def sum_gradients(self, module: nn.Module) -> None:
        """One exchange for all gradients; what only some ranks came by (a cluster of rare words) is zero on the others."""
        if self.size == 1:
            return
        parameters = list(module.parameters())
        there = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.int64)
        distributed.all_reduce(there)
        for parameter, count in zip(parameters, there.tolist(), strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def share(self, tensor: torch.Tensor) -> None:
        """What the first rank holds, on all of them."""
        if self.size > 1:
            distributed.broadcast(tensor, 0)

    def any(self, flag: bool) -> bool:
        """Whether it is so on any rank."""
        return self.sum_counts({"flag": int(flag)})["flag"] > 0

    def wait(self) -> None:
        if self.size > 1:
            distributed.barrier()
