import pytest
import torch

from firth.nn.layers import dropout, growth, kept


@pytest.mark.parametrize("prob", [0.1, 0.3, 0.5, 0.9])
def test_as_many_are_left_out_as_asked(prob: float) -> None:
    torch.manual_seed(1)
    count = 1_000_003  # not divisible by the four that one draw decides
    share = 1 - kept(torch.Size((count,)), prob).double().mean().item()
    assert share == pytest.approx(prob, abs=4 * (prob * (1 - prob) / count) ** 0.5 + 1 / 65536)


def test_neighbours_are_independent() -> None:
    torch.manual_seed(2)
    found = kept(torch.Size((400_000, 4)), 0.5).double() - 0.5
    for away in range(1, 9):
        flat = found.flatten()
        assert abs((flat[away:] * flat[:-away]).mean().item()) < 0.25 * 4 / (1.6e6) ** 0.5


def test_the_others_grow_so_that_the_mean_stays() -> None:
    torch.manual_seed(3)
    values = torch.full((1000, 1000), 2.0)
    found = dropout(values, 0.3)
    assert found.unique().tolist() == pytest.approx([0.0, 2 / 0.7], rel=1e-4)
    assert found.mean().item() == pytest.approx(2.0, abs=0.01)


def test_gradients_pass_where_numbers_passed() -> None:
    torch.manual_seed(4)
    values = torch.randn(50, 40, requires_grad=True)
    found = dropout(values, 0.4)
    found.sum().backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad * values.detach(), found.detach())
    torch.testing.assert_close(values.grad.max().item(), growth(0.4))


def test_one_seed_one_mask() -> None:
    masks = []
    for _ in range(2):
        torch.manual_seed(5)
        masks.append(dropout(torch.ones(7, 9), 0.5))
    assert torch.equal(*masks)
    assert not torch.equal(masks[1], dropout(torch.ones(7, 9), 0.5))


def test_nothing_is_drawn_outside_training() -> None:
    values = torch.randn(3)
    before = torch.get_rng_state()
    assert dropout(values, 0.5, training=False) is values
    assert dropout(values, 0.0) is values
    assert torch.equal(before, torch.get_rng_state())


def test_almost_everything_left_out() -> None:
    found = dropout(torch.ones(10_000), 0.9999999)
    assert torch.isfinite(found).all()


def test_dtype_and_shape_stay() -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        found = dropout(torch.ones(2, 0, 3, dtype=dtype), 0.5)
        assert (found.dtype, found.shape) == (dtype, (2, 0, 3))
