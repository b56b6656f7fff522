"""The projected LSTM in a recurrent stack: against its NumPy twin, lengths, carried state, gradients, dropped weights."""

import numpy as np
import pytest
import torch
from lstmp_twin import lstmp

from firth.core.errors import FirthError
from firth.models.recurrent.config import RecurrentConfig
from firth.models.recurrent.network import Recurrent
from firth.nn.lstmp import ProjectedLayer
from firth.nn.recurrent import Projection, RecurrentStack, StackDropout

CLIPS = [(0.0, 0.0), (0.3, 0.2), (3.0, 0.2), (0.3, 3.0)]


def random_layer(cell_clip: float = 0.0, output_clip: float = 0.0) -> ProjectedLayer:
    torch.manual_seed(4)
    layer = ProjectedLayer(3, 2, 5, cell_clip, output_clip).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return layer


@pytest.mark.parametrize(("cell_clip", "output_clip"), CLIPS)
def test_equations(cell_clip: float, output_clip: float) -> None:
    layer = random_layer(cell_clip, output_clip)
    inputs, state = torch.randn(6, 2, 3, dtype=torch.float64), 0.1 * torch.randn(2, 2, 5, dtype=torch.float64)
    with torch.no_grad():
        outputs, after = layer.read(inputs, state, None)
        plain = layer.steps(inputs.unbind(0), state)
    weight = np.concatenate([part[0].detach().numpy() for part in (layer.lstm.input_weight, layer.lstm.state_weight)])
    for row in range(2):
        wanted, hidden, cell = lstmp(
            inputs[:, row].numpy(),
            weight,
            layer.lstm.bias[0].detach().numpy(),
            layer.lstm.projection[0].detach().numpy(),
            cell_clip,
            output_clip,
            (state[0, row, :2].numpy(), state[1, row].numpy()),
        )
        np.testing.assert_allclose(outputs[:, row], wanted, atol=1e-12)
        np.testing.assert_allclose(torch.stack(plain)[:, row], wanted, atol=1e-12)
        np.testing.assert_allclose(after[0, row, :2], hidden, atol=1e-12)
        np.testing.assert_allclose(after[1, row], cell, atol=1e-12)
    assert not after[0, :, 2:].any()  # filled up with zeros
    if output_clip == 0.2:
        assert float(outputs.abs().max()) == pytest.approx(0.2)


@pytest.mark.parametrize(("cell_clip", "output_clip"), CLIPS)
def test_gradients_are_those_of_the_plain_steps(cell_clip: float, output_clip: float) -> None:
    layer = random_layer(cell_clip, output_clip)
    inputs = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    state = (0.1 * torch.randn(2, 2, 5, dtype=torch.float64)).requires_grad_()
    goal = torch.randn(5, 2, 2, dtype=torch.float64)
    wanted = [inputs, state, *layer.parameters()]
    fast = torch.autograd.grad((layer.read(inputs, state, None)[0] * goal).sum(), wanted)
    plain = torch.autograd.grad((torch.stack(layer.steps(inputs.unbind(0), state)) * goal).sum(), wanted)
    for one, two in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-11)


def build_stack(bidirectional: bool = False, drop: StackDropout | None = None) -> RecurrentStack:
    return RecurrentStack("lstmp", 3, [4, 4], bidirectional, True, drop, Projection(7, 0.5, 0.5))


def test_pieces_with_carried_state_equal_one_pass() -> None:
    stack = build_stack().eval()
    inputs = torch.randn(9, 2, 3)
    whole, end = stack(inputs)
    first, state = stack(inputs[:4])
    second, last = stack(inputs[4:], state=state)
    for layer in range(2):
        torch.testing.assert_close(torch.cat((first[layer], second[layer])), whole[layer])
        torch.testing.assert_close(last[layer], end[layer])


@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_changes_nothing(bidirectional: bool) -> None:
    stack = build_stack(bidirectional).eval()
    inputs, lens = torch.randn(7, 3, 3), torch.tensor([7, 4, 0])
    outputs, state = stack(inputs, lens)
    alone, alone_state = stack(inputs[:4, 1:2])
    for layer in range(2):
        torch.testing.assert_close(outputs[layer][:4, 1:2], alone[layer])
        assert not outputs[layer][4:, 1].any()
        assert not outputs[layer][:, 2].any()
    for here, there in zip(state, alone_state, strict=True):
        torch.testing.assert_close(here[:, 1:2], there)
        assert not here[:, 2].any()


def test_dropped_weights_only_while_training() -> None:
    stack = build_stack(drop=StackDropout(weight_prob=0.5))
    inputs = torch.randn(4, 2, 3)
    assert not torch.equal(stack(inputs)[0][0][1], stack(inputs)[0][0][1])
    assert torch.equal(stack(inputs)[0][0][0], stack(inputs)[0][0][0])  # the first step has read no state
    stack.eval()
    assert torch.equal(stack(inputs)[0][0], stack(inputs)[0][0])


def test_the_model_has_it() -> None:
    config = RecurrentConfig(vocab_size=9, cell="lstmp", embedding_dim=4, hidden_dim=6, num_layers=2)
    assert config.num_cells == 24
    model = Recurrent(config)
    assert [layer.hidden_dim for layer in model.stack.directions()] == [6, 4]
    assert [tuple(part.shape) for part in model.zero_state(3)] == [(2, 3, 24), (2, 3, 24)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cell": "lstm", "cell_dim": 512}, "cell_dim is for cell=lstmp, not for lstm"),
        ({"cell": "lstmp", "cell_dim": 100}, "is less than the 256 outputs of a layer: raise it"),
    ],
)
def test_cells_that_do_not_fit(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FirthError, match=message):
        RecurrentConfig.build(settings, "model")
