"""The projected LSTM against its plain twin; masks, fresh starts, carried states, gradients."""

import numpy as np
import pytest
import torch
from lstmp_twin import lstmp
from numpy.typing import NDArray

from firth.nn.lstmp import LSTMP, StackedLSTMP

G, T, B, N, C, P = 2, 5, 3, 4, 6, 3


def layer(cell_clip: float = 3.0, output_clip: float = 3.0, scale: float = 1.0, **more: int) -> LSTMP:
    torch.manual_seed(1)
    found = LSTMP(N, C, P, num_directions=G, cell_clip=cell_clip, output_clip=output_clip, **more).double()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.normal_(std=scale)
    return found


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


def twin(model: LSTMP, inputs: torch.Tensor, group: int, row: int) -> NDArray[np.float64]:
    weight = torch.cat((model.input_weight[group], model.state_weight[group])).detach().numpy()
    bias, projection = model.bias[group].detach().numpy(), model.projection[group].detach().numpy()
    return lstmp(inputs[group, :, row].numpy(), weight, bias, projection, model.cell_clip, model.output_clip)[0]


@pytest.mark.parametrize(("cell_clip", "output_clip"), [(3.0, 3.0), (0.4, 0.3), (0.0, 0.0)])
def test_equals_the_twin(cell_clip: float, output_clip: float) -> None:
    model, inputs = layer(cell_clip, output_clip), random(G, T, B, N)
    outputs, (hidden, cell) = model(inputs)
    for group in range(G):
        for row in range(B):
            np.testing.assert_allclose(
                outputs[group, :, row].detach(), twin(model, inputs, group, row), rtol=0, atol=1e-12
            )
    torch.testing.assert_close(hidden, outputs[:, -1])
    if cell_clip == 0.4:
        assert bool((cell.abs() == 0.4).any()), "the clips must have been at work"
        assert bool((outputs.abs() == 0.3).any())


def test_padding_changes_nothing() -> None:
    model, inputs = layer(), random(G, T, B, N)
    live = torch.ones(G, T, B, dtype=torch.bool)
    live[0, 3:, 1] = False  # read forward: padding comes last
    live[1, :2, 1] = False  # read backward: padding comes first
    outputs, (hidden, cell) = model(inputs, live_GTB=live)
    other = inputs.clone()
    other[~live] = 100.0
    again, state = model(other, live_GTB=live)
    assert torch.equal(outputs, again)
    assert torch.equal(state[1], cell)
    assert not outputs[~live].any()
    short_forward, (last, _) = model(inputs[:, :3])
    torch.testing.assert_close(outputs[0, :3, 1], short_forward[0, :, 1])
    torch.testing.assert_close(hidden[0, 1], last[0, 1])
    torch.testing.assert_close(outputs[1, 2:, 1], model(inputs[:, 2:])[0][1, :, 1])


def test_a_carried_state_joins_pieces_and_a_fresh_one_parts_them() -> None:
    model, inputs = layer(), random(G, T, B, N)
    whole, last = model(inputs)
    first, state = model(inputs[:, :2])
    second, end = model(inputs[:, 2:], state)
    torch.testing.assert_close(torch.cat((first, second), dim=1), whole)
    torch.testing.assert_close(end, last)
    fresh = torch.zeros(G, T, B, dtype=torch.bool)
    fresh[0, 2, 1] = True
    parted, _ = model(inputs, fresh_GTB=fresh)
    torch.testing.assert_close(parted[0, 2:, 1], model(inputs[:, 2:])[0][0, :, 1])
    torch.testing.assert_close(parted[0, :, 0], whole[0, :, 0])


@pytest.mark.parametrize("masked", [False, True])
def test_gradients(masked: bool) -> None:
    """Against finite differences, with clips that are at work."""
    model, inputs = layer(0.5, 0.4, scale=0.7), random(G, T, B, N).requires_grad_()
    state = (0.3 * random(G, B, P)).requires_grad_(), (0.3 * random(G, B, C)).requires_grad_()
    live = fresh = None
    if masked:
        live, fresh = torch.ones(G, T, B, dtype=torch.bool), torch.zeros(G, T, B, dtype=torch.bool)
        live[0, 3:, 1] = live[1, :2, 1] = live[0, 2, 0] = False
        fresh[0, 1, 0] = fresh[1, 3, 2] = True
    names = [name for name, _ in model.named_parameters()]

    def run(inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, *weights: torch.Tensor) -> object:
        given = dict(zip(names, weights, strict=True))
        outputs, after = torch.func.functional_call(model, given, (inputs, (hidden, cell), live, fresh))
        return (outputs, *after)

    assert torch.autograd.gradcheck(run, (inputs, *state, *model.parameters()), atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_without_gradients_the_numbers_are_the_same(masked: bool) -> None:
    model, inputs = layer(), random(G, T, B, N)
    live = torch.rand(G, T, B, generator=torch.Generator().manual_seed(1)) < 0.7 if masked else None
    wanted = model(inputs, live_GTB=live)
    with torch.inference_mode():
        found = model(inputs, live_GTB=live)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("residual", [False, True])
def test_layers_stand_on_each_other(residual: bool) -> None:
    torch.manual_seed(2)
    model = StackedLSTMP(3, N, C, P, G, residual=residual).double()
    outputs, states = model(random(G, T, B, N))
    below = random(G, T, B, N)
    for number, one in enumerate(model.layers):
        wanted, state = one(below)
        below = wanted + below if residual and number else wanted
        torch.testing.assert_close(outputs[number], below)
        torch.testing.assert_close(states[number], state)


def test_autocast_keeps_the_steps_whole() -> None:
    model, inputs = layer().float(), random(G, T, B, N).float()
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _ = model(inputs)
    outputs.sum().backward()
    assert outputs.dtype == torch.float32
    torch.testing.assert_close(outputs, model(inputs)[0], atol=0.1, rtol=0.1)
