"""Attention and blocks against their NumPy twins."""

import numpy as np
import numpy_twin as twin
import pytest
import torch
from torch import nn

from firth.models.shared.configs import EncoderConfig
from firth.nn.attention import SelfAttention, attend, attend_with_bias
from firth.nn.blocks import Block


def weights_of(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().double().numpy() for name, value in module.state_dict().items()}


def roughen(module: nn.Module) -> nn.Module:
    """Every weight and bias random, norms too, so that nothing hides at zero or one."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (0.5 if parameter.ndim == 1 else 0.0))
    return module.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_heads", [1, 3])
def test_attention(num_heads: int, bias: bool) -> None:
    attention = roughen(SelfAttention(12, num_heads, 0.1, bias))
    hidden = torch.randn(2, 7, 12)
    allowed = torch.rand(2, 1, 7, 7) < 0.6
    allowed |= torch.eye(7, dtype=torch.bool)
    added = torch.randn(2, num_heads, 7, 7)
    for mask, bias_of in ((None, None), (allowed, None), (added, added)):
        out = attention(hidden, mask, None)
        looks = attention.weights(hidden, mask, None)
        for row in range(2):
            seen = allowed[row, 0].numpy() if mask is allowed else np.ones((7, 7), bool)
            wanted, wanted_looks = twin.attention(
                hidden[row].double().numpy(),
                weights_of(attention),
                num_heads,
                seen,
                None if bias_of is None else bias_of[row].double().numpy(),
            )
            np.testing.assert_allclose(out[row].detach().numpy(), wanted, atol=2e-5)
            np.testing.assert_allclose(looks[row].detach().numpy(), wanted_looks, atol=2e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_first": True},
        {"norm": "rms", "norm_first": True},
        {"norm": "rms"},
        {"gated": True, "activation": "gelu_tanh"},
        {"bias": False, "norm_first": True, "activation": "relu"},
    ],
    ids=str,
)
def test_block(options: dict[str, object]) -> None:
    config = EncoderConfig.build({"hidden_dim": 12, "num_heads": 3, "ffn_dim": 20, "norm_eps": 1e-6, **options}, "test")
    block = roughen(Block(config))
    hidden = torch.randn(1, 6, 12)
    allowed = torch.ones(6, 6, dtype=torch.bool).tril()
    wanted = twin.block(hidden[0].double().numpy(), weights_of(block), allowed.numpy(), config.model_dump())
    np.testing.assert_allclose(block(hidden, allowed[None, None], None)[0].detach().numpy(), wanted, atol=5e-5)
    picks = torch.tensor([[4, 0, 4]])
    picked = block.picked(hidden, picks, allowed[picks[0]][None, None], None, None)
    np.testing.assert_allclose(picked[0].detach().numpy(), wanted[[4, 0, 4]], atol=5e-5)


def test_dropout_only_while_training() -> None:
    block = Block(EncoderConfig(hidden_dim=8, num_heads=2, ffn_dim=16, dropout_prob=0.5, attention_dropout_prob=0.5))
    hidden = torch.randn(1, 5, 8)
    assert not torch.equal(block(hidden, None, None), block(hidden, None, None))
    block.eval()
    assert torch.equal(block(hidden, None, None), block(hidden, None, None))


def test_a_bias_that_learns() -> None:
    """The same numbers and gradients as the kernel's, also where the bias forbids."""
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(2, 3, 5, 4, generator=generator, requires_grad=True) for _ in range(3)]
    table = torch.randn(1, 3, 5, 5, generator=generator, requires_grad=True)
    weights = torch.randn(2, 3, 5, 4, generator=generator)
    found = []
    for way in (attend_with_bias, torch.nn.functional.scaled_dot_product_attention):
        bias = table.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), float("-inf"))
        out = way(*parts, bias)
        found.append((out, *torch.autograd.grad((out * weights).sum(), [*parts, table])))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("view", ["all", "causal", "mask", "bias"])
def test_half_precision_by_products(view: str) -> None:
    """While it learns, bfloat16 on a CPU takes another way; outputs and gradients are those of single precision."""
    torch.manual_seed(0)
    given = [torch.randn(2, 3, 5, 8) for _ in range(3)]
    mask = None if view in ("all", "causal") else torch.rand(2, 1, 5, 5) > 0.4
    if mask is not None:
        mask = mask | torch.eye(5, dtype=torch.bool)
        mask = mask if view == "mask" else torch.zeros(2, 1, 5, 5).masked_fill(~mask, float("-inf"))
    found: list[list[torch.Tensor]] = []
    for kind in (torch.float32, torch.bfloat16):
        parts = [part.clone().to(kind).requires_grad_() for part in given]
        mixed = attend(parts[0], parts[1], parts[2], mask, causal=view == "causal")
        mixed.float().square().sum().backward()
        found.append([mixed.float(), *(part.grad.float() for part in parts if part.grad is not None)])
    for exact, half in zip(*found, strict=True):
        torch.testing.assert_close(half, exact, atol=0.08, rtol=0.05)
