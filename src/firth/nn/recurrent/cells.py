"""Recurrent cells as their equations, one step at a time: what the fast path must equal.

A cell is a function (x, h, c, weights) -> (h, c); cells without a cell state hand ``c`` through.
Gates lie side by side in the rows of the matrices, in the order in which ``ROWS`` names them.

B batch, I input size, H hidden size, G rows of all gates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

State = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class CellWeights:
    """The numbers of one cell."""

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
ROWS = {
    "rnn_tanh": "h",
    "rnn_relu": "h",
    "lstm": "oifg",
    "peephole": "oifg",
    "coupled": "oig",
    "gru": "zrn",
    "gru_after": "rzn",
}
"""The gates of a cell in the order of their rows: those with a sigmoid first, those that act on the cell last,
so that the fast path squashes each kind in one call and multiplies the last three by one vector."""


def has_cell_state(kind: str) -> bool:
    return kind in ("lstm", "peephole", "coupled")
