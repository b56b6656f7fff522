"""How weights begin."""

import torch
from torch import nn


def initialize(module: nn.Module, std: float, generator: torch.Generator) -> None:
    """Normal weights for matrices and tables, zeros for biases; norms stay at one."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std, generator=generator)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
