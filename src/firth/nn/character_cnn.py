"""A word's vector from its characters (Kim et al. 2016, as in Peters et al. 2018): convolutions of several
widths, the largest value over the word, highway layers, a projection.

The convolutions see the padding of a word, too, as they did in the original: its character has a learned
vector. All windows that hold nothing but padding are alike, so one of them is enough, and the caller may
cut the padding down to the widest convolution (``text.character_ids.trimmed``) without changing a number.

N words, M characters, E size of a character's vector, F filters, D output size.
"""

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class Highway(nn.Module):
    """``c∘relu(Wx + b) + (1 - c)∘x`` with ``c = σ(Vx + a)`` (Srivastava et al. 2015); it begins by carrying."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.both = nn.Linear(dim, 2 * dim)  # the gate, then what is let in

    def forward(self, hidden_NF: torch.Tensor) -> torch.Tensor:
        gate, new = self.both(hidden_NF).chunk(2, dim=-1)
        return torch.lerp(hidden_NF, torch.relu(new), torch.sigmoid(gate))


class CharacterCNN(nn.Module):
    """Character ids (0 is no character) to word vectors. Without ``project`` the filters are the vector."""

    def __init__(
        self,
        num_ids: int,
        char_dim: int,
        filters: Sequence[tuple[int, int]],
        num_highway: int,
        output_dim: int,
        activation: str = "relu",
        project: bool = True,
    ) -> None:
        super().__init__()
        self.filters = list(filters)
        self.num_filters = sum(number for _, number in self.filters)
        assert project or self.num_filters == output_dim
        self.output_dim = output_dim
        self.activation = _ACTIVATIONS[activation]
        self.embedding = nn.Embedding(num_ids, char_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Linear(width * char_dim, number) for width, number in self.filters)
        self.highways = nn.ModuleList(Highway(self.num_filters) for _ in range(num_highway))
        self.projection = nn.Linear(self.num_filters, output_dim) if project else None
        self.initialize()

    def initialize(self, generator: torch.Generator | None = None) -> None:
        """As the original begins: small uniform filters, gates that carry."""
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0, generator=generator)
        with torch.no_grad():
            self.embedding.weight[0] = 0.0
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Linear)
            nn.init.uniform_(convolution.weight, -0.05, 0.05, generator=generator)
            nn.init.zeros_(convolution.bias)
        for highway in self.highways:
            assert isinstance(highway, Highway)
            nn.init.normal_(highway.both.weight, std=math.sqrt(1 / self.num_filters), generator=generator)
            nn.init.zeros_(highway.both.bias)
            nn.init.constant_(highway.both.bias[: self.num_filters], -2.0)
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=math.sqrt(1 / self.num_filters), generator=generator)
            nn.init.zeros_(self.projection.bias)

    def forward(self, ids_NM: torch.Tensor) -> torch.Tensor:
        chars_NME = self.embedding(ids_NM)
        found = []
        for (width, _), convolution in zip(self.filters, self.convolutions, strict=True):
            assert isinstance(convolution, nn.Linear)
            windows = chars_NME.unfold(1, width, 1).transpose(2, 3).flatten(2)
            found.append(functional.linear(windows, convolution.weight).amax(1) + convolution.bias)
        hidden_NF = self.activation(torch.cat(found, dim=-1))
        for highway in self.highways:
            hidden_NF = highway(hidden_NF)
        return hidden_NF if self.projection is None else self.projection(hidden_NF)
