"""Cells against their equations, the fast path against the cells, and what holds for stacks."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from firth.nn.cells import CELLS, ROWS, CellWeights, has_cell_state
from firth.nn.recurrent import RecurrentLayer, RecurrentStack, StackDropout, drop_steps, reverse_within

KIND = pytest.mark.parametrize("kind", sorted(CELLS))
Array = NDArray[np.float64]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def numpy_step(kind: str, x: Array, h: Array, c: Array, layer: RecurrentLayer) -> tuple[Array, Array]:
    """The published equations, gate by gate with matrices of their own."""
    size = layer.hidden_dim
    named = {name: slice(at * size, (at + 1) * size) for at, name in enumerate(ROWS[kind])}
    weight_in, weight_hidden, bias = (
        tensor.detach().numpy() for tensor in (layer.weight_in, layer.weight_hidden, layer.bias)
    )

    def total(gate: str, hidden: Array) -> Array:
        rows = named[gate]
        return np.asarray(x @ weight_in[rows].T + hidden @ weight_hidden[rows].T + bias[rows])

    if kind == "rnn_tanh":
        return np.tanh(total("h", h)), c
    if kind == "rnn_relu":
        return np.maximum(total("h", h), 0), c
    if kind == "gru":
        z, r = sigmoid(total("z", h)), sigmoid(total("r", h))
        return (1 - z) * h + z * np.tanh(total("n", r * h)), c
    if kind == "gru_after":
        assert layer.hidden_bias is not None
        z, r = sigmoid(total("z", h)), sigmoid(total("r", h))
        rows = named["n"]
        inner = h @ weight_hidden[rows].T + layer.hidden_bias.detach().numpy()
        return z * h + (1 - z) * np.tanh(x @ weight_in[rows].T + bias[rows] + r * inner), c
    peephole = np.zeros((3, size)) if layer.peephole is None else layer.peephole.detach().numpy()
    i = sigmoid(total("i", h) + peephole[1] * c)
    f = 1 - i if kind == "coupled" else sigmoid(total("f", h) + peephole[2] * c)
    c = f * c + i * np.tanh(total("g", h))
    return sigmoid(total("o", h) + peephole[0] * c) * np.tanh(c), c


def random_layer(kind: str, input_dim: int = 3, hidden_dim: int = 4) -> RecurrentLayer:
    torch.manual_seed(3)
    layer = RecurrentLayer(kind, input_dim, hidden_dim).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return layer


@KIND
def test_cells_and_fast_path_are_the_equations(kind: str) -> None:
    layer = random_layer(kind)
    inputs, state = torch.randn(5, 2, 3, dtype=torch.float64), torch.randn(layer.num_states, 2, 4, dtype=torch.float64)
    h, c = state[0].numpy(), state[-1].numpy()
    with torch.no_grad():
        hidden, cells = layer(inputs, state)
        plain = layer.steps(inputs.unbind(0), state)
    for at in range(5):
        h, c = numpy_step(kind, inputs[at].numpy(), h, c, layer)
        np.testing.assert_allclose(hidden[at], h, atol=1e-12)
        np.testing.assert_allclose(plain[at], h, atol=1e-12)
        if has_cell_state(kind):
            np.testing.assert_allclose(cells[at], c, atol=1e-12)
    assert (cells is not None) == has_cell_state(kind)


@KIND
def test_gradients_are_those_of_the_plain_cell(kind: str) -> None:
    """Numerically (gradcheck), and against autograd through the cell's own steps."""
    layer = random_layer(kind)
    inputs = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    state = torch.randn(layer.num_states, 2, 4, dtype=torch.float64, requires_grad=True)
    weights = list(layer.parameters())

    def run(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden, cells = layer(inputs, state)
        return (hidden,) if cells is None else (hidden, cells)

    assert torch.autograd.gradcheck(run, (inputs, state, *weights))
    goal = torch.randn(4, 2, 4, dtype=torch.float64)
    fast = torch.autograd.grad((layer(inputs, state)[0] * goal).sum(), [inputs, state, *weights])
    plain = torch.autograd.grad(
        (torch.stack(layer.steps(inputs.unbind(0), state)) * goal).sum(), [inputs, state, *weights]
    )
    for one, two in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def hand_weights(num_gates: int) -> CellWeights:
    """One unit, one input; every gate is 0.5 x + 0.25 h."""
    return CellWeights(
        torch.full((num_gates, 1), 0.5),
        torch.full((num_gates, 1), 0.25),
        torch.zeros(num_gates),
        torch.tensor([[1.0], [2.0], [-1.0]]),
    )


def test_peephole_by_hand() -> None:
    """x = 2, h = 0, c = 1: all sums are 1. i = s(1 + 2), f = s(1 - 1) = 1/2, c' = 1/2 + i tanh 1, o = s(1 + c')."""
    one = torch.ones(1, 1)
    h, c = CELLS["peephole"](2 * one, 0 * one, one, hand_weights(4))
    c_hand = 0.5 + 0.9525741268 * 0.7615941560
    assert float(c) == pytest.approx(c_hand, abs=1e-6)
    assert float(c) == pytest.approx(1.2254749, abs=1e-6)
    assert float(h) == pytest.approx(0.7592505, abs=1e-6)


def test_coupled_by_hand() -> None:
    """x = 2, h = 0, c = 1: i = s(1), c' = (1 - i) + i tanh 1, h' = s(1) tanh c'."""
    one = torch.ones(1, 1)
    h, c = CELLS["coupled"](2 * one, 0 * one, one, hand_weights(3))
    i = 0.7310585786
    assert float(c) == pytest.approx((1 - i) + i * 0.7615941560, abs=1e-6)
    assert float(h) == pytest.approx(0.4957794, abs=1e-6)


def test_library_kernels_agree() -> None:
    """The LSTM is ``nn.LSTM`` and ``gru_after`` is ``nn.GRU``, once the rows are put in their order."""
    inputs = torch.randn(6, 3, 5)
    for kind, library, theirs in (("lstm", torch.nn.LSTM(5, 4), "ifgo"), ("gru_after", torch.nn.GRU(5, 4), "rzn")):
        layer = RecurrentLayer(kind, 5, 4)
        order = [ROWS[kind].index(gate) for gate in theirs]

        def ordered(rows: torch.Tensor, order: list[int] = order) -> torch.Tensor:
            return torch.cat([rows.split(4)[at] for at in order])

        with torch.no_grad():
            library.weight_ih_l0.copy_(ordered(layer.weight_in))
            library.weight_hh_l0.copy_(ordered(layer.weight_hidden))
            library.bias_ih_l0.copy_(ordered(layer.bias))
            library.bias_hh_l0.zero_()
            wanted = library(inputs)[0]
            torch.testing.assert_close(layer(inputs, layer.zero_state(3))[0], wanted, atol=1e-6, rtol=1e-5)


def test_the_library_lstm_is_ours() -> None:
    """Outputs, the last cell and gradients, where only the last cell is asked for."""
    layer = random_layer("lstm").float()
    inputs, state = torch.randn(5, 2, 3, requires_grad=True), torch.randn(2, 2, 4, requires_grad=True)
    wanted = [inputs, state, *layer.parameters()]
    found = []
    for all_cells in (True, False):
        hidden, cells = layer(inputs, state, all_cells)
        found.append((hidden, cells[-1], *torch.autograd.grad(hidden.square().sum() + cells[-1].sum(), wanted)))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)


