"""The BERT-shaped encoder: ids to layers (Devlin et al. 2018).

Rows may be packed: several short sequences in one row, distinguished by ``doc_ids`` (0 is padding,
equal numbers see each other), each with positions of its own.

B batch, T tokens, P picked tokens, N tokens of sequences end to end, D hidden size, L layers.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import nn

from firth.core.types import Inputs, Layers
from firth.models.shared.configs import EncoderConfig
from firth.nn.attention import Angles, Groups, RelativeBias, look_near, rotary_angles, visible
from firth.nn.blocks import ACTIVATIONS, Block
from firth.nn.grouped import DisentangledAttention, RelativeTable
from firth.nn.layers import TokenNetwork, build_norm, dropout

_FILLED = 0.9  # rows with less in them than this share are read without their padding
_LEARNED = ("learned", "learned_relative")
View = tuple[torch.Tensor | None, Angles | None]
"""What a block knows of the places of tokens: the mask or bias [B, 1 or H, T, T], and how queries and keys are turned."""


class Embeddings(nn.Module):
    """The sum of token, segment, (learned) position and, where there are several, task vectors, normed."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dropout_prob = config.dropout_prob
        self.tokens = nn.Embedding(config.vocab_size, config.token_dim)
        self.segments = nn.Embedding(config.num_segments, config.token_dim) if config.num_segments else None
        self.positions = nn.Embedding(config.max_positions, config.token_dim) if config.positions in _LEARNED else None
        self.tasks = nn.Embedding(config.num_tasks, config.token_dim) if config.num_tasks else None
        self.norm = build_norm(config.norm, config.token_dim, config.norm_eps, config.bias)

    def forward(
        self,
        ids_BT: torch.Tensor,
        positions_BT: torch.Tensor,
        segments_BT: torch.Tensor | None,
        tasks_BT: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Without segments or tasks all are 0, as they are for a model that knows one segment only."""
        hidden = self.tokens(ids_BT)
        if self.segments is not None:
            alike = segments_BT is None or self.segments.num_embeddings == 1
            hidden = hidden + (self.segments.weight[0] if alike else self.segments(segments_BT))
        if self.positions is not None:
            hidden = hidden + self.positions(positions_BT)
        if self.tasks is not None:
            hidden = hidden + (self.tasks.weight[0] if tasks_BT is None else self.tasks(tasks_BT))
        hidden = self.norm(hidden)
        return dropout(hidden, self.dropout_prob, self.training)


class Encoder(TokenNetwork):
    """``num_layers`` blocks over the embeddings.

    Tokens may be given an ``order`` of who sees whom (Dong et al. 2019): equal numbers see each other; positions as the
    order make a left-to-right model, their negatives a right-to-left one. A token that is ``alone`` is seen by no other.
    Where rows are padded, layers may be 0 at the padding.
    """

    embeddings: Embeddings

    def __init__(self, config: EncoderConfig, embeddings: Embeddings | None = None) -> None:
        """``embeddings`` of another encoder are used but not owned, so that they are saved once."""
        super().__init__()
        self.config = config
        if embeddings is None:
            self.embeddings = Embeddings(config)
        else:
            self.__dict__["embeddings"] = embeddings  # past nn.Module, which would register it here too
        self.project = nn.Linear(config.token_dim, config.hidden_dim) if config.token_dim != config.hidden_dim else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(1 if config.share_layers else config.num_layers))
        if not config.first_norm:
            self.blocks[0].attention_norm = nn.Identity()
        self.final_norm = (
            build_norm(config.norm, config.hidden_dim, config.norm_eps, config.bias) if config.norm_first else None
        )
        self.relative = RelativeBias(config.num_heads) if config.positions.endswith("relative") else None
        self.distances: RelativeTable | None = None
        if config.positions == "disentangled":
            self.distances = RelativeTable(
                config.hidden_dim, config.position_buckets, config.max_positions, config.norm_eps
            )
            for block in self.blocks:
                block.attention = DisentangledAttention(
                    config.hidden_dim, config.num_heads, config.attention_dropout_prob, config.dropout_prob
                )

    @property
    def stack(self) -> list[Block]:
        """The block of every layer, which may be one for all."""
        blocks = [block for block in self.blocks if isinstance(block, Block)]
        return blocks * self.config.num_layers if self.config.share_layers else blocks

    def is_local(self, layer: int) -> bool:
        """Whether a layer looks at a window only."""
        return self.config.window is not None and layer % self.config.global_every > 0

    def embed(
        self,
        ids_BT: torch.Tensor,
        positions_BT: torch.Tensor,
        segments_BT: torch.Tensor | None,
        tasks_BT: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The token layer, [B, T, D]."""
        hidden_BTD: torch.Tensor = self.embeddings(ids_BT, positions_BT, segments_BT, tasks_BT)
        return hidden_BTD if self.project is None else self.project(hidden_BTD)

    def _positions(self, inputs: Inputs) -> torch.Tensor:
        if inputs.positions is not None:
            return inputs.positions
        return torch.arange(inputs.ids.shape[1], device=inputs.ids.device).expand_as(inputs.ids)

    def _prepare(self, inputs: Inputs) -> tuple[torch.Tensor, list[View]]:
        """Positions, and what every layer knows of them."""
        positions_BT, mask = self._positions(inputs), self._mask(inputs)
        if self.relative is not None:
            bias = self.relative(positions_BT, positions_BT)
            mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
        whole: View = (mask, self.angles(positions_BT))
        if self.config.window is None:
            return positions_BT, [whole] * self.config.num_layers
        near = visible(inputs.ids.shape[1], window=self.config.window, device=inputs.ids.device)
        assert near is not None
        local: View = (near if mask is None else mask & near, self.angles(positions_BT, local=True))
        return positions_BT, [local if self.is_local(layer) else whole for layer in range(self.config.num_layers)]

    def _mask(self, inputs: Inputs) -> torch.Tensor | None:
        """Who may look at whom, [B, 1, T, T]; None where all may."""
        doc_ids_BT, order_BT, mask = inputs.doc_ids, inputs.order, None
        if doc_ids_BT is not None and not bool((doc_ids_BT == doc_ids_BT[:, :1]).all()):
            mask = (doc_ids_BT[:, :, None] == doc_ids_BT[:, None, :])[:, None]
        if order_BT is not None:
            earlier = order_BT[:, None, :] <= order_BT[:, :, None]
            if inputs.alone is not None:
                itself = torch.eye(inputs.ids.shape[1], dtype=torch.bool, device=inputs.ids.device)
                earlier &= ~inputs.alone[:, None, :] | itself
            mask = earlier[:, None] if mask is None else mask & earlier[:, None]
        return mask

    def angles(self, positions_BT: torch.Tensor, local: bool = False) -> Angles | None:
        """How far queries and keys are turned, where positions are rotary; the vectors and numbers of all distances, where
        attention is disentangled."""
        if self.distances is not None:
            return self.distances(positions_BT)
        if self.config.positions != "rotary":
            return None
        base = self.config.local_rotary_base if local else self.config.rotary_base
        return rotary_angles(positions_BT, self.config.hidden_dim // self.config.num_heads, base)

    def forward(self, inputs: Inputs) -> Layers:
        """Every layer, for features, probes and mixes."""
        unpadded = self._unpadded(inputs)
        if unpadded is not None:
            return Layers(torch.stack([_spread(layer, unpadded[0], inputs.ids) for layer in unpadded[1]]), inputs.mask)
        positions_BT, views = self._prepare(inputs)
        hidden = [self.embed(inputs.ids, positions_BT, inputs.segments, inputs.tasks)]
        for block, view in zip(self.stack, views, strict=True):
            hidden.append(block(hidden[-1], *view))
        if self.final_norm is not None:
            hidden[-1] = self.final_norm(hidden[-1])
        return Layers(torch.stack(hidden), inputs.mask)

    def last(self, inputs: Inputs) -> torch.Tensor:
        """The last layer only, [B, T, D]."""
        unpadded = self._unpadded(inputs)
        if unpadded is not None:
            *_, last_ND = unpadded[1]
            return _spread(last_ND, unpadded[0], inputs.ids)
        positions_BT, views = self._prepare(inputs)
        hidden = self.embed(inputs.ids, positions_BT, inputs.segments, inputs.tasks)
        for block, view in zip(self.stack, views, strict=True):
            hidden = block(hidden, *view)
        return hidden if self.final_norm is None else self.final_norm(hidden)

    def _unpadded(self, inputs: Inputs) -> tuple[torch.Tensor, Iterator[torch.Tensor]] | None:
        """Rows that hold a sequence each, where they are so unlike in length that padding weighs: the places of their
        tokens among those of all rows, [N], and the layers of these, as they are asked for."""
        doc_ids_BT = inputs.doc_ids
        if doc_ids_BT is None or not self.can_pack:
            return None
        if any(part is not None for part in (inputs.positions, inputs.order, inputs.tasks)):
            return None
        if doc_ids_BT.device.type != "cpu":  # a call for every length pays where calls are cheap
            return None
        num_rows, longest = doc_ids_BT.shape
        lens_B = (doc_ids_BT > 0).sum(1)
        if int(lens_B.sum()) > _FILLED * num_rows * longest or not bool(lens_B.all()):
            return None
        if not torch.equal(doc_ids_BT, (torch.arange(longest) < lens_B[:, None]).to(doc_ids_BT.dtype)):
            return None  # several sequences in a row
        rows = lens_B.argsort(stable=True).tolist()  # those of equal length side by side
        lens = lens_B[rows].tolist()
        places_N = torch.cat([torch.arange(size) + row * longest for row, size in zip(rows, lens, strict=True)])
        segments_N = None if inputs.segments is None else inputs.segments.flatten()[places_N]
        return places_N, self.packed(Inputs(inputs.ids.flatten()[places_N], segments=segments_N), lens)

    @property
    def can_pack(self) -> bool:
        """Whether ``packed`` is possible: a bias of distances is made for rows only."""
        return self.relative is None and self.distances is None

    def packed(self, inputs: Inputs, lens: Sequence[int]) -> Iterator[torch.Tensor]:
        """The layers, one after another as they are computed, [N, D], of sequences that stand end to end. No padding
        is computed: what ``forward`` gives for each by itself. Neighbours of equal length are attended to together."""
        assert self.can_pack
        positions_1N = torch.cat([torch.arange(length, device=inputs.ids.device) for length in lens])[None]
        groups = _groups(lens)
        views = [(self.angles(positions_1N), None), (self.angles(positions_1N, local=True), self.config.window)]
        segments_1N = None if inputs.segments is None else inputs.segments[None]
        hidden_ND = self.embed(inputs.ids[None], positions_1N, segments_1N)[0]
        yield hidden_ND
        for number, block in enumerate(self.stack):
            hidden_ND = block.packed(hidden_ND, groups, *views[self.is_local(number)])
            if number == self.config.num_layers - 1 and self.final_norm is not None:
                hidden_ND = self.final_norm(hidden_ND)
            yield hidden_ND

    def picked(self, inputs: Inputs, picks_BP: torch.Tensor) -> torch.Tensor:
        """The last layer at some tokens of each row, [B, P, D]: what ``last`` gives there, without
        the last block's queries and feed-forward anywhere else."""
        return self.picked_above(inputs, picks_BP)[0]

    def picked_above(self, inputs: Inputs, picks_BP: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """``picked``, and the layer below it at all tokens, [B, T, D]."""
        if self.distances is not None:
            hidden = self(inputs).hidden
            return hidden[-1].gather(1, picks_BP[:, :, None].expand(-1, -1, hidden.shape[-1])), hidden[-2]
        unpadded = self._unpadded(inputs)
        positions_BT, views = self._prepare(inputs)
        *blocks, last = self.stack
        if unpadded is None:
            below = self.embed(inputs.ids, positions_BT, inputs.segments, inputs.tasks)
            for block, view in zip(blocks, views[:-1], strict=True):
                below = block(below, *view)
        else:
            below_ND = next(islice(unpadded[1], len(blocks), None))
            below = _spread(below_ND, unpadded[0], inputs.ids)
        mask, angles = views[-1]
        if mask is not None:
            mask = mask.expand(len(picks_BP), -1, -1, -1)
            mask = mask.gather(2, picks_BP[:, None, :, None].expand(-1, mask.shape[1], -1, mask.shape[3]))
        picked_angles = None
        if angles is not None:
            index = picks_BP[:, None, :, None].expand(-1, 1, -1, angles[0].shape[-1])
            picked_angles = (angles[0].gather(2, index), angles[1].gather(2, index))
        hidden = last.picked(below, picks_BP, mask, angles, picked_angles)
        return hidden if self.final_norm is None else self.final_norm(hidden), below

    def attention(self, inputs: Inputs) -> torch.Tensor:
        """Attention weights of every layer and head, [L, B, H, T, T]."""
        positions_BT, views = self._prepare(inputs)
        hidden = self.embed(inputs.ids, positions_BT, inputs.segments, inputs.tasks)
        found = []
        for block, view in zip(self.stack, views, strict=True):
            read = block.attention_norm(hidden) if block.norm_first else hidden
            found.append(block.attention.weights(read, *view))
            hidden = block(hidden, *view)
        return torch.stack(found)


def _spread(hidden_ND: torch.Tensor, places_N: torch.Tensor, rows_BT: torch.Tensor) -> torch.Tensor:
    """Tokens at their places in the rows, 0 elsewhere, [B, T, D]."""
    spread = hidden_ND.new_zeros(rows_BT.numel(), hidden_ND.shape[1]).index_copy(0, places_N, hidden_ND)
    return spread.view(*rows_BT.shape, -1)


def _groups(lens: Sequence[int]) -> Groups:
    """Neighbours of equal length; empty sequences are passed over."""
    found: Groups = []
    first = 0
    for length in lens:
        if found and found[-1][2] == length:
            found[-1] = (found[-1][0], found[-1][1] + 1, length)
        elif length:
            found.append((first, 1, length))
        first += length
    return found


_OFFSETS = (-1, 1, -2, 2)  # whom heads look at in the beginning, in turn


def look_around(encoder: Encoder, generator: torch.Generator) -> None:
    """Heads begin by looking at the token before, the one behind and so on."""
    attentions = [block.attention for block in encoder.blocks if isinstance(block, Block)]
    look_near(encoder.embeddings.tokens.weight, attentions, _OFFSETS, encoder.config.rotary_base, generator)


class TokenHead(nn.Module):
    """BERT's masked-token head: dense, activation, norm, then the token table itself as the last matrix."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_dim, config.token_dim, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = build_norm(config.norm, config.token_dim, config.norm_eps, config.bias)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def transform(self, hidden_ND: torch.Tensor) -> torch.Tensor:
        """What is compared with the rows of the table."""
        found: torch.Tensor = self.norm(self.activation(self.dense(hidden_ND)))
        return found

    def forward(self, hidden_ND: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.transform(hidden_ND), table_VD, self.bias)


class Pooler(nn.Module):
    """tanh (of some models another activation) of a dense layer on [CLS]."""

    def __init__(self, hidden_dim: int, activation: str = "tanh") -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_dim, hidden_dim)
        self.activation = torch.tanh if activation == "tanh" else ACTIVATIONS[activation]

    def forward(self, first_BD: torch.Tensor) -> torch.Tensor:
        return self.activation(self.dense(first_BD))


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
