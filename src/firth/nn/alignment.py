"""Attention of recurrent translators: how well each source token fits the decoder's state.

dot and general (Luong et al. 2015, 3.1), additive (Bahdanau et al. 2015, A.1.2).

B batch, T target tokens, S source tokens, D size of both.
"""

import torch
from torch import nn


class Alignment(nn.Module):
    """``keys`` is computed once a source; ``forward`` gives the mix of its states and the weights."""

    def __init__(self, kind: str, dim: int) -> None:
        super().__init__()
        self.kind = kind
        self.key = nn.Linear(dim, dim, bias=False) if kind != "dot" else None
        self.query = nn.Linear(dim, dim) if kind == "additive" else None
        self.score = nn.Linear(dim, 1, bias=False) if kind == "additive" else None

    def keys(self, memory_BSD: torch.Tensor) -> torch.Tensor:
        """What queries are compared with: the states themselves, or their product with a matrix."""
        return memory_BSD if self.key is None else self.key(memory_BSD)

    def forward(
        self, query_BTD: torch.Tensor, keys_BSD: torch.Tensor, memory_BSD: torch.Tensor, mask_BS: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Contexts [B, T, D] and weights [B, T, S]."""
        if self.query is not None and self.score is not None:
            sums = self.query(query_BTD)[:, :, None] + keys_BSD[:, None]
            scores_BTS = self.score(torch.tanh(sums))[..., 0]
        else:
            scores_BTS = query_BTD @ keys_BSD.transpose(1, 2)
        weights_BTS = scores_BTS.masked_fill(~mask_BS[:, None], float("-inf")).softmax(-1)
        return weights_BTS @ memory_BSD, weights_BTS