@KIND
def test_recurrent_matrices_start_orthogonal(kind: str) -> None:
    for block in RecurrentLayer(kind, 3, 6).weight_hidden.detach().split(6):
        torch.testing.assert_close(block @ block.T, torch.eye(6), atol=1e-5, rtol=0)
        assert float(torch.linalg.eigvals(block).abs().max()) == pytest.approx(1, abs=1e-5)


@KIND
def test_pieces_with_carried_state_equal_one_pass(kind: str) -> None:
    stack = RecurrentStack(kind, 3, [4, 4], residual=True).eval()
    inputs = torch.randn(9, 2, 3)
    whole, end = stack(inputs)
    first, state = stack(inputs[:4])
    second, last = stack(inputs[4:], state=state)
    for layer in range(2):
        torch.testing.assert_close(torch.cat((first[layer], second[layer])), whole[layer])
        torch.testing.assert_close(last[layer], end[layer])


@KIND
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_changes_nothing(kind: str, bidirectional: bool) -> None:
    stack = RecurrentStack(kind, 3, [4, 4], bidirectional).eval()
    inputs, lens = torch.randn(7, 3, 3), torch.tensor([7, 4, 0])
    outputs, state = stack(inputs, lens)
    alone, alone_state = stack(inputs[:4, 1:2])
    for layer in range(2):
        torch.testing.assert_close(outputs[layer][:4, 1:2], alone[layer])
        assert not outputs[layer][4:, 1].any()
        assert not outputs[layer][:, 2].any()
    for here, there in zip(state, alone_state, strict=True):
        torch.testing.assert_close(here[:, 1:2], there)
        assert not here[:, 2].any()  # nothing was read: still the start


def test_bidirectional_reads_from_both_ends() -> None:
    stack = RecurrentStack("gru", 3, [4], bidirectional=True)
    inputs = torch.randn(5, 1, 3)
    changed = inputs.clone()
    changed[4] += 1
    one, two = stack(inputs)[0][0], stack(changed)[0][0]
    torch.testing.assert_close(one[:4, :, :4], two[:4, :, :4])  # the left half has not read the end
    assert (one[0, :, 4:] != two[0, :, 4:]).all()
    backward = stack.directions()[1]
    torch.testing.assert_close(one[..., 4:], backward(inputs.flip(0), backward.zero_state(1))[0].flip(0))


def test_reverse_within() -> None:
    values = torch.arange(4.0)[:, None, None].expand(4, 2, 1)
    assert reverse_within(values, torch.tensor([4, 2]))[:, :, 0].T.tolist() == [[3, 2, 1, 0], [1, 0, 2, 3]]


def test_dropouts() -> None:
    """Variational masks are the same at every step; weight drop is off when not training."""
    ones = torch.ones(6, 2, 50)
    dropped = drop_steps(ones, 0.5, variational=True, training=True)
    assert (dropped == dropped[:1]).all()
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert not (drop_steps(ones, 0.5, variational=False, training=True)[0] == dropped[0]).all()
    assert drop_steps(ones, 0.5, variational=True, training=False) is ones
    stack = RecurrentStack("lstm", 3, [8], drop=StackDropout(weight_prob=0.5))
    inputs = torch.randn(4, 2, 3)
    assert not torch.equal(stack(inputs)[0][0][1], stack(inputs)[0][0][1])
    stack.eval()
    assert torch.equal(stack(inputs)[0][0], stack(inputs)[0][0])


@KIND
def test_half_precision_outside_the_steps(kind: str) -> None:
    """Under autocast the products are half as precise, the steps as the weights are; gradients come back."""
    torch.manual_seed(0)
    layer = RecurrentLayer(kind, 6, 5)
    inputs, state = torch.randn(4, 3, 6), layer.zero_state(3)
    plain, _ = layer(inputs, state)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = layer(inputs, state)
    torch.testing.assert_close(found.float(), plain, atol=0.05, rtol=0.05)
    found.float().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert layer.weight_hidden.grad is not None
