"""A vector for a text from those of its tokens: the pooling modes of sentence-transformers (Reimers & Gurevych 2019)
and the layers that may follow them.

N tokens of sequences end to end, S sequences, D hidden size, E width of the result.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from firth.nn.layers import pool_owned

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "Tanh": nn.Tanh,
    "Identity": nn.Identity,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "Sigmoid": nn.Sigmoid,
    "SiLU": nn.SiLU,
}


def pool_sequences(
    hidden_ND: torch.Tensor, lens: Sequence[int], pools: Sequence[str], skip: int | Sequence[int] = 0
) -> torch.Tensor:
    """[S, pools x D] of sequences that stand end to end, without the first ``skip`` tokens of each (a prompt); the same number
    for all, or one for each.

    ``weightedmean`` weighs a token by its place in the sequence from 1; ``mean_sqrt_len_tokens`` divides the sum by the
    square root of the number of tokens.
    """
    lens_S = torch.tensor(lens, device=hidden_ND.device)
    skip_S = torch.tensor(skip, device=hidden_ND.device).expand(len(lens))
    starts_S = torch.cumsum(lens_S, 0) - lens_S
    owner_N = torch.repeat_interleave(torch.arange(len(lens), device=hidden_ND.device), lens_S)
    place_N = torch.arange(len(owner_N), device=hidden_ND.device) - starts_S[owner_N]
    read_N = place_N >= skip_S[owner_N]
    return torch.cat([_pool(hidden_ND, lens_S, starts_S, owner_N, place_N, read_N, skip_S, pool) for pool in pools], 1)


def _pool(
    hidden_ND: torch.Tensor,
    lens_S: torch.Tensor,
    starts_S: torch.Tensor,
    owner_N: torch.Tensor,
    place_N: torch.Tensor,
    read_N: torch.Tensor,
    skip_S: torch.Tensor,
    pool: str,
) -> torch.Tensor:
    """[S, D]; zeros for a sequence without tokens."""
    num = len(lens_S)
    if pool in ("cls", "last"):
        places_S = starts_S + (skip_S if pool == "cls" else lens_S - 1)
        there_S = lens_S > skip_S
        found = hidden_ND.new_zeros(num, hidden_ND.shape[1])
        return found.index_put((there_S.nonzero()[:, 0],), hidden_ND[places_S[there_S]])
    if pool == "max":
        return pool_owned(hidden_ND[read_N], owner_N[read_N], num, "max")
    assert pool in ("mean", "weightedmean", "mean_sqrt_len_tokens"), pool
    weights_N = (place_N + 1 if pool == "weightedmean" else torch.ones_like(place_N)).to(hidden_ND.dtype) * read_N
    weighted_ND = hidden_ND if pool != "weightedmean" and bool(read_N.all()) else hidden_ND * weights_N[:, None]
    sums_SD = hidden_ND.new_zeros(num, hidden_ND.shape[1]).index_add(0, owner_N, weighted_ND)
    total_S = hidden_ND.new_zeros(num).index_add(0, owner_N, weights_N).clamp(min=1e-9)
    return sums_SD / (total_S.sqrt() if pool == "mean_sqrt_len_tokens" else total_S)[:, None]


class Dense(nn.Module):
    """A linear layer and its activation; ``residual`` adds what it read."""

    def __init__(self, in_dim: int, out_dim: int, bias: bool, activation: str, residual: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(in_dim, out_dim, bias)
        self.activation, self.uses_residual = activation, residual
        self.residual = nn.Linear(in_dim, out_dim, bias=False) if residual and in_dim != out_dim else None
        self.act = ACTIVATIONS[activation]()

    def forward(self, vectors_SD: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.act(self.linear(vectors_SD))
        if self.uses_residual:
            found = found + (vectors_SD if self.residual is None else self.residual(vectors_SD))
        return found


class Norm(nn.Module):
    """LayerNorm over a text's vector."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, vectors_SD: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.norm(vectors_SD)
        return found


class Normalize(nn.Module):
    """Vectors of length 1; zeros stay."""

    def forward(self, vectors_SD: torch.Tensor) -> torch.Tensor:
        return functional.normalize(vectors_SD, dim=-1)
