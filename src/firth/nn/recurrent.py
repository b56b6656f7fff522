"""Recurrent layers and stacks of them: any cell, both directions, lengths, carried state, and the dropouts.

Everything is time-major, since a step then is one contiguous block. A state is one tensor a layer and
direction, [S, B, H]: hidden, and the cell where there is one (S = 2).

T steps, B batch, I input size, H hidden size, G rows of all gates, D width of a layer (H, or 2H in both directions).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from firth.nn.cells import CELLS, ROWS, CellWeights, CoupledSteps, GRUSteps, LSTMSteps, SimpleSteps, has_cell_state
from firth.nn.layers import dropout
from firth.nn.lstmp import ProjectedLayer


class RecurrentLayer(nn.Module):
    """One cell over a sequence, in one direction."""

    def __init__(self, kind: str, input_dim: int, hidden_dim: int, weight_drop_prob: float = 0.0) -> None:
        """``weight_drop_prob`` drops single weights of the recurrent matrix, the same ones at every step
        (Merity et al. 2018, "DropConnect")."""
        super().__init__()
        self.kind = kind
        self.hidden_dim = hidden_dim
        self.weight_drop_prob = weight_drop_prob
        num_rows = len(ROWS[kind]) * hidden_dim
        self.weight_in = nn.Parameter(torch.empty(num_rows, input_dim))
        self.weight_hidden = nn.Parameter(torch.empty(num_rows, hidden_dim))
        self.bias = nn.Parameter(torch.zeros(num_rows))
        self.peephole = nn.Parameter(torch.zeros(3, hidden_dim)) if kind == "peephole" else None
        self.hidden_bias = nn.Parameter(torch.zeros(hidden_dim)) if kind == "gru_after" else None
        self.start(torch.Generator().manual_seed(0))

    @property
    def num_states(self) -> int:
        return 2 if has_cell_state(self.kind) else 1

    def matrices(self) -> dict[str, int]:
        """For Muon: each gate has a map of its own."""
        return {name: len(ROWS[self.kind]) for name in ("weight_in", "weight_hidden")}

    @torch.no_grad()
    def start(self, generator: torch.Generator) -> None:
        """Orthogonal recurrent matrices (all singular values, hence the spectral radius, are 1), inputs as
        Glorot and Bengio (2010), zero biases, and 1 for the forget gate (Jozefowicz et al. 2015)."""
        for block in self.weight_hidden.split(self.hidden_dim):
            nn.init.orthogonal_(block, generator=generator)
        for block in self.weight_in.split(self.hidden_dim):
            nn.init.xavier_uniform_(block, generator=generator)
        self.bias.zero_()
        for extra in (self.peephole, self.hidden_bias):
            if extra is not None:
                extra.zero_()
        if "f" in ROWS[self.kind]:
            first = ROWS[self.kind].index("f") * self.hidden_dim
            self.bias[first : first + self.hidden_dim] = 1.0

    def zero_state(self, num_rows: int) -> torch.Tensor:
        return self.bias.new_zeros(self.num_states, num_rows, self.hidden_dim)

    def forward(
        self, inputs_TBI: torch.Tensor, state_SBH: torch.Tensor, all_cells: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Hidden states and, where there are such, cell states of all steps, [T, B, H]; or the last cell state
        alone, [1, B, H], if more is not asked for: the library's LSTM, a tenth faster, knows only that."""
        weight = dropout(self.weight_hidden, self.weight_drop_prob, self.training)
        if self.kind == "gru_after":
            return self._library_gru(inputs_TBI, state_SBH, weight), None
        if self.kind == "lstm" and not all_cells:
            return self._library_lstm(inputs_TBI, state_SBH, weight)
        sums_TBG = functional.linear(inputs_TBI, self.weight_in, self.bias).to(weight.dtype)
        with torch.autocast(inputs_TBI.device.type, enabled=False):  # the steps keep to the precision of the weights
            return self._steps(sums_TBG, state_SBH.to(weight.dtype), weight)

    def _steps(
        self, sums_TBG: torch.Tensor, state_SBH: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """From the inputs, already multiplied, to hidden and cell states of all steps."""
        if self.kind in ("lstm", "peephole"):
            hidden, cells = LSTMSteps.apply(sums_TBG, state_SBH[0], state_SBH[1], weight, self.peephole)
            return hidden, cells
        if self.kind == "coupled":
            hidden, cells = CoupledSteps.apply(sums_TBG, state_SBH[0], state_SBH[1], weight)
            return hidden, cells
        if self.kind == "gru":
            return GRUSteps.apply(sums_TBG, state_SBH[0], weight), None
        return SimpleSteps.apply(sums_TBG, state_SBH[0], weight, self.kind == "rnn_relu"), None

    def read(
        self, inputs_TBI: torch.Tensor, state_SBH: torch.Tensor, lens_B: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states of all steps, and the state after each sequence's last one."""
        hidden, cells = self(inputs_TBI, state_SBH, lens_B is not None)
        return hidden, final_state(hidden, cells, state_SBH, lens_B)

    def _library_gru(self, inputs_TBI: torch.Tensor, state_SBH: torch.Tensor, weight_GH: torch.Tensor) -> torch.Tensor:
        assert self.hidden_bias is not None
        bias_hidden = torch.cat((self.bias.new_zeros(2 * self.hidden_dim), self.hidden_bias))
        flat = [self.weight_in, weight_GH, self.bias, bias_hidden]
        hidden: torch.Tensor = torch.gru(inputs_TBI, state_SBH, flat, True, 1, 0.0, self.training, False, False)[0]
        return hidden

    def _library_lstm(
        self, inputs_TBI: torch.Tensor, state_SBH: torch.Tensor, weight_GH: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Its rows are i, f, g, o: ours after the first gate has gone to the end."""
        flat = [part.roll(-self.hidden_dim, 0) for part in (self.weight_in, weight_GH, self.bias)]
        start = [part[None].contiguous() for part in state_SBH]
        flat.append(torch.zeros_like(self.bias))
        hidden, _, cell = torch.lstm(inputs_TBI, start, flat, True, 1, 0.0, self.training, False, False)
        return hidden, cell

    def steps(self, inputs_TBI: Sequence[torch.Tensor], state_SBH: torch.Tensor) -> list[torch.Tensor]:
        """The hidden state of each step by the plain cell, each a tensor of its own: slow, and open to look into."""
        weights = CellWeights(self.weight_in, self.weight_hidden, self.bias, self.peephole, self.hidden_bias)
        h, c = state_SBH[0], state_SBH[-1]
        found = []
        for x_BI in inputs_TBI:
            h, c = CELLS[self.kind](x_BI, h, c, weights)
            found.append(h)
        return found


def reverse_within(values_TBD: torch.Tensor, lens_B: torch.Tensor | None) -> torch.Tensor:
    """Every sequence from its own end to its start; what lies beyond the end stays where it is."""
    if lens_B is None:
        return values_TBD.flip(0)
    places = torch.arange(len(values_TBD), device=values_TBD.device)[:, None]
    index_TB = torch.where(places < lens_B, lens_B - 1 - places, places)
    return values_TBD.gather(0, index_TB[:, :, None].expand_as(values_TBD))


def final_state(
    hidden_TBH: torch.Tensor, cells_TBH: torch.Tensor | None, start_SBH: torch.Tensor, lens_B: torch.Tensor | None
) -> torch.Tensor:
    """The state after the last step of each sequence, [S, B, H]; the start where a sequence is empty."""
    sequences = [hidden_TBH] if cells_TBH is None else [hidden_TBH, cells_TBH]
    if lens_B is None:
        return torch.stack([sequence[-1] for sequence in sequences])
    index = (lens_B - 1).clamp(min=0)[None, :, None].expand(1, -1, hidden_TBH.shape[2])
    last = torch.stack([sequence.gather(0, index)[0] for sequence in sequences])
    return torch.where((lens_B > 0)[None, :, None], last, start_SBH)


def drop_steps(values_TBD: torch.Tensor, prob: float, variational: bool, training: bool) -> torch.Tensor:
    """With ``variational`` one mask for all steps (Gal and Ghahramani 2016)."""
    if not training or not prob:
        return values_TBD
    if not variational:
        return dropout(values_TBD, prob)
    return values_TBD * dropout(torch.ones_like(values_TBD[:1]), prob)


@dataclass(frozen=True)
class StackDropout:
    """What is dropped while training."""

    between_prob: float = 0.0  # between layers
    weight_prob: float = 0.0  # weights of recurrent matrices
    variational: bool = False


@dataclass(frozen=True)
class Projection:
    """Of a projected LSTM (``lstmp``): its cells, and where cells and outputs are cut off (0: nowhere)."""

    cell_dim: int
    cell_clip: float = 3.0
    output_clip: float = 3.0


class RecurrentStack(nn.Module):
    """Layers one above the other."""

    def __init__(
        self,
        kind: str,
        input_dim: int,
        hidden_dims: Sequence[int],
        bidirectional: bool = False,
        residual: bool = False,
        drop: StackDropout | None = None,
        projection: Projection | None = None,
    ) -> None:
        """``residual`` adds the input of a layer to its output wherever their widths agree; ``projection`` is for
        ``lstmp``, whose outputs are ``hidden_dims``."""
        super().__init__()
        self.drop = drop or StackDropout()
        self.residual = residual
        self.num_directions = 2 if bidirectional else 1
        layers = []
        for hidden_dim in hidden_dims:
            layers.append(
                nn.ModuleList(self._layer(kind, input_dim, hidden_dim, projection) for _ in range(self.num_directions))
            )
            input_dim = hidden_dim * self.num_directions
        self.layers = nn.ModuleList(layers)
        self.widths = [hidden_dim * self.num_directions for hidden_dim in hidden_dims]

    def _layer(
        self, kind: str, input_dim: int, hidden_dim: int, projection: Projection | None
    ) -> RecurrentLayer | ProjectedLayer:
        if kind != "lstmp":
            return RecurrentLayer(kind, input_dim, hidden_dim, self.drop.weight_prob)
        assert projection is not None
        return ProjectedLayer(
            input_dim,
            hidden_dim,
            projection.cell_dim,
            projection.cell_clip,
            projection.output_clip,
            self.drop.weight_prob,
        )

    def directions(self) -> list[RecurrentLayer | ProjectedLayer]:
        """Every layer and direction, in the order of the states."""
        return [part for part in self.layers.modules() if isinstance(part, RecurrentLayer | ProjectedLayer)]

    def start(self, generator: torch.Generator) -> None:
        for part in self.directions():
            part.start(generator)

    def zero_state(self, num_rows: int) -> list[torch.Tensor]:
        return [part.zero_state(num_rows) for part in self.directions()]

    def forward(
        self,
        inputs_TBI: torch.Tensor,
        lens_B: torch.Tensor | None = None,
        state: Sequence[torch.Tensor] | None = None,
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The outputs of every layer, [T, B, D] each, and the state after the last step.

        ``lens_B`` gives the true lengths; what stands beyond them changes nothing before them, and the
        outputs there are zero.
        """
        state = self.zero_state(inputs_TBI.shape[1]) if state is None else state
        inside = None
        if lens_B is not None:
            inside = (torch.arange(len(inputs_TBI), device=lens_B.device)[:, None] < lens_B)[:, :, None]
        outputs, states = [], []
        below = inputs_TBI
        for number in range(len(self.layers)):
            if number:
                below = drop_steps(below, self.drop.between_prob, self.drop.variational, self.training)
            parts = []
            for backward in range(self.num_directions):
                place = number * self.num_directions + backward
                layer = self.directions()[place]
                seen = reverse_within(below, lens_B) if backward else below
                hidden, after = layer.read(seen, state[place], lens_B)
                states.append(after)
                parts.append(reverse_within(hidden, lens_B) if backward else hidden)
            above = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
            if self.residual and above.shape == below.shape:
                above = above + below
            below = above if inside is None else above * inside
            outputs.append(below)
        return outputs, states
