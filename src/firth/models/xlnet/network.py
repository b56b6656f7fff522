"""The two-stream Transformer: ids to layers, and predictions in any order (Yang et al. 2019).

The content stream sees a token together with those before it in some order, the query stream only its
place and those before it. So a token can be predicted from any others. Positions are relative, hence
what was read before may be kept as a memory of hidden states. For features the content stream sees all.

B batch, T tokens, P picked tokens, M memory, J = M + T keys, D hidden size, L layers.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from firth.core.types import Inputs, Layers
from firth.models.xlnet.config import TwoStreamConfig
from firth.nn.blocks import FeedForward
from firth.nn.layers import TokenNetwork, dropout


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

    def matrices(self) -> dict[str, int]:
        """For Muon: weights, and how many maps are kept in each."""
        return {"query.weight": 1, "key_value.weight": 2, "distance.weight": 1, "out.weight": 1}

    def _heads(self, hidden_BTD: torch.Tensor) -> torch.Tensor:
        return hidden_BTD.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def answers(self, content_BJD: torch.Tensor, distances: Distances) -> tuple[torch.Tensor, ...]:
        """Keys, values and keys by distance, for both streams."""
        key, value = (self._heads(part) for part in self.key_value(content_BJD).chunk(2, dim=-1))
        return key, value, self._heads(self.distance(distances.table))

    def forward(
        self,
        query_BPD: torch.Tensor,
        answers: tuple[torch.Tensor, ...],
        distances: Distances,
        seen: torch.Tensor | None,
        picks_BP: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """What the queries gather from the keys that they may see ([B, P, J], true: may look).

        ``picks`` are the places of the queries; without them every token is a query, in order. A token that may
        see nothing gathers zeros.
        """
        weights = self.weights(query_BPD, answers, distances, seen, picks_BP)
        weights = dropout(weights, self.dropout_prob, self.training)
        return self.out((weights @ answers[1]).transpose(1, 2).flatten(2))

    def weights(
        self,
        query_BPD: torch.Tensor,
        answers: tuple[torch.Tensor, ...],
        distances: Distances,
        seen: torch.Tensor | None,
        picks_BP: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The attention itself, [B, H, P, J]: zeros where nothing may be seen."""
        key, _, by_distance = answers
        query = self._heads(self.query(query_BPD))
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


class TwoStreamBlock(nn.Module):
    """Relative attention, then feed-forward, each with dropout, residual and norm after."""

    def __init__(self, config: TwoStreamConfig) -> None:
        super().__init__()
        self.dropout_prob = config.dropout_prob
        self.attention = RelativeAttention(config.hidden_dim, config.num_heads, config.dropout_prob)
        self.attention_norm = nn.LayerNorm(config.hidden_dim, eps=config.norm_eps)
        shape = config.hidden_dim, config.ffn_dim, config.activation
        self.ffn = FeedForward(*shape, gated=False, bias=True, dropout_prob=config.dropout_prob)
        self.ffn_norm = nn.LayerNorm(config.hidden_dim, eps=config.norm_eps)

    def forward(
        self,
        query: torch.Tensor,
        answers: tuple[torch.Tensor, ...],
        distances: Distances,
        seen: torch.Tensor | None,
        picks_BP: torch.Tensor | None = None,
    ) -> torch.Tensor:
        gathered = self.attention(query, answers, distances, seen, picks_BP)
        query = self.attention_norm(query + self._drop(gathered))
        return self.ffn_norm(query + self._drop(self.ffn(query)))

    def _drop(self, hidden: torch.Tensor) -> torch.Tensor:
        return dropout(hidden, self.dropout_prob, self.training)


class Tokens(nn.Module):
    """The table of tokens, and the vector that stands for a token that is not seen."""

    def __init__(self, config: TwoStreamConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_dim)
        self.unseen = nn.Parameter(torch.zeros(config.hidden_dim))


