from collections.abc import Callable

import pytest
import torch

from firth.nn import attention as module
from firth.nn.attention import attend, with_bias
from firth.nn.layers import growth, kept

B, H, T, S, K = 3, 2, 5, 7, 4
PROB = 0.3


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """As the formula says, with the weights that the same seed keeps."""
    scores = query @ key.transpose(-1, -2) / K**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1)
    return (weights * kept(weights.shape, PROB) * growth(PROB)) @ value


def parts(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    pick = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=pick, dtype=torch.float64, requires_grad=True) for shape in shapes]


def padding() -> torch.Tensor:
    return (torch.arange(S) < torch.tensor([7, 3, 1])[:, None])[:, None, None]


MASKS: dict[str, Callable[[], torch.Tensor | None]] = {
    "none": lambda: None,
    "padding": padding,
    "of both": lambda: padding() & torch.ones(T, S, dtype=torch.bool).tril(2),
    "two-dimensional": lambda: torch.ones(T, S, dtype=torch.bool).tril(),
    "bias of heads": lambda: parts((1, H, T, S))[0],
    "bias of sequences": lambda: parts((B, 1, T, S))[0],
    "bias of both": lambda: parts((B, H, T, S))[0],
    "bias of pairs": lambda: parts((T, S))[0],
}


@pytest.mark.parametrize("at_once", [1, 100, 1 << 18])
@pytest.mark.parametrize("name", MASKS)
def test_attention_with_dropout_is_the_formula(name: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    found = []
    for ours in (True, False):
        given, mask = parts((B, H, T, K), (B, H, S, K), (B, H, S, K)), MASKS[name]()
        torch.manual_seed(7)
        mixed = attend(*given, mask, PROB) if ours else plain(*given, mask)
        (mixed * torch.linspace(-1, 1, mixed.numel(), dtype=mixed.dtype).view_as(mixed)).sum().backward()
        learned = [] if mask is None or mask.grad is None else [mask.grad]
        found.append([mixed.detach(), *(part.grad for part in given if part.grad is not None), *learned])
    assert len(found[0]) == len(found[1]) >= 4
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


def test_causal_with_dropout_sees_nothing_to_come() -> None:
    given = parts((B, H, S, K), (B, H, S, K), (B, H, S, K))
    changed = [given[0], *(torch.cat((part[:, :, :4], part[:, :, 4:] + 1), 2) for part in given[1:])]
    found = []
    for some in (given, changed):
        torch.manual_seed(8)
        found.append(attend(*some, None, PROB, causal=True))
    torch.testing.assert_close(found[0][:, :, :4], found[1][:, :, :4])
    assert not torch.allclose(found[0][:, :, 4:], found[1][:, :, 4:])


def test_strided_inputs_as_the_blocks_give_them() -> None:
    joined = parts((B, T, 3, H, K))[0]
    found = []
    for ours in (True, False):
        query, key, value = joined.permute(2, 0, 3, 1, 4)
        torch.manual_seed(9)
        mixed = attend(query, key, value, None, PROB) if ours else plain(query, key, value, None)
        found.append((mixed, torch.autograd.grad(mixed.square().sum(), joined)[0]))
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


def test_a_row_that_may_look_at_nothing_is_no_nan() -> None:
    given = parts((1, 1, 2, K), (1, 1, 2, K), (1, 1, 2, K))
    mixed = attend(*given, torch.tensor([[False, False], [True, True]]), PROB)
    mixed.sum().backward()
    assert all(torch.isfinite(part.grad).all() for part in given if part.grad is not None)


def test_the_mean_over_masks_is_attention_without_dropout() -> None:
    given = [part.detach() for part in parts((B, H, T, K), (B, H, S, K), (B, H, S, K))]
    torch.manual_seed(10)
    many = [attend(*given, None, PROB) for _ in range(4000)]
    torch.testing.assert_close(torch.stack(many).mean(0), attend(*given), rtol=0.0, atol=0.06)


def test_nothing_to_attend_to_or_from() -> None:
    for num_rows, num_tokens in ((0, T), (B, 0)):
        given = parts((num_rows, H, num_tokens, K), (num_rows, H, num_tokens, K), (num_rows, H, num_tokens, K))
        mixed = attend(*given, None, PROB)
        mixed.sum().backward()
        assert mixed.shape == (num_rows, H, num_tokens, K)


def test_half_precision() -> None:
    """As autocast runs it, under a bias in full precision that learns."""
    torch.manual_seed(11)
    layer, hidden = torch.nn.Linear(K, 3 * H * K), torch.randn(B, T, K)
    bias = torch.randn(1, H, T, T, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        query, key, value = layer(hidden).view(B, T, 3, H, K).permute(2, 0, 3, 1, 4)
        mixed = attend(query, key, value, bias, PROB)
    mixed.float().sum().backward()
    assert mixed.dtype == torch.bfloat16
    assert layer.weight.grad is not None
    assert bias.grad is not None
    assert torch.isfinite(layer.weight.grad).all()
    assert bias.grad.dtype == torch.float32


def test_rotated_queries_in_half_precision() -> None:
    """Rotation gives single precision under autocast, values stay half."""
    torch.manual_seed(12)
    query, key, value = (torch.randn(B, H, T, K) for _ in range(3))
    mixed = attend(query, key, value.bfloat16(), None, PROB)
    assert mixed.dtype == torch.bfloat16
    assert torch.isfinite(mixed).all()


def test_a_hidden_row_under_a_bias_in_half_precision_is_no_nan() -> None:
    """What hides a token is finite in each precision, also where a bias learns."""
    tokens = torch.tensor([[True, True, False]])
    for dtype in (torch.bfloat16, torch.float16):
        bias = with_bias(
            torch.zeros(1, H, 3, 3, requires_grad=True), (tokens[:, None, None, :] & torch.eye(3, dtype=torch.bool))
        )
        assert bias is not None
        query, key, value = (torch.randn(1, H, 3, K, dtype=dtype) for _ in range(3))
        mixed = attend(query, key, value, bias.to(dtype))
        assert torch.isfinite(mixed).all()
        torch.testing.assert_close(mixed[:, :, :2], value[:, :, :2])  # each of them sees itself alone
