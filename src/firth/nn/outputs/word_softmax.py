"""Scores of words: by a table with a row a word, or by the word's characters (Jozefowicz et al. 2016, 3.3).

Both give the rows of the words that are asked for; full and sampled losses are the same for both.

N positions, P hidden size, V words, S sampled words, U words asked for, M characters.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from firth.nn.character_cnn import CharacterCNN


class TableSoftmax(nn.Module):
    """A row and a bias a word."""

    def __init__(self, num_words: int, dim: int) -> None:
        super().__init__()
        self.rows = nn.Embedding(num_words, dim)
        self.bias = nn.Parameter(torch.zeros(num_words))
        self.initialize()

    def initialize(self, generator: torch.Generator | None = None) -> None:
        nn.init.normal_(self.rows.weight, std=1 / math.sqrt(self.rows.embedding_dim), generator=generator)
        nn.init.zeros_(self.bias)


class CharacterSoftmax(nn.Module):
    """``z_w = h·CNN(chars_w) + h·M corr_w + b_w``: the correction tells apart words that are spelt alike and mean
    different things. Without a network of its own it uses the rows that the token layer gives. The bias is not in the
    paper: it lets scores begin at how often words occur, as those of a table do."""

    def __init__(self, network: CharacterCNN | None, num_words: int, dim: int, correction_dim: int) -> None:
        super().__init__()
        self.network = network
        self.correction = nn.Embedding(num_words, correction_dim)
        self.widen = nn.Linear(correction_dim, dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(num_words))
        self.initialize()

    def initialize(self, generator: torch.Generator | None = None) -> None:
        if self.network is not None:
            self.network.initialize(generator)
        nn.init.normal_(self.correction.weight, std=0.02, generator=generator)
        nn.init.normal_(self.widen.weight, std=1 / math.sqrt(self.correction.embedding_dim), generator=generator)
        nn.init.zeros_(self.bias)

    def rows(self, words_U: torch.Tensor, spelt_UP: torch.Tensor) -> torch.Tensor:
        """[U, P] from what the network gives for the words."""
        return spelt_UP + self.widen(self.correction(words_U))


def sampled_loss(
    hidden_NP: torch.Tensor,
    rows_UP: torch.Tensor,
    bias_U: torch.Tensor,
    log_expected_U: torch.Tensor,
    targets_N: torch.Tensor,
    samples_S: torch.Tensor,
) -> torch.Tensor:
    """Cross-entropy of each target against the sampled words, [N]: each score less the log of how often such
    a word is sampled (Jean et al. 2015, eq. 8); a target that was also sampled does not count twice. Targets and
    samples are places among the U words."""
    shift_U = bias_U - log_expected_U
    true_N = (hidden_NP * functional.embedding(targets_N, rows_UP)).sum(-1) + shift_U[targets_N]
    noise_NS = torch.addmm(shift_U[samples_S], hidden_NP, rows_UP[samples_S].T)
    noise_NS = noise_NS.masked_fill(targets_N[:, None] == samples_S, float("-inf"))
    return torch.logaddexp(true_N, noise_NS.logsumexp(-1)) - true_N
