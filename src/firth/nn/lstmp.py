"""LSTM with a projected output (Sak et al. 2014), clipped as ELMo's biLM was (Peters et al. 2018).

The cells are more than the outputs: ``c = clip(f∘c + i∘g)``, ``h = clip((o∘tanh c) P)``, with ``f``
opened by a constant bias. Several directions (or any other group of networks of one shape) run side
by side, each with weights of its own; one that reads from right to left gets its input turned around.
All products with the input are one matrix product before the steps; the steps and their gradients are
written out, so that the products with the weights' gradients are one each after the steps, too.

G directions, T steps, B batch, I input size, C cells, P output size, K = 4C (gates i, g, f, o).
"""

import math
from collections.abc import Sequence
from typing import Protocol, cast

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from firth.core.types import SLICE_STEPS, between_slices
from firth.nn.layers import GradientContext, dropout

State = tuple[torch.Tensor, torch.Tensor]  # output [G, B, P] and cells [G, B, C]
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class _StepsContext(GradientContext, Protocol):
    clips: tuple[float, float]


class _Steps(torch.autograd.Function):
    """The recurrence, from what the input gives to the gates. ``live`` is false where there is no word: the
    state stays as it is; ``fresh`` is true where it is forgotten before the step. Both [G, T, B, 1] or None."""

    @staticmethod
    def forward(
        ctx: _StepsContext,
        gates_GTBK: torch.Tensor,
        state_weight_GPK: torch.Tensor,
        projection_GCP: torch.Tensor,
        first_GBP: torch.Tensor,
        first_GBC: torch.Tensor,
        live: torch.Tensor | None,
        fresh: torch.Tensor | None,
        cell_clip: float,
        output_clip: float,
        learning: bool,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        num_groups, num_steps, num_rows, _ = gates_GTBK.shape
        num_cells, num_outputs = projection_GCP.shape[1:]
        raw = gates_GTBK.new_empty((num_groups, num_steps, num_rows, num_outputs))
        num_kept = num_steps if learning else 1  # without gradients one step's worth of memory is enough
        acts, before_P, before_C, cells, squashed, inner = (
            gates_GTBK.new_empty((num_groups, num_kept, num_rows, size))
            for size in (4 * num_cells, num_outputs, num_cells, num_cells, num_cells, num_cells)
        )
        product = gates_GTBK.new_empty((num_groups, num_rows, 4 * num_cells))
        hidden, cell = first_GBP, first_GBC
        for t in range(num_steps):
            if t % SLICE_STEPS == 0:
                between_slices()
            kept = t if learning else 0
            if fresh is not None:
                hidden = hidden.masked_fill(fresh[:, t], 0.0)
                cell = cell.masked_fill(fresh[:, t], 0.0)
            before_P[:, kept], before_C[:, kept] = hidden, cell
            torch.bmm(hidden, state_weight_GPK, out=product)
            act = torch.add(product, gates_GTBK[:, t], out=acts[:, kept])
            i, g, f, o = act.split(num_cells, dim=-1)
            i.sigmoid_()
            g.tanh_()
            act[..., 2 * num_cells :].sigmoid_()
            new_cell = torch.mul(f, cell, out=cells[:, kept]).addcmul_(i, g)
            if cell_clip:
                new_cell.clamp_(-cell_clip, cell_clip)
            torch.tanh(new_cell, out=squashed[:, kept])
            torch.mul(o, squashed[:, kept], out=inner[:, kept])
            new_hidden = torch.bmm(inner[:, kept], projection_GCP, out=raw[:, t])
            if output_clip:
                new_hidden.clamp_(-output_clip, output_clip)
            if live is None:
                hidden, cell = new_hidden, new_cell
            else:
                hidden = torch.where(live[:, t], new_hidden, hidden)
                cell = torch.where(live[:, t], new_cell, cell)
        if not learning:
            return raw if live is None else raw.mul_(live), hidden.clone(), cell.clone()
        ctx.save_for_backward(
            state_weight_GPK, projection_GCP, acts, before_P, before_C, cells, squashed, inner, raw, live, fresh
        )
        ctx.clips = (cell_clip, output_clip)
        outputs = raw.clone() if live is None else raw * live
        return outputs, hidden.clone(), cell.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: _StepsContext, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        weight, projection, acts, before_P, before_C, cells, squashed, inner, raw, live, fresh = ctx.saved_tensors
        cell_clip, output_clip = ctx.clips
        grad_outputs, grad_hidden, grad_cell = gradients
        num_groups, num_steps, num_rows, num_cells = cells.shape
        weight_back, projection_back = weight.transpose(1, 2), projection.transpose(1, 2)
        grad_gates = torch.empty_like(acts)
        grad_raw = torch.empty_like(raw)
        for t in reversed(range(num_steps)):
            i, g, f, o = acts[:, t].split(num_cells, dim=-1)
            grad_i, grad_g, grad_f, grad_o = grad_gates[:, t].split(num_cells, dim=-1)
            down = torch.add(grad_outputs[:, t], grad_hidden, out=grad_raw[:, t])
            into_cell = grad_cell
            if live is not None:
                down.mul_(live[:, t])
                into_cell = grad_cell * live[:, t]
            if output_clip:
                down.mul_(raw[:, t].abs() < output_clip)
            grad_inner = torch.bmm(down, projection_back)
            _sigmoid_backward(grad_inner * squashed[:, t], o, grad_input=grad_o)
            total = torch.ops.aten.tanh_backward(grad_inner.mul_(o), squashed[:, t]).add_(into_cell)
            if cell_clip:
                total.mul_(cells[:, t].abs() < cell_clip)
            _sigmoid_backward(total * before_C[:, t], f, grad_input=grad_f)
            _sigmoid_backward(total * g, i, grad_input=grad_i)
            _tanh_backward(total * i, g, grad_input=grad_g)
            back_hidden = torch.bmm(grad_gates[:, t], weight_back)
            back_cell = total.mul_(f)
            if live is not None:
                back_hidden.addcmul_(grad_hidden, (~live[:, t]).to(back_hidden.dtype))
                back_cell.addcmul_(grad_cell, (~live[:, t]).to(back_cell.dtype))
            if fresh is not None:
                back_hidden.masked_fill_(fresh[:, t], 0.0)
                back_cell.masked_fill_(fresh[:, t], 0.0)
            grad_hidden, grad_cell = back_hidden, back_cell
        together = (num_groups, num_steps * num_rows, -1)
        grad_weight = torch.bmm(before_P.view(together).transpose(1, 2), grad_gates.view(together))
        grad_projection = torch.bmm(inner.view(together).transpose(1, 2), grad_raw.view(together))
        return grad_gates, grad_weight, grad_projection, grad_hidden, grad_cell, None, None, None, None, None


class LSTMP(nn.Module):
    """One layer, in one or more directions. Weights have the layout of the published files: what comes in
    from above, gates i, g, f, o side by side. A clip of 0 is none."""

    def __init__(
        self,
        input_dim: int,
        cell_dim: int,
        output_dim: int,
        num_directions: int = 1,
        cell_clip: float = 3.0,
        output_clip: float = 3.0,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__()
        self.cell_dim, self.output_dim, self.num_directions = cell_dim, output_dim, num_directions
        self.cell_clip, self.output_clip, self.forget_bias = cell_clip, output_clip, forget_bias
        self.input_weight = nn.Parameter(torch.empty(num_directions, input_dim, 4 * cell_dim))
        self.state_weight = nn.Parameter(torch.empty(num_directions, output_dim, 4 * cell_dim))
        self.bias = nn.Parameter(torch.zeros(num_directions, 4 * cell_dim))
        self.projection = nn.Parameter(torch.empty(num_directions, cell_dim, output_dim))
        self.initialize()

    def initialize(self, generator: torch.Generator | None = None) -> None:
        """Glorot and Bengio's uniform weights over the joint matrix, as in TensorFlow's cells; no bias."""
        joint = self.input_weight.shape[1] + self.output_dim + 4 * self.cell_dim
        for weight, fans in (
            (self.input_weight, joint),
            (self.state_weight, joint),
            (self.projection, self.cell_dim + self.output_dim),
        ):
            bound = math.sqrt(6.0 / fans)
            nn.init.uniform_(weight, -bound, bound, generator=generator)
        nn.init.zeros_(self.bias)

    def empty_state(self, num_rows: int) -> State:
        """The zero state at the start of a text."""
        zeros = self.projection.new_zeros
        return (
            zeros((self.num_directions, num_rows, self.output_dim)),
            zeros((self.num_directions, num_rows, self.cell_dim)),
        )

    def forward(
        self,
        inputs_GTBI: torch.Tensor,
        state: State | None = None,
        live_GTB: torch.Tensor | None = None,
        fresh_GTB: torch.Tensor | None = None,
        state_weight: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, State]:
        """Outputs [G, T, B, P] (zeros where ``live`` is false) and the state after the last step; ``state_weight`` stands
        in for the layer's own (some of it dropped, say)."""
        num_groups, num_steps, num_rows, _ = inputs_GTBI.shape
        hidden, cell = self.empty_state(num_rows) if state is None else state
        opened = self.bias[:, None].clone()
        opened[..., 2 * self.cell_dim : 3 * self.cell_dim] += self.forget_bias
        gates = torch.baddbmm(opened, inputs_GTBI.reshape(num_groups, num_steps * num_rows, -1), self.input_weight)
        kind = self.state_weight.dtype
        with torch.autocast(inputs_GTBI.device.type, enabled=False):
            found = _Steps.apply(
                gates.to(kind).view(num_groups, num_steps, num_rows, -1),
                self.state_weight if state_weight is None else state_weight,
                self.projection,
                hidden.to(kind),
                cell.to(kind),
                None if live_GTB is None else live_GTB[..., None],
                None if fresh_GTB is None else fresh_GTB[..., None],
                self.cell_clip,
                self.output_clip,
                torch.is_grad_enabled(),
            )
        outputs, hidden, cell = cast(tuple[torch.Tensor, torch.Tensor, torch.Tensor], found)
        return outputs, (hidden, cell)


class StackedLSTMP(nn.Module):
    """Layers one on another; with ``residual`` every layer above the first adds its input to its output."""

    def __init__(
        self,
        num_layers: int,
        input_dim: int,
        cell_dim: int,
        output_dim: int,
        num_directions: int = 1,
        residual: bool = True,
        cell_clip: float = 3.0,
        output_clip: float = 3.0,
    ) -> None:
        super().__init__()
        self.residual = residual
        self.layers = nn.ModuleList(
            LSTMP(output_dim if layer else input_dim, cell_dim, output_dim, num_directions, cell_clip, output_clip)
            for layer in range(num_layers)
        )

    def forward(
        self,
        inputs_GTBI: torch.Tensor,
        states: list[State] | None = None,
        live_GTB: torch.Tensor | None = None,
        fresh_GTB: torch.Tensor | None = None,
        dropout_prob: float = 0.0,
    ) -> tuple[list[torch.Tensor], list[State]]:
        """The outputs of every layer, and their states. ``dropout_prob`` is for the input of each layer, and what
        a residual adds is the same dropped input, as in the original."""
        outputs: list[torch.Tensor] = []
        after: list[State] = []
        below = inputs_GTBI
        for number, layer in enumerate(self.layers):
            dropped = dropout(below, dropout_prob, self.training)
            out, state = layer(dropped, None if states is None else states[number], live_GTB, fresh_GTB)
            below = out + dropped if self.residual and number else out
            outputs.append(below)
            after.append(state)
        return outputs, after


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
