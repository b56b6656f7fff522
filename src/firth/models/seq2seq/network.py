"""Recurrent translators (Sutskever et al. 2014): stacked LSTM or GRU cells read the source and write the target.

With attention the decoder also looks at the source's states: dot and general (Luong et al. 2015, 3.1), additive
(Bahdanau et al. 2015, A.1.2).

B batch, N rows of a search, T target tokens, S source tokens, D size of both, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from firth.core.types import Inputs, Layers, note_computing
from firth.models.seq2seq.config import Seq2SeqConfig
from firth.models.shared.encoder_decoder import AttentionWeights, Scorer, TranslationNetwork, tokens_of
from firth.nn.blocks import initialize_uniform
from firth.nn.layers import dropout


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


Memory = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # keys, states and mask of the source


def _recurrent(cell: str, input_dim: int, hidden_dim: int, bidirectional: bool) -> nn.LSTM | nn.GRU:
    kind = nn.LSTM if cell == "lstm" else nn.GRU
    return kind(input_dim, hidden_dim, batch_first=True, bidirectional=bidirectional)


@dataclass
class RecurrentState:
    """The decoder between two tokens: a state a layer, what attention found, the sources."""

    hidden: list[tuple[torch.Tensor, ...]]  # (h,) or (h, c) of every layer, [N, D] each
    fed_ND: torch.Tensor | None
    memory: Memory | None  # a source a sentence
    sentence_N: torch.Tensor


class Seq2Seq(TranslationNetwork):
    """Stacked cells on both sides."""

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config, self.num_layers = config, config.num_layers
        self.shows = frozenset({"alignment"}) if config.attention != "none" else frozenset()
        dim, width = config.hidden_dim, config.hidden_dim // (2 if config.bidirectional else 1)
        target_size = config.target_vocab_size or config.vocab_size
        self.tokens = nn.Embedding(config.vocab_size, dim)
        self.target_tokens = nn.Embedding(target_size, dim) if config.target_vocab_size else None
        self.encoder = nn.ModuleList(
            _recurrent(config.cell, dim, width, config.bidirectional) for _ in range(config.num_layers)
        )
        sizes = [2 * dim if config.input_feeding else dim] + [dim] * (config.num_layers - 1)
        self.decoder = nn.ModuleList(_recurrent(config.cell, size, dim, False) for size in sizes)
        self.alignment = Alignment(config.attention, dim) if config.attention != "none" else None
        self.join = nn.Linear(2 * dim, dim, bias=False) if config.attention != "none" else None
        self.output = None if config.tied_output else nn.Linear(dim, target_size, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(target_size))

    def initialize(self, generator: torch.Generator) -> None:
        initialize_uniform(self, self.config.init_range, generator)

    def _drop(self, hidden: torch.Tensor) -> torch.Tensor:
        return dropout(hidden, self.config.dropout_prob, self.training)

    # -- the source

    def _read(
        self, ids_BS: torch.Tensor, tokens_BS: torch.Tensor | None
    ) -> tuple[list[torch.Tensor], list[tuple[torch.Tensor, ...]]]:
        """Every layer [B, S, D], and the last state of every layer as the decoder starts with it."""
        note_computing()
        lens = torch.full((len(ids_BS),), ids_BS.shape[1]) if tokens_BS is None else tokens_BS.sum(1).cpu()
        layers = [self._drop(self.tokens(ids_BS))]
        states = []
        for cell in self.encoder:
            packed = pack_padded_sequence(layers[-1], lens, batch_first=True, enforce_sorted=False)
            found, last = cell(packed)
            hidden, _ = pad_packed_sequence(found, batch_first=True, total_length=ids_BS.shape[1])
            layers.append(self._drop(hidden))
            parts = last if isinstance(last, tuple) else (last,)
            states.append(tuple(part.transpose(0, 1).flatten(1) for part in parts))
        return layers, states

    def forward(self, inputs: Inputs) -> Layers:
        """Every layer of the encoder."""
        return Layers(torch.stack(self._read(inputs.ids, tokens_of(inputs))[0]), inputs.mask)

    def last(self, inputs: Inputs) -> torch.Tensor:
        return self._read(inputs.ids, tokens_of(inputs))[0][-1]

    def encoder_parts(self) -> dict[str, nn.Module | None]:
        return {"encoder_layers": self.encoder}

    def begin(self, source_BS: torch.Tensor, tokens_BS: torch.Tensor | None) -> RecurrentState:
        """The decoder before its first token."""
        layers, states = self._read(source_BS, tokens_BS)
        memory = None
        if self.alignment is not None:
            real = torch.ones_like(source_BS, dtype=torch.bool) if tokens_BS is None else tokens_BS
            memory = (self.alignment.keys(layers[-1]), layers[-1], real)
        fed = torch.zeros_like(states[0][0]) if self.config.input_feeding else None
        return RecurrentState(states, fed, memory, torch.arange(len(source_BS), device=source_BS.device))

    # -- the target

    def _embed(self, ids_BT: torch.Tensor) -> torch.Tensor:
        table = self.tokens if self.target_tokens is None else self.target_tokens
        return self._drop(table(ids_BT))

    def _stack(
        self, hidden_BTD: torch.Tensor, states: list[tuple[torch.Tensor, ...]]
    ) -> tuple[torch.Tensor, list[tuple[torch.Tensor, ...]]]:
        """Through the decoder's layers, from given states to new ones."""
        new = []
        for number, (cell, state) in enumerate(zip(self.decoder, states, strict=True)):
            before: Any = tuple(part[None].contiguous() for part in state)
            hidden_BTD, after = cell(
                self._drop(hidden_BTD) if number else hidden_BTD, before if len(before) > 1 else before[0]
            )
            parts = after if isinstance(after, tuple) else (after,)
            new.append(tuple(part[0] for part in parts))
        return hidden_BTD, new

    def _attend(self, hidden_BTD: torch.Tensor, memory: Memory | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The tanh layer over context and state, and the weights."""
        if self.alignment is None or self.join is None:
            return hidden_BTD, None
        assert memory is not None
        context, weights = self.alignment(hidden_BTD, *memory)
        return torch.tanh(self.join(torch.cat((context, hidden_BTD), -1))), weights

    def _run(self, ids_BT: torch.Tensor, state: RecurrentState) -> tuple[torch.Tensor, torch.Tensor | None]:
        """All target tokens: at once, or one after another where what was found is fed back."""
        embedded = self._embed(ids_BT)
        if state.fed_ND is None:
            return self._attend(self._stack(embedded, state.hidden)[0], state.memory)
        fed, states = state.fed_ND, state.hidden
        found, seen = [], []
        for place in range(ids_BT.shape[1]):
            joined = torch.cat((embedded[:, place], fed), -1)[:, None]
            hidden, states = self._stack(joined, states)
            hidden, weights = self._attend(hidden, state.memory)
            fed = hidden[:, 0]
            found.append(fed)
            seen.append(weights[:, 0] if weights is not None else fed)
        return torch.stack(found, 1), torch.stack(seen, 1)

    def hidden(self, source_BS: torch.Tensor, tokens_BS: torch.Tensor | None, target_BT: torch.Tensor) -> torch.Tensor:
        """From source and target to what is scored, [B, T, D]."""
        return self._drop(self._run(target_BT, self.begin(source_BS, tokens_BS))[0])

    def stepper(
        self, source_BS: torch.Tensor, tokens_BS: torch.Tensor, scores: Scorer | None = None
    ) -> "Seq2SeqStepper":
        return Seq2SeqStepper(self, source_BS, tokens_BS, scores)

    # -- to be looked at

    def looks(self, source_1S: torch.Tensor, target_1T: torch.Tensor) -> AttentionWeights | None:
        weights_1TS = self.attention(source_1S, None, target_1T)
        size = source_1S.shape[1]
        return None if weights_1TS is None else (torch.zeros(0, 0, size, size), None, weights_1TS[None])

    def attention(
        self, source_BS: torch.Tensor, tokens_BS: torch.Tensor | None, target_BT: torch.Tensor
    ) -> torch.Tensor | None:
        """Weights [B, T, S]; None for a model without attention."""
        return None if self.alignment is None else self._run(target_BT, self.begin(source_BS, tokens_BS))[1]


class Seq2SeqStepper:
    """A ``Stepper`` over given sources; ``scores`` stands in for the model's own, which it must equal."""

    def __init__(
        self,
        model: Seq2Seq,
        source_BS: torch.Tensor,
        tokens_BS: torch.Tensor,
        scores: Scorer | None = None,
    ) -> None:
        self.model = model
        self.scores = scores or model.scores
        self.vocab_size = model.target_vocab_size
        self.begun = model.begin(source_BS, tokens_BS)

    def start(self, num_rows: int) -> RecurrentState:
        assert num_rows == len(self.begun.sentence_N), "a row a source"
        return self.begun

    def step(self, ids_N: torch.Tensor, state: RecurrentState) -> tuple[torch.Tensor, RecurrentState]:
        model = self.model
        embedded = model._embed(ids_N[:, None])
        if state.fed_ND is not None:
            embedded = torch.cat((embedded, state.fed_ND[:, None]), -1)
        hidden, states = model._stack(embedded, state.hidden)
        if state.memory is not None:  # the rows of a sentence ask its source together
            grouped = hidden.view(len(state.memory[0]), -1, hidden.shape[-1])
            hidden = model._attend(grouped, state.memory)[0].view_as(hidden)
        hidden_ND = hidden[:, 0]
        fed = hidden_ND if state.fed_ND is not None else None
        return self.scores(hidden_ND).log_softmax(-1), RecurrentState(states, fed, state.memory, state.sentence_N)

    def reorder(self, state: RecurrentState, index_N: torch.Tensor) -> RecurrentState:
        """Rows move only within their sentence; the sources of sentences that are done are let go."""
        left, sentences = torch.unique_consecutive(state.sentence_N[index_N], return_inverse=True)
        memory = state.memory
        if memory is not None and len(left) != len(memory[0]):
            keys, states, mask = (part.index_select(0, left) for part in memory)
            memory = (keys, states, mask)
        hidden = [tuple(part.index_select(0, index_N) for part in layer) for layer in state.hidden]
        fed = None if state.fed_ND is None else state.fed_ND.index_select(0, index_N)
        return RecurrentState(hidden, fed, memory, sentences)
