"""The Transformer one target token at a time: keys and values are kept, those of the source once a sentence.

S sentences, N rows (equally many a sentence), V vocabulary, H heads, M source tokens, J entries of the cache, K head
size, L layers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from firth.models.encoder_decoder import EncoderDecoder
from firth.nn.cache import KeyValues, take_sentences
from firth.nn.cross_attention import DecoderBlock


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
        scores: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        self.model = model
        self.scores = scores or model.scores
        self.vocab_size = model.target_vocab_size
        padded = not bool(tokens_BS.all())
        source = model.encode(source_BS, tokens_BS if padded else None)
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
