"""A packed matrix gives what a linear layer gives."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from firth.nn import layers as packed
from firth.nn.layers import PackedMatrix, turn_matrices


@pytest.mark.parametrize("num_rows", [1, 5, 160])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("packs", [True, False])
def test_the_same_product(num_rows: int, bias: bool, packs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not packs:  # as on a machine without the library
        monkeypatch.setattr(packed, "_packs", lambda weight: False)
    generator = torch.Generator().manual_seed(num_rows)
    weight, hidden = torch.randn(70, 24, generator=generator), torch.randn(num_rows, 24, generator=generator)
    added = torch.randn(70, generator=generator) if bias else None
    wanted = functional.linear(hidden, weight, added)
    matrix = PackedMatrix(weight, added)
    assert packs or matrix.packed is None
    with torch.inference_mode():
        torch.testing.assert_close(matrix(hidden), wanted, atol=1e-5, rtol=1e-5)


def test_turned_matrices_are_the_same() -> None:
    part = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3, bias=False))
    hidden, kept = torch.randn(5, 6), {name: tensor.clone() for name, tensor in part.state_dict().items()}
    wanted = part(hidden)
    turn_matrices(part)
    assert part[0].weight.stride() == (1, 4)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in part.state_dict().items())
    torch.testing.assert_close(part(hidden), wanted, atol=1e-6, rtol=1e-5)
