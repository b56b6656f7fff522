"""Recurrent cells, twice: as their equations, one step at a time, and as autograd functions over all steps, which
give the same values faster.

A cell is a function (x, h, c, weights) -> (h, c); cells without a cell state return ``c`` unchanged. Gates are
concatenated in the rows of the matrices, in the order in which ``ROWS`` names them.

The functions over all steps get inputs that are already multiplied (one large product for all steps, outside).
Forward, a step is one product and a few calls that write in place. Backward, all that does not depend on later
steps (the slopes of the gates) is computed for all steps at once; a step is then again one product and a few calls,
and the gradient of the recurrent matrix is one product at the end.

T steps, B batch, I input size, H hidden size, G rows of all gates. Sequences of states are [T+1, B, H], the first
state included.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.autograd.function import once_differentiable

from firth.core.types import SLICE_STEPS, between_slices
from firth.nn.layers import GradientContext

State = tuple[torch.Tensor, torch.Tensor]
ROWS = {
    "rnn_tanh": "h",
    "rnn_relu": "h",
    "lstm": "oifg",
    "peephole": "oifg",
    "coupled": "oig",
    "gru": "zrn",
    "gru_after": "rzn",
}
Gradients = tuple[torch.Tensor | None, ...]


@dataclass(frozen=True)
class CellWeights:
    """The weights of one cell."""

    inputs_GI: torch.Tensor
    hidden_GH: torch.Tensor
    bias_G: torch.Tensor
    peephole_3H: torch.Tensor | None = None  # of o, i and f (peephole LSTM)
    hidden_bias_H: torch.Tensor | None = None  # of the candidate, inside the reset (GRU of the libraries)

    def parts(self, x_BI: torch.Tensor, h_BH: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """W x + U h + b, gate by gate."""
        sums_BG = x_BI @ self.inputs_GI.T + h_BH @ self.hidden_GH.T + self.bias_G
        return sums_BG.split(self.hidden_GH.shape[1], -1)


def rnn_tanh(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: CellWeights) -> State:
    """h' = tanh(W x + U h + b) (Elman 1990)."""
    (a,) = w.parts(x, h)
    return a.tanh(), c


def rnn_relu(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: CellWeights) -> State:
    """h' = max(0, W x + U h + b) (Le et al. 2015, there with U = 1; here orthogonal)."""
    (a,) = w.parts(x, h)
    return a.relu(), c


def lstm(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: CellWeights) -> State:
    """c' = f c + i g, h' = o tanh(c') (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000)."""
    o, i, f, g = w.parts(x, h)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def peephole(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: CellWeights) -> State:
    """The gates also see the cell, each unit its own: i and f the old one, o the new (Gers et al. 2002)."""
    o, i, f, g = w.parts(x, h)
    assert w.peephole_3H is not None
    p_o, p_i, p_f = w.peephole_3H
    c_new = (f + p_f * c).sigmoid() * c + (i + p_i * c).sigmoid() * g.tanh()
    return (o + p_o * c_new).sigmoid() * c_new.tanh(), c_new


def coupled(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: CellWeights) -> State:
    """What is forgotten is what is written: f = 1 - i (Greff et al. 2017, "CIFG")."""
    o, i, g = w.parts(x, h)
    i = i.sigmoid()
    c = (1 - i) * c + i * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: CellWeights) -> State:
    """n = tanh(W x + U (r h) + b), h' = (1 - z) h + z n, as published (Cho et al. 2014): the reset works on
    the state *before* the matrix. The libraries' form is ``gru_after``."""
    size = h.shape[1]
    z, r = (x @ w.inputs_GI[: 2 * size].T + h @ w.hidden_GH[: 2 * size].T + w.bias_G[: 2 * size]).sigmoid().chunk(2, -1)
    n = (x @ w.inputs_GI[2 * size :].T + (r * h) @ w.hidden_GH[2 * size :].T + w.bias_G[2 * size :]).tanh()
    return (1 - z) * h + z * n, c


def gru_after(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: CellWeights) -> State:
    """cuDNN's and ``torch.nn.GRU``'s form: n = tanh(W x + b + r (U h + b')), the reset *after* the matrix,
    and z keeps the old: h' = z h + (1 - z) n."""
    assert w.hidden_bias_H is not None
    inputs_r, inputs_z, inputs_n = (x @ w.inputs_GI.T + w.bias_G).chunk(3, -1)
    hidden_r, hidden_z, hidden_n = (h @ w.hidden_GH.T).chunk(3, -1)
    z = (inputs_z + hidden_z).sigmoid()
    n = (inputs_n + (inputs_r + hidden_r).sigmoid() * (hidden_n + w.hidden_bias_H)).tanh()
    return z * h + (1 - z) * n, c


