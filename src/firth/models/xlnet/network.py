"""The two-stream Transformer: ids to layers, and predictions in any order (Yang et al. 2019).

The content stream sees a token together with those before it in some order, the query stream only its
place and those before it. So a token can be predicted from any others. Positions are relative, hence
what was read before may be kept as a memory of hidden states. For features the content stream sees all.

B batch, T tokens, P picked tokens, M memory, J = M + T keys, D hidden size, L layers.
"""

import torch
from torch import nn
from torch.nn import functional

from firth.core.types import Inputs, Layers
from firth.models.xlnet.config import TwoStreamConfig
from firth.nn.attention.relative import Distances, RelativeAttention, distance_table, take
from firth.nn.blocks import FeedForward
from firth.nn.layers import dropout
from firth.nn.network import TokenNetwork


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
        asking: torch.Tensor,
        answers: tuple[torch.Tensor, ...],
        distances: Distances,
        seen: torch.Tensor | None,
        picks_BP: torch.Tensor | None = None,
    ) -> torch.Tensor:
        gathered = self.attention(asking, answers, distances, seen, picks_BP)
        asking = self.attention_norm(asking + self._drop(gathered))
        return self.ffn_norm(asking + self._drop(self.ffn(asking)))

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
        never unless told to. All may look at the memory. Nobody reads the content that the last block
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
