"""Attention in windows in one function gives what products and a softmax give, in values and gradients."""

import pytest
import torch

from firth.models.swin.config import SwinConfig
from firth.models.swin.network import AttentionInWindows, SwinNetwork, repeat_bias

ROWS, TOKENS, HEADS, SIZE = 12, 4, 2, 3


@pytest.mark.parametrize("windows", [1, 3])
def test_values_and_gradients(windows: int) -> None:
    torch.manual_seed(0)
    qkv = torch.randn(ROWS, TOKENS, 3 * HEADS * SIZE, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(windows, HEADS, TOKENS, TOKENS, dtype=torch.float64, requires_grad=True)
    query, key, value = (part.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for part in qkv.chunk(3, -1))
    scores = query @ key.transpose(-1, -2) / SIZE**0.5 + bias.repeat(ROWS // windows, 1, 1, 1)
    wanted = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    assert torch.allclose(AttentionInWindows.apply(qkv, bias, HEADS), wanted, atol=1e-12)
    assert torch.autograd.gradcheck(lambda one, two: AttentionInWindows.apply(one, two, HEADS), (qkv, bias))


def test_rows_of_an_image_follow_each_other() -> None:
    bias = torch.arange(3.0)[:, None, None, None].expand(3, HEADS, TOKENS, TOKENS)
    assert repeat_bias(bias, 6)[:, 0, 0, 0].tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("half", [False, True])
def test_training_reads_what_prediction_reads(half: bool) -> None:
    """With gradients the one function, without them PyTorch's; plain and shifted windows, also under autocast."""
    torch.manual_seed(0)
    sizes = {"image_size": 16, "patch_size": 2, "embedding_dim": 8, "depths": (2, 2), "num_heads": (2, 2)}
    network = SwinNetwork(SwinConfig(**sizes, window_size=4, local_start=True))
    network.start(torch.Generator())
    pixels = torch.randn(3, 3, 16, 16)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        found = network(pixels)
        with torch.no_grad():
            wanted = network(pixels)
    assert found.requires_grad
    assert not wanted.requires_grad
    assert torch.allclose(found.float(), wanted.float(), atol=0.05 if half else 1e-6)
