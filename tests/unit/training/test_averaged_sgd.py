"""Averaged SGD: its steps, its mean, when it begins, and that a resumed training ends alike."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from firth.core.errors import FirthError
from firth.core.registry import TrainingConfig
from firth.core.types import Batch, Losses
from firth.training.loop import Loop
from firth.training.optimizer import AveragedSGD, stopped_improving


@pytest.mark.parametrize(
    ("losses", "latest", "found"),
    [
        ([], 9.0, False),
        ([5.0, 4.0], 6.0, False),  # no more than the patience itself
        ([5.0, 4.0, 3.0], 2.5, False),
        ([5.0, 3.0, 2.0], 4.9, False),  # better than 5: what came since does not count yet
        ([3.0, 2.0, 2.5], 3.1, True),
        ([3.0, 2.9, 2.8, 2.7], 2.95, True),  # worse than min(3.0, 2.9)
    ],
)
def test_when_it_begins(losses: list[float], latest: float, found: bool) -> None:
    assert stopped_improving(losses, latest, patience=2) is found


def test_steps_are_those_of_sgd() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    first = AveragedSGD([{"params": list(ours.parameters()), "weight_decay": 0.1}], 0.5)
    second = torch.optim.SGD(theirs.parameters(), 0.5, weight_decay=0.1)
    for number in range(6):
        if number == 3:
            first.begin_average()  # changes no step
        inputs = torch.randn(4, 3)
        for module, optimizer in ((ours, first), (theirs, second)):
            module(inputs).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_the_mean_by_hand() -> None:
    """f(w) = w²/2 from 8 with a rate of 1/2: 4, 2, 1, 1/2, ... averaged from 2 on: (2 + 1 + 1/2) / 3."""
    weight = nn.Parameter(torch.tensor([8.0]))
    optimizer = AveragedSGD([{"params": [weight]}], 0.5)
    for number in range(4):
        (0.5 * weight.square()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number == 1:
            optimizer.begin_average()
    assert float(weight.detach()) == 0.5
    assert optimizer.averages
    with optimizer.averaged():
        assert float(weight.detach()) == pytest.approx(3.5 / 3)
    assert float(weight.detach()) == 0.5


class Scripted:
    """One weight that moves by a known amount a step, and tests whose losses are written down."""

    weights: Mapping[str, float] = {"loss": 1.0}
    rate_factors: Mapping[str, float] = {}

    def __init__(self, losses: list[float]) -> None:
        self.module: nn.Module = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.module.weight)  # type: ignore[arg-type]
        self.losses: Iterator[float] = iter(losses)
        self.seen: list[float] = []

    def batch(self, number: int) -> Batch:
        return Batch({"slope": np.asarray([-float(number + 1)])}, {"loss": 1}, 1, rate=0.5 if number == 2 else 1.0)

    def loss(self, batch: Batch) -> Losses:
        weight = self.module.weight
        assert isinstance(weight, torch.Tensor)
        return Losses({"loss": (weight * batch.tensors["slope"]).sum()})

    def evaluate(self) -> dict[str, float]:
        self.seen.append(float(self.module.weight))  # type: ignore[arg-type]
        return {"loss": next(self.losses)}

    def enough(self) -> bool:
        return False


def build(losses: list[float], folder: Path) -> tuple[Scripted, Loop]:
    settings = {"optimizer": "averaged_sgd", "learning_rate": 1.0, "schedule": "constant", "warmup_ratio": 0.0}
    config = TrainingConfig.build(
        {**settings, "weight_decay": 0.0, "clip_norm": 0.0, "evaluations": 6, "checkpoints": 6, "average_patience": 1},
        "test",
    )
    trainable = Scripted(losses)
    folder.mkdir(exist_ok=True)
    return trainable, Loop(trainable, config, folder)


LOSSES = [3.0, 2.0, 3.5, 1.0, 1.0, 1.0]


def test_in_the_loop(tmp_path: Path) -> None:
    """Batch k adds k + 1 (the third, at half the rate, 1.5); the third test triggers; later tests see the mean."""
    trainable, loop = build(LOSSES, tmp_path / "run")
    loop.run(6, "")
    weights = np.cumsum([1, 2, 1.5, 4, 5, 6])
    assert trainable.seen == pytest.approx(
        [*weights[:3], weights[2:4].mean(), weights[2:5].mean(), weights[2:6].mean()]
    )
    assert float(trainable.module.weight) == weights[-1]  # type: ignore[arg-type]
    loop.take_average()
    assert float(trainable.module.weight) == pytest.approx(weights[2:6].mean())  # type: ignore[arg-type]


@pytest.mark.parametrize("stop", [2, 3, 4, 5])
def test_resumed_it_ends_alike(stop: int, tmp_path: Path) -> None:
    _, whole = build(LOSSES, tmp_path / "whole")
    whole.run(6, "")
    _, first = build(LOSSES, tmp_path / "parts")
    first.config = first.config.replace(evaluations=stop)
    first.run(stop, "")
    trainable, second = build(LOSSES[stop:], tmp_path / "parts")
    assert second.resume()
    second.run(6, "")
    for loop in (whole, second):
        loop.take_average()
    assert torch.equal(trainable.module.weight, whole.trainable.module.weight)  # type: ignore[arg-type]
    assert second.tested == whole.tested == LOSSES[:3]


@pytest.mark.parametrize(
    ("settings", "message"), [({"evaluations": 0}, "waits for evaluations"), ({"average": 2}, "averages by itself")]
)
def test_settings_that_do_not_fit(settings: dict[str, int], message: str) -> None:
    with pytest.raises(FirthError, match=message):
        TrainingConfig.build({"optimizer": "averaged_sgd", **settings}, "training")