class TwoStream(TokenNetwork):
    """``num_layers`` two-stream blocks over the token table. Layers are those of the content stream, each token seeing
    all of its document; positions are relative and need not be given."""

    def __init__(self, config: TwoStreamConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Tokens(config)
        self.blocks = nn.ModuleList(TwoStreamBlock(config) for _ in range(config.num_layers))

    def start(self, std: float, generator: torch.Generator) -> None:
        """Random values for the vectors that are neither matrix nor table."""
        for name, parameter in self.named_parameters():
            if name.endswith(("content_bias", "distance_bias", "segment_bias", "attention.segments", "unseen")):
                nn.init.normal_(parameter, std=std, generator=generator)

    def _drop(self, hidden: torch.Tensor) -> torch.Tensor:
        return dropout(hidden, self.config.dropout_prob, self.training)

    def _distances(
        self, ids_BT: torch.Tensor, memory_len: int, segments_BT: torch.Tensor | None, backward_B: torch.Tensor | None
    ) -> Distances:
        """Distances count the other way in rows that are read backward; a memory is of segment 0."""
        num_tokens = ids_BT.shape[1]
        table_WD = distance_table(memory_len + num_tokens, num_tokens, self.config.hidden_dim, ids_BT.device)
        table = table_WD[None]
        if backward_B is not None:
            half = self.config.hidden_dim // 2
            sign_B11 = 1.0 - 2.0 * backward_B[:, None, None].to(table.dtype)  # of the sines; cosines are even
            table = torch.cat((table[..., :half] * sign_B11, table[..., half:].expand(len(backward_B), -1, -1)), dim=-1)
        other = None
        if segments_BT is not None:
            keys_BJ = functional.pad(segments_BT, (memory_len, 0))
            other = segments_BT[:, :, None] != keys_BJ[:, None, :]
        return Distances(self._drop(table), other)

    def _content(self, inputs: Inputs) -> list[torch.Tensor]:
        seen = _seen(inputs.doc_ids)
        distances = self._distances(inputs.ids, 0, inputs.segments, None)
        hidden = [self._drop(self.embeddings.tokens(inputs.ids))]
        for block in self.blocks:
            assert isinstance(block, TwoStreamBlock)
            hidden.append(block(hidden[-1], block.attention.answers(hidden[-1], distances), distances, seen))
        return hidden

    def forward(self, inputs: Inputs) -> Layers:
        """Every layer of the content stream."""
        return Layers(torch.stack(self._content(inputs)), inputs.mask)

    def last(self, inputs: Inputs) -> torch.Tensor:
        """The last layer of the content stream, [B, T, D]."""
        return self._content(inputs)[-1]

    def attention(self, inputs: Inputs) -> torch.Tensor:
        """Attention weights of the content stream in every layer and head, [L, B, H, T, T]."""
        distances = self._distances(inputs.ids, 0, inputs.segments, None)
        found = []
        for block, hidden in zip(self.blocks, self._content(inputs)[:-1], strict=True):
            assert isinstance(block, TwoStreamBlock)
            answers = block.attention.answers(hidden, distances)
            found.append(block.attention.weights(hidden, answers, distances, _seen(inputs.doc_ids)))
        return torch.stack(found)

    def predicted(
        self,
        picks_BP: torch.Tensor,
        ids_BT: torch.Tensor,
        seen_BTT: torch.Tensor,
        segments_BT: torch.Tensor | None = None,
        memory_LBMD: torch.Tensor | None = None,
        backward_B: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The query stream at the picked places, [B, P, D], and what each block was given, [L, B, T, D],
        of which a memory is made.

        ``seen[i, j]``: token i may look at token j. The content stream sees itself too, the query stream
        never by default. All may look at the memory. Nobody reads the content that the last block
        would make, so it is not made.
        """
        memory_len = 0 if memory_LBMD is None else memory_LBMD.shape[2]
        distances = self._distances(ids_BT, memory_len, segments_BT, backward_B)
        itself = torch.eye(ids_BT.shape[1], dtype=torch.bool, device=ids_BT.device)
        content_seen = functional.pad(seen_BTT | itself, (memory_len, 0), value=True)
        query_seen = functional.pad(take(seen_BTT, picks_BP), (memory_len, 0), value=True)
        content = self._drop(self.embeddings.tokens(ids_BT))
        query = self._drop(self.embeddings.unseen.expand(*picks_BP.shape, -1))
        given = []
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, TwoStreamBlock)
            given.append(content.detach())
            keys = content if memory_LBMD is None else torch.cat((memory_LBMD[layer], content), dim=1)
            answers = block.attention.answers(keys, distances)
            query = block(query, answers, distances, query_seen, picks_BP)
            if layer + 1 < len(self.blocks):
                content = block(content, answers, distances, content_seen)
        return self._drop(query), torch.stack(given)


def _seen(doc_ids_BT: torch.Tensor | None) -> torch.Tensor | None:
    """[B, T, T] where rows hold several texts or padding; None where all see all."""
    if doc_ids_BT is None or bool((doc_ids_BT == doc_ids_BT[:, :1]).all()):
        return None
    return doc_ids_BT[:, :, None] == doc_ids_BT[:, None, :]
