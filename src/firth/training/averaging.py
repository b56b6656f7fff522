"""The mean of the last checkpoints, which generalises better than the last alone (Vaswani et al. 2017, 6.1)."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from firth.core.tensors import load_tensors
from firth.training.checkpoints import read_state


def load_average(folder: Path, steps: Sequence[int], module: nn.Module) -> None:
    """Puts the mean of the checkpoints of these steps into the module; what is no real number is the last one's."""
    sums: dict[str, torch.Tensor] = {}
    for step in steps:
        path = folder / f"step-{step}"
        read_state(path)
        for name, tensor in load_tensors(path / "model.safetensors").items():
            if not tensor.is_floating_point():
                sums[name] = tensor
            else:
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    means = {name: total / len(steps) if total.is_floating_point() else total for name, total in sums.items()}
    module.load_state_dict(means)
