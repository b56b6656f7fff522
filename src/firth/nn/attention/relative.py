"""Attention by content, relative position and relative segment (Dai et al. 2019; Yang et al. 2019).

The score of query i and key j is (q_i + u)·k_j + (q_i + v)·W r_{i-j} + (q_i + w)·s, where r is the sinusoid of
the distance and s one of two vectors: same segment, other segment. Keys may begin with a memory.

B batch, T tokens, P asking tokens, M memory, J = M + T keys, W = J + T distances, D hidden size, H heads,
K = D / H.
"""

from dataclasses import dataclass

import torch
from torch import nn

from firth.nn.layers import dropout


def distance_table(num_keys: int, num_queries: int, dim: int, device: torch.device | None = None) -> torch.Tensor:
    """Sinusoids [W, D] of the distances J, J - 1, ..., 1 - T: sines, then cosines."""
    distances_W = torch.arange(num_keys, -num_queries, -1, device=device, dtype=torch.float32)
    frequencies = 10000.0 ** (-torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)
    angles = distances_W[:, None] * frequencies
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def shift(scores_BHTW: torch.Tensor, num_keys: int) -> torch.Tensor:
    """From scores by distance to scores by key, [B, H, T, J]: row i begins T - i places in."""
    num_queries = scores_BHTW.shape[2]
    flat = scores_BHTW.flatten(2)[:, :, num_queries:]
    return flat.unflatten(2, (num_queries, -1))[:, :, :, :num_keys]


@dataclass(frozen=True)
class Distances:
    """Where everything stands: sinusoids [1 or B, W, D], and which keys are of another segment than the query."""

    table: torch.Tensor
    other_BTJ: torch.Tensor | None


class RelativeAttention(nn.Module):
    """Content and query stream ask with the same weights; both are answered by the content alone."""

    def __init__(self, hidden_dim: int, num_heads: int, dropout_prob: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout_prob = dropout_prob
        head_dim = hidden_dim // num_heads
        self.query = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.key_value = nn.Linear(hidden_dim, 2 * hidden_dim, bias=False)
        self.distance = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.out = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(num_heads, 1, head_dim))
        self.distance_bias = nn.Parameter(torch.zeros(num_heads, 1, head_dim))
        self.segment_bias = nn.Parameter(torch.zeros(num_heads, 1, head_dim))
        self.segments = nn.Parameter(torch.zeros(num_heads, 2, head_dim))

    def _heads(self, hidden_BTD: torch.Tensor) -> torch.Tensor:
        return hidden_BTD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def answers(self, content_BJD: torch.Tensor, distances: Distances) -> tuple[torch.Tensor, ...]:
        """Keys, values and keys by distance, for both streams."""
        key, value = (self._heads(part) for part in self.key_value(content_BJD).chunk(2, dim=-1))
        return key, value, self._heads(self.distance(distances.table))

    def forward(
        self,
        asking_BPD: torch.Tensor,
        answers: tuple[torch.Tensor, ...],
        distances: Distances,
        seen: torch.Tensor | None,
        picks_BP: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """What the asking tokens gather from the keys that they may see ([B, P, J], true: may look).

        ``picks`` are the places of the asking tokens; without them all ask, in order. A token that may
        see nothing gathers zeros.
        """
        weights = self.weights(asking_BPD, answers, distances, seen, picks_BP)
        weights = dropout(weights, self.dropout_prob, self.training)
        return self.out((weights @ answers[1]).transpose(1, 2).flatten(2))

    def weights(
        self,
        asking_BPD: torch.Tensor,
        answers: tuple[torch.Tensor, ...],
        distances: Distances,
        seen: torch.Tensor | None,
        picks_BP: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The attention itself, [B, H, P, J]: zeros where nothing may be seen."""
        key, _, by_distance = answers
        query = self._heads(self.query(asking_BPD))
        num_keys = key.shape[2]
        scores = (query + self.content_bias) @ key.transpose(-1, -2)
        scores = scores + self._by_distance(query, by_distance, num_keys, picks_BP)
        if distances.other_BTJ is not None:
            other = distances.other_BTJ if picks_BP is None else take(distances.other_BTJ, picks_BP)
            same, different = ((query + self.segment_bias) @ self.segments.transpose(-1, -2)).split(1, dim=-1)
            scores = scores + torch.where(other[:, None], different, same)
        scores = scores * (query.shape[-1] ** -0.5)
        if seen is not None:
            scores = scores.masked_fill(~seen[:, None], torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        if seen is not None:
            weights = weights.masked_fill(~seen[:, None], 0.0)  # also where nothing at all may be seen
        return weights

    def _by_distance(
        self, query: torch.Tensor, by_distance: torch.Tensor, num_keys: int, picks_BP: torch.Tensor | None
    ) -> torch.Tensor:
        scores = (query + self.distance_bias) @ by_distance.transpose(-1, -2)
        if picks_BP is None:
            return shift(scores, num_keys)
        num_tokens = by_distance.shape[2] - num_keys
        first_BP = num_tokens - picks_BP
        places = first_BP[:, None, :, None] + torch.arange(num_keys, device=picks_BP.device)
        return scores.gather(3, places.expand(-1, self.num_heads, -1, -1))


def take(rows_BTJ: torch.Tensor, picks_BP: torch.Tensor) -> torch.Tensor:
    """The rows of the picked tokens, [B, P, J]."""
    return rows_BTJ.gather(1, picks_BP[:, :, None].expand(-1, -1, rows_BTJ.shape[2]))
