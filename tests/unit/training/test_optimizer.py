"""Schedules at points worked out by hand; which weights decay; clipping."""

import pytest
import torch
from torch import nn

from firth.core.errors import FirthError
from firth.core.registry import RunConfig, TrainingConfig
from firth.corpus.format import Corpus
from firth.models.pretrain import configure
from firth.models.shared.pretraining import find_pretraining
from firth.models.xlnet.network import RelativeAttention
from firth.nn.attention import RelativeBias
from firth.training.optimizer import build_optimizer, learning_rate, set_rate


def rates(steps: int, **options: object) -> list[float]:
    config = TrainingConfig.build({"learning_rate": 1.0, **options}, "test")
    return [learning_rate(config, step, steps) for step in range(steps)]


def test_linear() -> None:
    assert rates(10, warmup_ratio=0.2) == pytest.approx([0.5, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


def test_cosine() -> None:
    found = rates(6, schedule="cosine", warmup_ratio=1 / 3)
    assert found == pytest.approx([0.5, 1, 1, 0.5 + 0.5**0.5 / 2, 0.5, 0.5 - 0.5**0.5 / 2])


def test_inverse_sqrt() -> None:
    found = rates(100, schedule="inverse_sqrt", warmup_ratio=0.04)
    assert found[:4] == pytest.approx([0.25, 0.5, 0.75, 1])
    assert [found[4], found[15], found[63]] == pytest.approx([(4 / 5) ** 0.5, 0.5, 0.25])
    assert rates(4, schedule="inverse_sqrt", warmup_ratio=0)[3] == pytest.approx(0.5)


def test_constant() -> None:
    assert rates(4, schedule="constant", warmup_ratio=0.5) == [0.5, 1, 1, 1]


@pytest.mark.parametrize("schedule", ["linear", "cosine", "inverse_sqrt", "constant"])
@pytest.mark.parametrize("share", [0, 0.06, 0.5, 1])
@pytest.mark.parametrize("steps", [1, 2, 7, 50])
def test_every_rate_is_useful(schedule: str, share: float, steps: int) -> None:
    found = rates(steps, schedule=schedule, warmup_ratio=share)
    assert all(0 < rate <= 1 for rate in found)
    peak = found.index(max(found))
    assert found[:peak] == sorted(found[:peak])
    assert found[peak:] == sorted(found[peak:], reverse=True)


def test_decay_groups() -> None:
    """Without gradients only decay moves a weight: matrices and tables shrink, biases and norms stay."""
    module = nn.ModuleDict({"dense": nn.Linear(3, 3), "norm": nn.LayerNorm(3), "table": nn.Embedding(4, 3)})
    module["heads"] = RelativeAttention(4, 2, 0.0)
    nn.init.ones_(module["heads"].content_bias)  # a bias a head is a table, too
    module["encoder_relative"] = RelativeBias(2)  # and so is one a distance and head
    nn.init.ones_(module["encoder_relative"].weight)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    optimizer = build_optimizer(module, TrainingConfig(weight_decay=0.5))
    set_rate(optimizer, 0.1)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in module.state_dict().items():
        matrix = value.ndim > 1 and not name.endswith("bias")
        factor = 0.95 if name in ("dense.weight", "table.weight") or (name.startswith("heads") and matrix) else 1.0
        torch.testing.assert_close(value, before[name] * factor)


def test_muon_takes_the_matrices_of_blocks(corpus: Corpus, tiny_config: RunConfig) -> None:
    """Tables, heads, norms and biases stay with AdamW, under the plain rate."""
    config = configure(tiny_config, corpus)
    module = find_pretraining(config)(config, corpus).module
    optimizer = build_optimizer(module, TrainingConfig(optimizer="muon", muon_rate=3.0))
    set_rate(optimizer, 0.1)
    names = {parameter: name for name, parameter in module.named_parameters()}
    found = {
        (names[parameter], group["maps"], round(group["lr"], 6))
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    kinds = {"attention.qkv": 3, "attention.out": 1, "ffn.inner": 1, "ffn.outer": 1}
    assert {one for one in found if one[1]} == {
        (f"model.blocks.{layer}.{kind}.weight", maps, 0.3) for layer in range(2) for kind, maps in kinds.items()
    }
    assert {rate for _, maps, rate in found if not maps} == {0.1}
    assert len(found) == len(names)


def test_muon_needs_blocks() -> None:
    with pytest.raises(FirthError, match="optimizer=muon is for Transformers and recurrent"):
        build_optimizer(nn.LSTM(3, 3), TrainingConfig(optimizer="muon"))


def test_frozen_weights_are_left_out() -> None:
    module = nn.Linear(3, 3)
    module.weight.requires_grad_(False)
    groups = build_optimizer(module, TrainingConfig()).param_groups
    assert [len(group["params"]) for group in groups] == [1]
