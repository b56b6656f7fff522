"""Muon against the singular value decomposition, a plain NumPy version, and AdamW where it is AdamW."""

import numpy as np
import pytest
import torch
from torch import nn

from firth.training.optimizer import MOMENTUM, Muon, find_matrices, orthogonalize

RATE, DECAY, MOMENTUM_SHARE = 0.05, 0.1, 0.9


def nearest_orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """U V^T."""
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    return left @ right


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4), (1, 5)])
def test_singular_values_become_about_one(shape: tuple[int, int]) -> None:
    """The published iteration keeps the singular vectors and brings the values to 0.7 ... 1.2."""
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    for matrix, found in zip(matrices, orthogonalize(matrices), strict=True):
        goal = nearest_orthogonal(matrix)
        left, _, right = torch.linalg.svd(matrix, full_matrices=False)
        values = left.T @ found @ right.T
        torch.testing.assert_close(values, torch.diag(values.diagonal()), atol=1e-4, rtol=0)
        assert 0.6 < float(values.diagonal().min()) <= float(values.diagonal().max()) < 1.3
        assert float((found * goal).sum() / (found.norm() * goal.norm())) > 0.97


def test_the_published_iteration() -> None:
    """Jordan's program line by line, in double precision."""
    matrix = np.random.default_rng(0).normal(size=(5, 7))
    found = matrix / np.linalg.norm(matrix)
    for _ in range(5):
        square = found @ found.T
        found = 3.4445 * found + (-4.7750 * square + 2.0315 * square @ square) @ found
    np.testing.assert_allclose(orthogonalize(torch.from_numpy(matrix)).numpy(), found, atol=1e-4)


def test_half_precision_turns_the_same_way() -> None:
    matrices = torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(2))
    exact, half = orthogonalize(matrices), orthogonalize(matrices, precision=torch.bfloat16)
    assert half.dtype == torch.float32
    for one, two in zip(exact, half, strict=True):
        assert float((one * two).sum() / (one.norm() * two.norm())) > 0.995


def test_one_matrix_does_not_depend_on_the_others() -> None:
    matrices = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(1))
    together = orthogonalize(matrices)
    for matrix, found in zip(matrices, together, strict=True):
        torch.testing.assert_close(orthogonalize(matrix[None])[0], found)


class Fused(nn.Module):
    """Three maps in one matrix, and one in another."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        self.out = nn.Linear(4, 6)

    def matrices(self) -> dict[str, int]:
        return {"qkv.weight": 3, "out.weight": 1}


def build() -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleDict({"table": nn.Embedding(5, 4), "block": Fused()})


def muon_of(module: nn.Module) -> Muon:
    maps = find_matrices(module)
    groups: list[dict[str, object]] = [
        {"params": [parameter], "weight_decay": DECAY, "maps": maps.get(name, 0)}
        for name, parameter in module.named_parameters()
    ]
    return Muon(groups, RATE, (0.9, 0.98), 1e-6, MOMENTUM_SHARE)


def gradients(module: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def test_find_matrices() -> None:
    assert find_matrices(build()) == {"block.qkv.weight": 3, "block.out.weight": 1}
    assert find_matrices(Fused()) == {"qkv.weight": 3, "out.weight": 1}


def test_steps_by_hand() -> None:
    """Momentum, Nesterov, the scale of AdamW, decoupled decay; each map of a fused matrix by itself."""
    module = build()
    optimizer = muon_of(module)
    goals = {name: module.get_parameter(name).detach().clone() for name in find_matrices(module)}
    kept = {name: torch.zeros_like(value) for name, value in goals.items()}
    for step in range(3):
        gradients(module, step)
        for name, maps in find_matrices(module).items():
            gradient = module.get_parameter(name).grad
            assert gradient is not None
            kept[name] = MOMENTUM_SHARE * kept[name] + (1 - MOMENTUM_SHARE) * gradient
            direction = MOMENTUM_SHARE * kept[name] + (1 - MOMENTUM_SHARE) * gradient
            parts = [orthogonalize(part[None])[0] for part in direction.chunk(maps)]
            scale = 0.2 * max(parts[0].shape) ** 0.5
            goals[name] = (1 - RATE * DECAY) * goals[name] - RATE * scale * torch.cat(parts)
        optimizer.step()
    for name, goal in goals.items():
        torch.testing.assert_close(module.get_parameter(name).detach(), goal)
        torch.testing.assert_close(optimizer.state[module.get_parameter(name)][MOMENTUM], kept[name])


def test_the_size_of_a_step_is_that_of_adamw() -> None:
    """The root mean square of a step is about 0.2 of the rate, whatever the shape."""
    for rows, columns in ((64, 64), (64, 256), (256, 64)):
        steps = 0.2 * max(rows, columns) ** 0.5 * orthogonalize(torch.randn(1, rows, columns))
        assert float(steps.square().mean().sqrt()) == pytest.approx(0.2, rel=0.15)


def test_everything_else_is_adamw() -> None:
    module, twin = build(), build()
    optimizer = muon_of(module)
    others = [parameter for name, parameter in twin.named_parameters() if name not in find_matrices(twin)]
    plain = torch.optim.AdamW(others, RATE, (0.9, 0.98), 1e-6, DECAY, fused=True)
    for step in range(3):
        gradients(module, step)
        gradients(twin, step)
        optimizer.step()
        plain.step()
    matrices = find_matrices(module)
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, twin.get_parameter(name)) == (name not in matrices), name


def test_without_a_gradient_a_matrix_stays() -> None:
    module = build()
    before = module.get_parameter("block.qkv.weight").detach().clone()
    muon_of(module).step()
    assert torch.equal(module.get_parameter("block.qkv.weight"), before)
