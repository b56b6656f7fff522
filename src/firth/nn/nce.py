"""Output layers that look at a few tokens instead of the whole vocabulary while training.

Both draw K noise tokens once a batch and share them among all positions, so that their scores are
one matrix product. Used, they are an ordinary softmax layer.

N positions, K noise tokens, D hidden size, V vocabulary.
"""

import math

import torch
from torch.nn import functional

from firth.nn.noise import Noise
from firth.nn.softmax import TokenOutput


class _Sampled(TokenOutput):
    def __init__(self, hidden_dim: int, vocab_size: int, tied: bool, noise: Noise, num_noise: int) -> None:
        super().__init__(hidden_dim, vocab_size, tied)
        self.noise = noise
        self.num_noise = num_noise

    def compared(
        self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor, noise_K: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores less what is expected of the noise, of the labels [N] and of the noise [N, K]."""
        chosen = torch.cat((labels_N, noise_K))
        rows = functional.embedding(chosen, self.rows(table_VD))
        shifts = self.bias[chosen] - self.log_expected(self.noise.log_shares[chosen])
        num = len(labels_N)
        true_N = (hidden_ND * rows[:num]).sum(-1) + shifts[:num]
        return true_N, torch.addmm(shifts[num:], hidden_ND, rows[num:].t())

    def log_expected(self, log_shares: torch.Tensor) -> torch.Tensor:
        """log(k q)."""
        return log_shares + math.log(self.num_noise)


class NCEOutput(_Sampled):
    """Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012): tell a text's token from
    k tokens of a known noise q.

    P(+|w, h) = u / (u + k q(w)) with u = exp(score), the normaliser taken as 1; that is the sigmoid of
    score - log(k q(w)). As k grows the gradient becomes that of maximum likelihood.
    """

    def loss(self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        true_N, noise_NK = self.compared(hidden_ND, labels_N, table_VD, self.noise.draw(self.num_noise))
        return functional.softplus(-true_N).sum() + functional.softplus(noise_NK).sum()


class SampledOutput(_Sampled):
    """Sampled softmax (Jean et al. 2015): the softmax over the label and the distinct ones of k noise tokens,
    each score lowered by the logarithm of its chance to be among them. With ever more noise every token is
    there, with certainty, and it is the full softmax."""

    def log_expected(self, log_shares: torch.Tensor) -> torch.Tensor:
        """log(1 - (1 - q)^k)."""
        return torch.log(-torch.expm1(self.num_noise * torch.log1p(-log_shares.exp())))

    def loss(self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        noise_K = self.noise.draw(self.num_noise).unique()
        true_N, noise_NK = self.compared(hidden_ND, labels_N, table_VD, noise_K)
        noise_NK = noise_NK.masked_fill(labels_N[:, None] == noise_K, float("-inf"))
        whole = torch.logaddexp(true_N, noise_NK.logsumexp(-1))
        return (whole - true_N).sum()
