"""The projected LSTM as a layer of a recurrent stack (Sak et al. 2014; clipped as in Peters et al. 2018).

It has more cells than outputs. Its state is one tensor like that of any other cell, as wide as its cells: the output first,
filled up with zeros, then the cells.

T steps, B batch, I input size, C cells, P outputs.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from firth.nn.dropout import dropout
from firth.nn.lstmp import LSTMP


class ProjectedLayer(nn.Module):
    """One direction; what ``RecurrentLayer`` is for the other cells."""

    kind = "lstmp"
    num_states = 2

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        cell_dim: int,
        cell_clip: float = 3.0,
        output_clip: float = 3.0,
        weight_drop_prob: float = 0.0,
    ) -> None:
        super().__init__()
        assert cell_dim >= hidden_dim, "the state is as wide as the cells"
        self.hidden_dim, self.cell_dim, self.weight_drop_prob = hidden_dim, cell_dim, weight_drop_prob
        self.lstm = LSTMP(input_dim, cell_dim, hidden_dim, 1, cell_clip, output_clip)

    def start(self, generator: torch.Generator) -> None:
        self.lstm.initialize(generator)

    def zero_state(self, num_rows: int) -> torch.Tensor:
        return self.lstm.projection.new_zeros(2, num_rows, self.cell_dim)

    def read(
        self, inputs_TBI: torch.Tensor, state_2BC: torch.Tensor, lens_B: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs [T, B, P], zeros beyond the lengths, and the state after each sequence's last step."""
        weight = None
        if self.training and self.weight_drop_prob:
            weight = dropout(self.lstm.state_weight, self.weight_drop_prob)
        live = None
        if lens_B is not None:
            live = (torch.arange(len(inputs_TBI), device=lens_B.device)[:, None] < lens_B)[None]
        first = (state_2BC[0, None, :, : self.hidden_dim].contiguous(), state_2BC[1, None].contiguous())
        outputs, (hidden, cell) = self.lstm(inputs_TBI[None], first, live, state_weight=weight)
        return outputs[0], self._joined(hidden[0], cell[0])

    def _joined(self, hidden_BP: torch.Tensor, cell_BC: torch.Tensor) -> torch.Tensor:
        return torch.stack((functional.pad(hidden_BP, (0, self.cell_dim - self.hidden_dim)), cell_BC))

    def steps(self, inputs_TBI: Sequence[torch.Tensor], state_2BC: torch.Tensor) -> list[torch.Tensor]:
        """The output of each step by the plain equations, each a tensor of its own: slow, and open to look into.

        c' = clip(f c + i g), h' = clip((o tanh c') P), with f opened by a constant."""
        lstm = self.lstm
        h, c = state_2BC[0, :, : self.hidden_dim], state_2BC[1]
        found = []
        for x_BI in inputs_TBI:
            sums = x_BI @ lstm.input_weight[0] + h @ lstm.state_weight[0] + lstm.bias[0]
            i, g, f, o = sums.chunk(4, -1)
            c = (f + lstm.forget_bias).sigmoid() * c + i.sigmoid() * g.tanh()
            c = c.clamp(-lstm.cell_clip, lstm.cell_clip) if lstm.cell_clip else c
            h = (o.sigmoid() * c.tanh()) @ lstm.projection[0]
            h = h.clamp(-lstm.output_clip, lstm.output_clip) if lstm.output_clip else h
            found.append(h)
        return found
