"""Averaged stochastic gradient descent with a non-monotone trigger (Merity et al. 2018, "NT-ASGD", algorithm 1).

Plain SGD goes on until tests on held-out text have stopped to improve; from then on the mean of all iterates is kept beside
the weights (Polyak and Juditsky 1992), is what is tested, and becomes the finished model. Steps themselves never change. As in
the authors' program, averaging begins when a test is worse than the best one of all but the last ``patience`` tests.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firth.core.tensors import load_tensors
from firth.training.checkpoints import read_state

_MEAN, _COUNT = "mean", "count"


def stopped_improving(losses: Sequence[float], latest: float, patience: int) -> bool:
    """Whether the latest test is worse than the best of those before, the last ``patience`` not counted."""
    return len(losses) > patience and latest > min(losses[:-patience])


class AveragedSGD(torch.optim.Optimizer):
    """SGD with L2 decay; after ``begin_average`` each parameter has a running mean of what it was after every step."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": 0.0})

    @property
    def averages(self) -> bool:
        return any(_MEAN in state for state in self.state.values())

    @torch.no_grad()
    def begin_average(self) -> None:
        """From the present weights on, which are the first that count."""
        for parameter in self._parameters():
            self.state[parameter] = {_MEAN: parameter.detach().clone(), _COUNT: torch.ones((), device=parameter.device)}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                change = parameter.grad
                if group["weight_decay"]:
                    change = change.add(parameter, alpha=group["weight_decay"])
                parameter.sub_(change, alpha=group["lr"])
        for parameter, state in self.state.items():
            state[_COUNT] += 1
            state[_MEAN].add_((parameter - state[_MEAN]) / state[_COUNT])

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The means in the place of the weights, for a test; without means nothing happens."""
        self.exchange()
        try:
            yield
        finally:
            self.exchange()

    @torch.no_grad()
    def exchange(self) -> None:
        for parameter, state in self.state.items():
            kept = parameter.detach().clone()
            parameter.copy_(state[_MEAN])
            state[_MEAN] = kept

    def _parameters(self) -> Iterator[torch.nn.Parameter]:
        for group in self.param_groups:
            yield from group["params"]


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