CELLS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor, CellWeights], State]] = {
    "rnn_tanh": rnn_tanh,
    "rnn_relu": rnn_relu,
    "lstm": lstm,
    "peephole": peephole,
    "coupled": coupled,
    "gru": gru,
    "gru_after": gru_after,
}
"""The gates of a cell in the order of their rows: those with a sigmoid first, those that act on the cell last,
so that the fast path squashes each kind in one call and multiplies the last three by one vector."""


def has_cell_state(kind: str) -> bool:
    return kind in ("lstm", "peephole", "coupled")


def _states(start_BH: torch.Tensor, num_steps: int) -> torch.Tensor:
    states = start_BH.new_empty(num_steps + 1, *start_BH.shape)
    states[0] = start_BH
    return states


def _by_step(gates_TBG: torch.Tensor, first: int, last: int, size: int) -> tuple[torch.Tensor, ...]:
    """Gates ``first`` to ``last`` of every step, as views."""
    return gates_TBG[:, :, first * size : last * size].unbind(0)


class _SimpleContext(GradientContext, Protocol):
    relu: bool


class SimpleSteps(torch.autograd.Function):
    """tanh or ReLU of input plus U h."""

    @staticmethod
    def forward(
        ctx: _SimpleContext, inputs_TBH: torch.Tensor, start_BH: torch.Tensor, weight_HH: torch.Tensor, relu: bool
    ) -> torch.Tensor:
        states = _states(start_BH, len(inputs_TBH))
        steps, weight_t = states.unbind(0), weight_HH.t()
        for at, now in enumerate(inputs_TBH.unbind(0)):
            if at % SLICE_STEPS == 0:
                between_slices()
            torch.addmm(now, steps[at], weight_t, out=steps[at + 1])
            if relu:
                steps[at + 1].relu_()
            else:
                steps[at + 1].tanh_()
        ctx.save_for_backward(states, weight_HH)
        ctx.relu = relu
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: _SimpleContext, grad_TBH: torch.Tensor) -> Gradients:
        states, weight = ctx.saved_tensors
        outputs = states[1:]
        slopes = (outputs > 0).to(outputs.dtype) if ctx.relu else 1 - outputs * outputs
        grads, inner = grad_TBH.unbind(0), torch.empty_like(outputs)
        inners, slope = inner.unbind(0), slopes.unbind(0)
        torch.mul(grads[-1], slope[-1], out=inners[-1])
        for at in range(len(grads) - 2, -1, -1):
            torch.addmm(grads[at], inners[at + 1], weight, out=inners[at])
            inners[at].mul_(slope[at])
        return inner, inners[0] @ weight, inner.flatten(0, 1).t() @ states[:-1].flatten(0, 1), None


