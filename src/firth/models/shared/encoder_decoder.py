"""The Transformer (Vaswani et al. 2017): an encoder reads the source, a decoder writes the target.

Training is one parallel pass; decoding is step by step with cached keys and values (``EncoderDecoderStepper``). T5 is
the same with other choices (Raffel et al. 2020). ``TranslationNetwork`` is what recurrent translators answer as well.

B batch, S source tokens, T target tokens, N positions, D hidden size, L layers, H heads, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from firth.core.types import Inputs, Layers, note_computing
from firth.decoding.steps import Stepper
from firth.models.shared.configs import EncoderDecoderConfig, TranslatorConfig
from firth.nn.attention import RelativeBias, sinusoids, visible, with_bias
from firth.nn.blocks import Block, DecoderBlock, initialize_by_width, initialize_xavier
from firth.nn.cache import KeyValues, Past, take_sentences
from firth.nn.layers import TokenNetwork, build_norm, dropout, turn_matrices

Scorer = Callable[[torch.Tensor], torch.Tensor]
"""Scores [N, V] of hidden vectors [N, D], in place of the model's own, which they must equal."""


class PositionTable(nn.Module):
    """What is added to the tokens for where they stand; sinusoids grow with the text."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        learned = config.positions == "learned"
        self.learned = nn.Embedding(config.max_positions, config.hidden_dim) if learned else None
        self.fixed: torch.Tensor | None
        waves = sinusoids(config.max_positions, config.hidden_dim) if config.positions == "sinusoidal" else None
        self.register_buffer("fixed", waves, persistent=False)

    def forward(self, hidden_BTD: torch.Tensor, first: int) -> torch.Tensor:
        """The first token stands at ``first``."""
        stop = first + hidden_BTD.shape[1]
        if self.learned is not None:
            return hidden_BTD + self.learned.weight[first:stop]
        if self.fixed is None:
            return hidden_BTD
        if stop > len(self.fixed):
            self.fixed = sinusoids(2 * stop, hidden_BTD.shape[-1]).to(hidden_BTD.device)
        return hidden_BTD + self.fixed[first:stop]


AttentionWeights = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]
"""Of one pair: source [L, H, S, S] (no layers where there is none), target [L, H, T, T], between [L, H, T, S]."""


def tokens_of(inputs: Inputs) -> torch.Tensor | None:
    """[B, S], true where there is a token; None where they are everywhere."""
    return None if inputs.doc_ids is None else inputs.mask


class TranslationNetwork(TokenNetwork):
    """A network that reads a source and writes a target: what training, decoding and tasks ask of it. As a ``Network`` it is the
    encoder: from the source to its layers. Positions and segments follow from the text alone."""

    config: TranslatorConfig
    num_layers: int  # of the encoder
    tokens: nn.Embedding
    target_tokens: nn.Embedding | None  # None: both sides share one table
    output: nn.Linear | None  # None: the target's token table once more
    output_bias: nn.Parameter | None
    max_len: int | None = None  # the most tokens of a side; None without a limit
    shows: frozenset[str] = frozenset()  # "attention" within the source, "alignment" between source and target

    def initialize(self, generator: torch.Generator) -> None:
        """Random weights before training."""
        raise NotImplementedError

    def encoder_parts(self) -> dict[str, nn.Module | None]:
        """The modules that read a source, token table apart, by the names under which a task keeps them."""
        raise NotImplementedError

    def hidden(self, source_BS: torch.Tensor, tokens_BS: torch.Tensor | None, target_BT: torch.Tensor) -> torch.Tensor:
        """From source and target to what is scored, [B, T, D]."""
        raise NotImplementedError

    def stepper(self, source_BS: torch.Tensor, tokens_BS: torch.Tensor, scores: Scorer | None = None) -> Stepper[Any]:
        """The decoder over given sources, token by token."""
        raise NotImplementedError

    def prepare_decoding(self) -> None:
        """Brings finished weights into the order that single steps read fastest."""

    def looks(self, source_1S: torch.Tensor, target_1T: torch.Tensor) -> AttentionWeights | None:
        """What is looked at in one pair; None for a model without attention."""
        raise NotImplementedError

    @property
    def target_vocab_size(self) -> int:
        return self.config.target_vocab_size or self.config.vocab_size

    def output_weights(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The last matrix [V, D], which may be the target's token table, and its bias."""
        if self.output is not None:
            return self.output.weight, self.output_bias
        return (self.tokens if self.target_tokens is None else self.target_tokens).weight, self.output_bias

    def scores(self, hidden_ND: torch.Tensor) -> torch.Tensor:
        """[N, V]: how likely each token is the next, before softmax."""
        return functional.linear(hidden_ND, *self.output_weights())


