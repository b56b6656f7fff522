"""The Transformer one target token at a time: keys and values are kept, those of the source once a sentence.

S sentences, N rows (equally many a sentence), V vocabulary, H heads, T tokens so far, K head size.
"""

from dataclasses import dataclass

import torch

from firth.models.encoder_decoder import EncoderDecoder
from firth.nn.attention import Past
from firth.nn.cross_attention import DecoderBlock


@dataclass
class DecoderState:
    """What is known of the rows' tokens so far and of the sources."""

    pasts: list[Past] | None  # own keys and values [N, H, T, K] of every block
    memories: list[Past]  # the source's [S, H, source tokens, K]
    source_mask: torch.Tensor | None  # [S, 1, 1, source tokens]
    sentence_N: torch.Tensor  # which of the S each row belongs to
    at: int  # tokens read


class EncoderDecoderStepper:
    """A ``Stepper`` over given sources."""

    def __init__(self, model: EncoderDecoder, source_BS: torch.Tensor, tokens_BS: torch.Tensor) -> None:
        self.model = model
        self.vocab_size = model.target_vocab_size
        self.source_mask = None if bool(tokens_BS.all()) else tokens_BS[:, None, None, :]
        self.source = model.encode(source_BS, None if self.source_mask is None else tokens_BS)

    def start(self, num_rows: int) -> DecoderState:
        assert num_rows == len(self.source), "a row a source"
        sentences = torch.arange(num_rows, device=self.source.device)
        return DecoderState(None, self.model.remember(self.source), self.source_mask, sentences, 0)

    def step(self, ids_N: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        model, window = self.model, self.model.config.window
        hidden = model.embed(ids_N[:, None], True, state.at)
        bias = None
        if model.decoder_relative is not None:
            first = 0 if window is None else max(0, state.at - window)
            places = torch.arange(first, state.at + 1, device=ids_N.device)[None]
            bias = model.decoder_relative(places[:, -1:], places)
        pasts = []
        for number, block in enumerate(model.decoder_blocks):
            assert isinstance(block, DecoderBlock)
            past = None if state.pasts is None else state.pasts[number]
            most = None if window is None else window + 1
            hidden, past = block.step(hidden, past, state.memories[number], bias, state.source_mask, most)
            pasts.append(past)
        hidden_ND = model.finish_target(hidden)[:, 0]
        state = DecoderState(pasts, state.memories, state.source_mask, state.sentence_N, state.at + 1)
        return model.scores(hidden_ND).log_softmax(-1), state

    def reorder(self, state: DecoderState, index_N: torch.Tensor) -> DecoderState:
        """Rows move only within their sentence; the sources of sentences that are done are let go."""
        pasts = None
        if state.pasts is not None:
            pasts = [(key.index_select(0, index_N), value.index_select(0, index_N)) for key, value in state.pasts]
        sentences, left = remaining(state.sentence_N[index_N])
        memories, source_mask = state.memories, state.source_mask
        if len(left) != len(memories[0][0]):
            memories = [(key.index_select(0, left), value.index_select(0, left)) for key, value in memories]
            source_mask = None if source_mask is None else source_mask.index_select(0, left)
        return DecoderState(pasts, memories, source_mask, sentences, state.at)


def remaining(sentence_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows by their sentence's new number, and the old numbers of the sentences that are left."""
    left, sentences = torch.unique_consecutive(sentence_N, return_inverse=True)
    assert len(sentence_N) % len(left) == 0, "equally many rows a sentence"
    return sentences, left
