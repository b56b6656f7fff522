"""How weights begin."""

import torch
from torch import nn

from firth.nn.attention.cross_attention import CrossAttention
from firth.nn.attention.positions import RelativeBias


def initialize(module: nn.Module, std: float, generator: torch.Generator) -> None:
    """Normal weights for matrices and tables, zeros for biases; norms stay at one."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std, generator=generator)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def initialize_xavier(module: nn.Module, table_std: float, generator: torch.Generator) -> None:
    """Matrices by their widths (Glorot & Bengio 2010), tables normal, zeros for biases; norms stay at one.
    What Transformers with the norm after each sub-layer train well from."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=table_std, generator=generator)


def initialize_by_width(module: nn.Module, hidden_dim: int, generator: torch.Generator) -> None:
    """T5's start (Raffel et al. 2020): every matrix normal with a variance of one over the width that it reads; tables of
    variance one. There queries are smaller by the root of a head's width, here scores are divided by it.

    Two things are given that a short training is slow to find: heads look near, each in its own measure (after Press et al.
    2022, where that is fixed and by distance, not by bucket), and attention to the source begins with keys that are its
    queries, so that a token of the target, a sentinel above all, finds itself there."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=part.in_features**-0.5, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=1.0, generator=generator)
        elif isinstance(part, RelativeBias):
            nn.init.normal_(part.weight, std=hidden_dim**-0.5, generator=generator)
            prefer_near(part)
    for part in module.modules():
        if isinstance(part, CrossAttention):
            part.kv.weight.data[: len(part.query.weight)] = part.query.weight.data


@torch.no_grad()
def prefer_near(bias: RelativeBias) -> None:
    """Every bucket further away costs the first head 1, the others less and less, the last about a sixteenth."""
    num_heads = bias.weight.shape[1]
    sides_SNH = bias.weight.view(1 + bias.bidirectional, -1, num_heads)
    sides_SNH -= torch.arange(sides_SNH.shape[1])[:, None] * 2.0 ** (-4 * torch.arange(num_heads) / num_heads)


def initialize_uniform(module: nn.Module, bound: float, generator: torch.Generator) -> None:
    """All weights and biases even in (-bound, bound), as recurrent translators begin (Sutskever et al. 2014)."""
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