class EncoderDecoder(TranslationNetwork):
    """Two stacks of blocks over token tables that may be one."""

    config: EncoderDecoderConfig
    shows = frozenset({"attention", "alignment"})

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config, self.num_layers = config, config.num_layers
        self.max_len = config.max_positions if config.positions == "learned" else None
        target_size = config.target_vocab_size or config.vocab_size
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_dim)
        self.target_tokens = nn.Embedding(target_size, config.hidden_dim) if config.target_vocab_size else None
        self.output = None if config.tied_output else nn.Linear(config.hidden_dim, target_size, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(target_size)) if config.output_bias else None
        self.encoder_positions, self.decoder_positions = PositionTable(config), PositionTable(config)
        extra = (config.activation_dropout_prob, config.head_dim)
        self.encoder_blocks = nn.ModuleList(Block(config, *extra) for _ in range(config.num_layers))
        self.decoder_blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.num_decoder_layers))
        relative = config.positions == "relative"
        self.encoder_relative = RelativeBias(config.num_heads) if relative else None
        self.decoder_relative = RelativeBias(config.num_heads, bidirectional=False) if relative else None
        norm = (config.norm, config.hidden_dim, config.norm_eps, config.bias)
        self.encoder_norm = build_norm(*norm) if config.norm_first else None
        self.decoder_norm = build_norm(*norm) if config.norm_first else None

    def initialize(self, generator: torch.Generator) -> None:
        """Tables so that scaled tokens have variance one."""
        if self.config.by_width:
            initialize_by_width(self, self.config.hidden_dim, generator)
            return
        scale = self.config.embedding_scale or self.config.hidden_dim**0.5
        initialize_xavier(self, 1.0 / scale, generator)

    # -- the source

    def embed(self, ids_BT: torch.Tensor, target: bool, first: int = 0) -> torch.Tensor:
        note_computing()
        table = self.target_tokens if target and self.target_tokens is not None else self.tokens
        scale = self.config.embedding_scale or self.config.hidden_dim**0.5
        positions = self.decoder_positions if target else self.encoder_positions
        return dropout(positions(table(ids_BT) * scale, first), self.config.dropout_prob, self.training)

    def finish(self, norm: nn.Module | None, hidden: torch.Tensor) -> torch.Tensor:
        """The last norm, where norms come first."""
        return hidden if norm is None else norm(hidden)

    def finish_target(self, hidden: torch.Tensor) -> torch.Tensor:
        """What is scored: T5 makes it smaller first."""
        hidden = self.finish(self.decoder_norm, hidden)
        return hidden if self.config.output_scale == 1.0 else hidden * self.config.output_scale

    def _source_mask(self, num_tokens: int, tokens_BS: torch.Tensor | None) -> torch.Tensor | None:
        device = self.tokens.weight.device
        mask = visible(num_tokens, tokens_BS, window=self.config.window, device=device)
        places = torch.arange(num_tokens, device=device)[None]
        bias = None if self.encoder_relative is None else self.encoder_relative(places, places)
        return with_bias(bias, mask)

    def last(self, inputs: Inputs) -> torch.Tensor:
        """The source's last layer [B, S, D]."""
        mask = self._source_mask(inputs.ids.shape[1], tokens_of(inputs))
        hidden = self.embed(inputs.ids, False)
        for block in self.encoder_blocks:
            hidden = block(hidden, mask, None)
        return self.finish(self.encoder_norm, hidden)

    def forward(self, inputs: Inputs) -> Layers:
        """Every layer of the encoder."""
        mask = self._source_mask(inputs.ids.shape[1], tokens_of(inputs))
        hidden = [self.embed(inputs.ids, False)]
        for block in self.encoder_blocks:
            hidden.append(block(hidden[-1], mask, None))
        hidden[-1] = self.finish(self.encoder_norm, hidden[-1])
        return Layers(torch.stack(hidden), inputs.mask)

    def encoder_parts(self) -> dict[str, nn.Module | None]:
        return {
            "encoder_positions": self.encoder_positions,
            "encoder_blocks": self.encoder_blocks,
            "encoder_relative": self.encoder_relative,
            "encoder_norm": self.encoder_norm,
        }

    # -- the target

    def remember(self, source_BSD: torch.Tensor) -> list[Past]:
        """The source's keys and values in every block of the decoder."""
        return [block.cross.remember(source_BSD) for block in self.decoder_blocks if isinstance(block, DecoderBlock)]

    def _target_mask(self, num_tokens: int) -> torch.Tensor | None:
        """None where the plain causal mask will do."""
        if self.decoder_relative is None and self.config.window is None:
            return None
        device = self.tokens.weight.device
        mask = visible(num_tokens, causal=True, window=self.config.window, device=device)
        places = torch.arange(num_tokens, device=device)[None]
        return with_bias(None if self.decoder_relative is None else self.decoder_relative(places, places), mask)

    def decode(
        self, ids_BT: torch.Tensor, source_BSD: torch.Tensor, tokens_BS: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The decoder's last layer [B, T, D] for all target tokens at once; none sees those after it."""
        mask = self._target_mask(ids_BT.shape[1])
        source_mask = None if tokens_BS is None else tokens_BS[:, None, None, :]
        hidden = self.embed(ids_BT, True)
        for block, memory in zip(self.decoder_blocks, self.remember(source_BSD), strict=True):
            hidden = block(hidden, memory, mask, source_mask)
        return self.finish_target(hidden)

    def hidden(self, source_BS: torch.Tensor, tokens_BS: torch.Tensor | None, target_BT: torch.Tensor) -> torch.Tensor:
        """From source and target to what is scored, [B, T, D]."""
        return self.decode(target_BT, self.last(Inputs(source_BS, tokens_BS)), tokens_BS)

    def stepper(
        self, source_BS: torch.Tensor, tokens_BS: torch.Tensor, scores: Scorer | None = None
    ) -> "EncoderDecoderStepper":
        return EncoderDecoderStepper(self, source_BS, tokens_BS, scores)

    def prepare_decoding(self) -> None:
        turn_matrices(self.decoder_blocks)

    # -- to be looked at

    def looks(self, source_1S: torch.Tensor, target_1T: torch.Tensor) -> AttentionWeights:
        inside, own, between = (part[:, 0] for part in self.attention(source_1S, None, target_1T))
        return inside, own, between

    def attention(
        self, source_BS: torch.Tensor, tokens_BS: torch.Tensor | None, target_BT: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Weights of every layer and head: source [L, B, H, S, S], target [L, B, H, T, T], between [L, B, H, T, S]."""
        mask = self._source_mask(source_BS.shape[1], tokens_BS)
        hidden = self.embed(source_BS, False)
        inside = []
        for block in self.encoder_blocks:
            assert isinstance(block, Block)
            read = block.attention_norm(hidden) if block.norm_first else hidden
            inside.append(block.attention.weights(read, mask, None))
            hidden = block(hidden, mask, None)
        memories = self.remember(self.finish(self.encoder_norm, hidden))
        num_tokens = target_BT.shape[1]
        mask = self._target_mask(num_tokens)
        if mask is None:
            mask = visible(num_tokens, causal=True, device=target_BT.device)
        source_mask = None if tokens_BS is None else tokens_BS[:, None, None, :]
        hidden = self.embed(target_BT, True)
        own, between = [], []
        for decoder_block, memory in zip(self.decoder_blocks, memories, strict=True):
            assert isinstance(decoder_block, DecoderBlock)
            found = decoder_block.weights(hidden, memory, mask, source_mask)
            own.append(found[0])
            between.append(found[1])
            hidden = decoder_block(hidden, memory, mask, source_mask)
        return torch.stack(inside), torch.stack(own), torch.stack(between)


@dataclass
class DecoderState:
    """What is known of the rows' tokens so far and of the sources."""

    cache: KeyValues
    memories_L2SHMK: torch.Tensor  # keys and values of the sources
    source_mask: torch.Tensor | None  # [S, 1, 1, M], 0 or -inf


class EncoderDecoderStepper:
    """A ``Stepper`` over given sources; ``scores`` stands in for the model's own, which it must equal."""

    def __init__(
        self,
        model: EncoderDecoder,
        source_BS: torch.Tensor,
        tokens_BS: torch.Tensor,
        scores: Scorer | None = None,
    ) -> None:
        self.model = model
        self.scores = scores or model.scores
        self.vocab_size = model.target_vocab_size
        padded = not bool(tokens_BS.all())
        source = model.last(Inputs(source_BS, tokens_BS if padded else None))
        self.memories = torch.stack([torch.stack(both) for both in model.remember(source)])
        self.source_mask: torch.Tensor | None = None
        if padded:  # numbers rather than booleans: attention would make numbers of them at every step
            self.source_mask = torch.where(tokens_BS, 0.0, float("-inf"))[:, None, None, :].to(source.dtype)

    def start(self, num_rows: int) -> DecoderState:
        num_layers, _, num_sentences, num_heads, _, head_dim = self.memories.shape
        assert num_rows == num_sentences, "a row a source"
        config = self.model.config
        drops = config.window is None and config.positions != "relative"
        cache = KeyValues.empty(num_layers, num_rows, num_heads, head_dim, self.memories, drops)
        return DecoderState(cache, self.memories.clone(), self.source_mask)

    def step(self, ids_N: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        model, cache, window = self.model, state.cache, self.model.config.window
        hidden = model.embed(ids_N[:, None], True, cache.at)
        mask = cache.open(1)
        first = 0 if window is None else max(0, cache.at - 1 - window)
        if mask is not None:
            mask = mask[..., cache.starts[first] :]
        if model.decoder_relative is not None:
            places = cache.places(first)[None]
            bias = model.decoder_relative(places[:, -1:], places)
            mask = bias if mask is None else mask + bias
        for layer, block in enumerate(model.decoder_blocks):
            assert isinstance(block, DecoderBlock)
            key, value = state.memories_L2SHMK[layer]
            hidden = block.step(hidden, cache, layer, (key, value), mask, state.source_mask, first)
        return self.scores(model.finish_target(hidden)[:, 0]).log_softmax(-1), state

    def reorder(self, state: DecoderState, index_N: torch.Tensor) -> DecoderState:
        """Rows move only within their sentence; the sources of sentences that are done are let go."""
        cache = state.cache.reorder(index_N)
        memories, source_mask = state.memories_L2SHMK, state.source_mask
        if cache.left_S is not None:
            memories = take_sentences(memories, 2, cache.left_S, memories.shape[4])
            source_mask = None if source_mask is None else source_mask[cache.left_S]
        return DecoderState(cache, memories, source_mask)
