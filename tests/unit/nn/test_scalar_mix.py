"""The mix of layers against its formula in NumPy."""

import numpy as np
import pytest
import torch

from firth.nn.layers import ScalarMix

L, B, T, D = 3, 2, 4, 5


def test_begins_as_the_mean_of_the_layers() -> None:
    hidden = torch.randn(L, B, T, D)
    mix = ScalarMix(L)
    torch.testing.assert_close(mix(hidden, torch.ones(B, T, dtype=torch.bool)), hidden.mean(0))
    np.testing.assert_allclose(mix.weights(), [1 / 3] * 3, rtol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_equals_the_formula(layer_norm: bool) -> None:
    torch.manual_seed(3)
    hidden = 4 * torch.randn(L, B, T, D, dtype=torch.float64) + 2
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)
    mix = ScalarMix(L, layer_norm, l2=0.5).double()
    with torch.no_grad():
        mix.scalars.copy_(torch.tensor([0.3, -1.0, 2.0]))
        mix.gamma.fill_(1.7)
    layers = hidden.numpy()
    if layer_norm:
        real = [layer[mask.numpy()] for layer in layers]
        layers = np.stack(
            [(layer - r.mean()) / np.sqrt(r.var() + 1e-12) for layer, r in zip(layers, real, strict=True)]
        )
    weights = np.exp([0.3, -1.0, 2.0]) / np.exp([0.3, -1.0, 2.0]).sum()
    wanted = 1.7 * sum(weight * layer for weight, layer in zip(weights, layers, strict=True))
    np.testing.assert_allclose(mix(hidden, mask).detach(), wanted, atol=1e-12)
    np.testing.assert_allclose(mix.weights(), weights)
    assert mix.penalty().item() == pytest.approx(0.5 * (0.09 + 1 + 4))


def test_padding_does_not_reach_the_norm() -> None:
    hidden, mask = torch.randn(L, B, T, D), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.bool)
    mix, other = ScalarMix(L, layer_norm=True), hidden.clone()
    other[:, ~mask] = 50.0
    torch.testing.assert_close(mix(hidden, mask)[mask], mix(other, mask)[mask])


def test_a_large_penalty_pulls_to_the_mean() -> None:
    mix = ScalarMix(L, l2=1.0)
    with torch.no_grad():
        mix.scalars.copy_(torch.tensor([1.0, 0.0, -1.0]))
    optimizer = torch.optim.SGD(mix.parameters(), 0.1)
    for _ in range(60):
        optimizer.zero_grad()
        mix.penalty().backward()
        optimizer.step()
    np.testing.assert_allclose(mix.weights(), [1 / 3] * 3, atol=1e-4)


def test_layers_must_match() -> None:
    with pytest.raises(ValueError, match="2 layers for a mix of 3"):
        ScalarMix(L)(torch.zeros(2, B, T, D), torch.ones(B, T))