class LSTMSteps(torch.autograd.Function):
    """LSTM, with peepholes if given; gates in the order o, i, f, g. Returns hidden and cell states, [T, B, H] each."""

    @staticmethod
    def forward(
        ctx: GradientContext,
        inputs_TBG: torch.Tensor,
        start_BH: torch.Tensor,
        cell_BH: torch.Tensor,
        weight_GH: torch.Tensor,
        peephole_3H: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        size, num_steps = weight_GH.shape[1], len(inputs_TBG)
        states, cells = _states(start_BH, num_steps), _states(cell_BH, num_steps)
        gates, squashed = torch.empty_like(inputs_TBG), torch.empty_like(states[1:])
        sums, inputs = gates.unbind(0), inputs_TBG.unbind(0)
        h, c, tanh_c = states.unbind(0), cells.unbind(0), squashed.unbind(0)
        o, i, f, g = (_by_step(gates, gate, gate + 1, size) for gate in range(4))
        sigmoids = _by_step(gates, 0 if peephole_3H is None else 1, 3, size)
        seeing_c = gates.unflatten(2, (4, size))[:, :, 1:3].unbind(0)
        weight_t = weight_GH.t()
        for at in range(num_steps):
            if at % SLICE_STEPS == 0:
                between_slices()
            torch.addmm(inputs[at], h[at], weight_t, out=sums[at])
            if peephole_3H is not None:
                seeing_c[at].addcmul_(peephole_3H[1:], c[at][:, None])
            sigmoids[at].sigmoid_()
            g[at].tanh_()
            torch.mul(f[at], c[at], out=c[at + 1]).addcmul_(i[at], g[at])
            if peephole_3H is not None:
                o[at].addcmul_(peephole_3H[0], c[at + 1]).sigmoid_()
            torch.tanh(c[at + 1], out=tanh_c[at])
            torch.mul(o[at], tanh_c[at], out=h[at + 1])
        ctx.save_for_backward(gates, states, cells, squashed, weight_GH, peephole_3H)
        ctx.set_materialize_grads(False)
        return states[1:], cells[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: GradientContext, grad_TBH: torch.Tensor | None, grad_cells_TBH: torch.Tensor | None) -> Gradients:
        gates, states, cells, squashed, weight, peephole = ctx.saved_tensors
        size = weight.shape[1]
        o, i, f, g = gates.split(size, -1)
        slopes = torch.empty_like(gates)
        torch.mul(1 - o, o, out=slopes[..., :size]).mul_(squashed)  # of o
        torch.mul(1 - i, i, out=slopes[..., size : 2 * size]).mul_(g)
        torch.mul(1 - f, f, out=slopes[..., 2 * size : 3 * size]).mul_(cells[:-1])
        torch.mul(1 - g * g, i, out=slopes[..., 3 * size :])
        to_cell = (1 - squashed * squashed).mul_(o)
        inner, grad_start, grad_cell = _lstm_back(
            slopes, to_cell, f.unbind(0), 3, weight, peephole, grad_TBH, grad_cells_TBH
        )
        grad_peephole = None
        if peephole is not None:
            inner_o, inner_i, inner_f, _ = inner.split(size, -1)
            seen = ((inner_o, cells[1:]), (inner_i, cells[:-1]), (inner_f, cells[:-1]))
            grad_peephole = torch.stack([(part * cell).sum((0, 1)) for part, cell in seen])
        grad_weight = inner.flatten(0, 1).t() @ states[:-1].flatten(0, 1)
        return inner, grad_start, grad_cell, grad_weight, grad_peephole


class CoupledSteps(torch.autograd.Function):
    """Coupled LSTM (f = 1 - i); gates in the order o, i, g. Returns hidden and cell states, [T, B, H] each."""

    @staticmethod
    def forward(
        ctx: GradientContext,
        inputs_TBG: torch.Tensor,
        start_BH: torch.Tensor,
        cell_BH: torch.Tensor,
        weight_GH: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        size, num_steps = weight_GH.shape[1], len(inputs_TBG)
        states, cells = _states(start_BH, num_steps), _states(cell_BH, num_steps)
        gates, squashed = torch.empty_like(inputs_TBG), torch.empty_like(states[1:])
        sums, inputs = gates.unbind(0), inputs_TBG.unbind(0)
        h, c, tanh_c = states.unbind(0), cells.unbind(0), squashed.unbind(0)
        o, i, g = (_by_step(gates, gate, gate + 1, size) for gate in range(3))
        sigmoids, weight_t = _by_step(gates, 0, 2, size), weight_GH.t()
        for at in range(num_steps):
            if at % SLICE_STEPS == 0:
                between_slices()
            torch.addmm(inputs[at], h[at], weight_t, out=sums[at])
            sigmoids[at].sigmoid_()
            g[at].tanh_()
            torch.lerp(c[at], g[at], i[at], out=c[at + 1])
            torch.tanh(c[at + 1], out=tanh_c[at])
            torch.mul(o[at], tanh_c[at], out=h[at + 1])
        ctx.save_for_backward(gates, states, cells, squashed, weight_GH)
        ctx.set_materialize_grads(False)
        return states[1:], cells[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: GradientContext, grad_TBH: torch.Tensor | None, grad_cells_TBH: torch.Tensor | None) -> Gradients:
        gates, states, cells, squashed, weight = ctx.saved_tensors
        size = weight.shape[1]
        o, i, g = gates.split(size, -1)
        slopes = torch.empty_like(gates)
        torch.mul(1 - o, o, out=slopes[..., :size]).mul_(squashed)
        torch.mul(1 - i, i, out=slopes[..., size : 2 * size]).mul_(g - cells[:-1])
        torch.mul(1 - g * g, i, out=slopes[..., 2 * size :])
        to_cell = (1 - squashed * squashed).mul_(o)
        inner, grad_start, grad_cell = _lstm_back(
            slopes, to_cell, (1 - i).unbind(0), 2, weight, None, grad_TBH, grad_cells_TBH
        )
        return inner, grad_start, grad_cell, inner.flatten(0, 1).t() @ states[:-1].flatten(0, 1)


def _lstm_back(
    slopes_TBG: torch.Tensor,
    to_cell_TBH: torch.Tensor,
    kept: tuple[torch.Tensor, ...],
    num_on_cell: int,
    weight_GH: torch.Tensor,
    peephole_3H: torch.Tensor | None,
    grad_TBH: torch.Tensor | None,
    grad_cells_TBH: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradient at the sums before the gates [T, B, G], at the first state and at the first cell.

    ``slopes`` turn the gradient of h (for o) or of c (for the ``num_on_cell`` others) into that of a gate's
    sum, ``to_cell`` the gradient of h into that of c; ``kept`` is the share of the old cell in the new.
    """
    size, num_steps = weight_GH.shape[1], len(slopes_TBG)
    grads = (torch.zeros_like(to_cell_TBH) if grad_TBH is None else grad_TBH).unbind(0)
    inner = torch.empty_like(slopes_TBG)
    inners, inner_o = inner.unbind(0), inner[:, :, :size].unbind(0)
    on_cell = inner[:, :, size:].unflatten(2, (num_on_cell, size)).unbind(0)
    slope_o = slopes_TBG[:, :, :size].unbind(0)
    slope_on_cell = slopes_TBG[:, :, size:].unflatten(2, (num_on_cell, size)).unbind(0)
    to_cell = to_cell_TBH.unbind(0)
    grad_c, grad_h = torch.zeros_like(to_cell[0]), torch.empty_like(to_cell[0])
    for at in range(num_steps - 1, -1, -1):
        if at == num_steps - 1:
            grad_h.copy_(grads[at])
        else:
            torch.addmm(grads[at], inners[at + 1], weight_GH, out=grad_h)
        if grad_cells_TBH is not None:
            grad_c.add_(grad_cells_TBH[at])
        grad_c.addcmul_(grad_h, to_cell[at])
        torch.mul(grad_h, slope_o[at], out=inner_o[at])
        if peephole_3H is not None:
            grad_c.addcmul_(inner_o[at], peephole_3H[0])
        torch.mul(grad_c[:, None], slope_on_cell[at], out=on_cell[at])
        grad_c.mul_(kept[at])
        if peephole_3H is not None:
            grad_c.addcmul_(on_cell[at][:, 0], peephole_3H[1]).addcmul_(on_cell[at][:, 1], peephole_3H[2])
    return inner, inners[0] @ weight_GH, grad_c


class GRUSteps(torch.autograd.Function):
    """GRU as published: the reset before the matrix, so that a step has two products. Gates z, r, n."""

    @staticmethod
    def forward(
        ctx: GradientContext, inputs_TBG: torch.Tensor, start_BH: torch.Tensor, weight_GH: torch.Tensor
    ) -> torch.Tensor:
        size, num_steps = weight_GH.shape[1], len(inputs_TBG)
        states, reset = _states(start_BH, num_steps), torch.empty_like(inputs_TBG[..., :size])
        gates = inputs_TBG.clone()
        h, reset_h = states.unbind(0), reset.unbind(0)
        zr = _by_step(gates, 0, 2, size)
        z, r, n = (_by_step(gates, gate, gate + 1, size) for gate in range(3))
        weight_zr, weight_n = weight_GH[: 2 * size].t(), weight_GH[2 * size :].t()
        for at in range(num_steps):
            if at % SLICE_STEPS == 0:
                between_slices()
            zr[at].addmm_(h[at], weight_zr).sigmoid_()
            torch.mul(r[at], h[at], out=reset_h[at])
            n[at].addmm_(reset_h[at], weight_n).tanh_()
            torch.lerp(h[at], n[at], z[at], out=h[at + 1])
        ctx.save_for_backward(gates, states, reset, weight_GH)
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: GradientContext, grad_TBH: torch.Tensor) -> Gradients:
        gates, states, reset, weight = ctx.saved_tensors
        size, num_steps = weight.shape[1], len(gates)
        z, r, n = gates.split(size, -1)
        before = states[:-1]
        slope_z = torch.mul(1 - z, z).mul_(n - before).unbind(0)
        slope_r = torch.mul(1 - r, r).mul_(before).unbind(0)
        slope_n = (1 - n * n).mul_(z).unbind(0)
        kept, rs = (1 - z).unbind(0), r.unbind(0)
        inner = torch.empty_like(gates)
        inner_zr, inner_n = _by_step(inner, 0, 2, size), _by_step(inner, 2, 3, size)
        inner_z, inner_r = _by_step(inner, 0, 1, size), _by_step(inner, 1, 2, size)
        weight_zr, weight_n = weight[: 2 * size], weight[2 * size :]
        grads, grad_reset = grad_TBH.unbind(0), torch.empty_like(states[0])
        grad_h = torch.zeros_like(states[0])
        for at in range(num_steps - 1, -1, -1):
            grad_h.add_(grads[at])
            torch.mul(grad_h, slope_z[at], out=inner_z[at])
            torch.mul(grad_h, slope_n[at], out=inner_n[at])
            torch.mm(inner_n[at], weight_n, out=grad_reset)
            torch.mul(grad_reset, slope_r[at], out=inner_r[at])
            grad_h.mul_(kept[at]).addcmul_(grad_reset, rs[at]).addmm_(inner_zr[at], weight_zr)
        flat = inner.flatten(0, 1)
        grad_weight = torch.cat(
            (flat[:, : 2 * size].t() @ before.flatten(0, 1), flat[:, 2 * size :].t() @ reset.flatten(0, 1))
        )
        return inner, grad_h, grad_weight
