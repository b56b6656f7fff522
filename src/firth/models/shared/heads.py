"""Output layers: from hidden vectors to scores.

N positions, D hidden size, V vocabulary.
"""

import torch
from torch import nn

from firth.models.shared.configs import EncoderConfig
from firth.nn.blocks import ACTIVATIONS
from firth.nn.layers import build_norm


class TokenHead(nn.Module):
    """BERT's masked-token head: dense, activation, norm, then the token table itself as the last matrix."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_dim, config.token_dim, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = build_norm(config.norm, config.token_dim, config.norm_eps, config.bias)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_ND: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.norm(self.activation(self.dense(hidden_ND))), table_VD, self.bias)


class Pooler(nn.Module):
    """tanh of a dense layer on [CLS]."""

    def __init__(self, hidden_dim: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, first_BD: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.dense(first_BD))


class PairHead(nn.Module):
    """Two classes from the pooled [CLS]: B follows A, or not."""

    def __init__(self, hidden_dim: int) -> None:
        super().__init__()
        self.pooler = Pooler(hidden_dim)
        self.out = nn.Linear(hidden_dim, 2)

    def forward(self, first_BD: torch.Tensor) -> torch.Tensor:
        return self.out(self.pooler(first_BD))


class ReplacedHead(nn.Module):
    """ELECTRA's head: a number for each token, above zero where it seems to have been replaced."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_dim, config.hidden_dim, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]
        self.out = nn.Linear(config.hidden_dim, 1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.out(self.activation(self.dense(hidden))).squeeze(-1)
