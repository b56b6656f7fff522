"""Rotary angles depend on distance only; buckets are those of T5."""

import pytest
import torch
from torch import nn
from transformers.models.t5.modeling_t5 import T5Attention

from firth.nn.attention import RelativeBias, relative_buckets, repeat_positions, rotary_angles, rotate


def test_rotary_scores_depend_on_the_distance() -> None:
    query, key = torch.randn(1, 2, 1, 8, dtype=torch.float64), torch.randn(1, 2, 1, 8, dtype=torch.float64)

    def score(at_query: int, at_key: int) -> torch.Tensor:
        turned = [
            rotate(heads, rotary_angles(torch.tensor([[place]]), 8))
            for heads, place in ((query, at_query), (key, at_key))
        ]
        return (turned[0] * turned[1]).sum(-1)

    for shift in (1, 5, 90):
        torch.testing.assert_close(score(3, 7), score(3 + shift, 7 + shift), atol=2e-5, rtol=0)
    assert not torch.allclose(score(3, 7), score(3, 8), atol=1e-3)


def test_rotary_by_hand() -> None:
    """Two numbers are one point in the plane, turned by as many radians as the position says."""
    turned = rotate(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]), rotary_angles(torch.tensor([[0, 2]]), 2))
    wanted = torch.tensor([[1.0, 0.0], [torch.cos(torch.tensor(2.0)), torch.sin(torch.tensor(2.0))]])
    torch.testing.assert_close(turned[0, 0], wanted)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (8, 20)])
def test_buckets_are_those_of_t5(bidirectional: bool, num_buckets: int, max_distance: int) -> None:
    distance = torch.arange(-300, 301)
    wanted = T5Attention._relative_position_bucket(distance, bidirectional, num_buckets, max_distance)
    assert torch.equal(relative_buckets(distance, num_buckets, max_distance, bidirectional), wanted)


def test_relative_bias_looks_up_buckets() -> None:
    bias = RelativeBias(3)
    torch.nn.init.normal_(bias.weight)
    queries, keys = torch.tensor([[0, 5]]), torch.tensor([[0, 5, 40]])
    found = bias(queries, keys)
    assert found.shape == (1, 3, 2, 3)
    for row, query in enumerate(queries[0]):
        for column, key in enumerate(keys[0]):
            assert torch.equal(found[0, :, row, column], bias.weight[relative_buckets(key - query)])


def test_positions_beyond_the_trained_repeat_them() -> None:
    model = nn.ModuleDict({"positions": nn.Embedding(10, 2), "others": nn.Embedding(10, 2)})
    before = {name: one.weight.detach().clone() for name, one in model.items()}
    repeat_positions(model, 4)
    assert torch.equal(model["positions"].weight, before["positions"][[0, 1, 2, 3, 0, 1, 2, 3, 0, 1]])
    assert torch.equal(model["others"].weight, before["others"])
    repeat_positions(model, 10)
    assert torch.equal(model["positions"].weight[:4], before["positions"][:4])
