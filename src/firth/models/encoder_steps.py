"""An encoder that writes: the next token is what fills a [MASK] at the end (Dong et al. 2019).

The text so far sees itself leftward (a source before it all ways), never the [MASK], so its keys and
values are kept. A step reads two tokens: the one that was chosen and a new [MASK].

N rows, S source tokens, T tokens so far, V vocabulary, D hidden size.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from firth.models.encoder import Encoder
from firth.nn.blocks import Block
from firth.nn.cache import Past


@dataclass
class ClozeState:
    """What is known of the rows' tokens so far."""

    pasts: list[Past] | None  # keys and values [N, H, T, K] of every block
    seen_NT: torch.Tensor  # false for the padding of short sources
    next_N: torch.Tensor  # the position of the next token
    at: int  # tokens read, the source apart


class ClozeStepper:
    """A ``Stepper`` over given sources, or without.

    With sources the first token of a prompt stands for the [SEP] that ends them, which is read already.
    Without, it is taken for the [CLS] that begins a text.
    """

    def __init__(
        self,
        encoder: Encoder,
        scores: Callable[[torch.Tensor], torch.Tensor],
        mask_id: int,
        segment: int,
        *,
        first_id: int | None = None,
        source: tuple[torch.Tensor, torch.Tensor, int] | None = None,
    ) -> None:
        """``scores`` from hidden vectors to the vocabulary; ``source`` is (ids, tokens or padding, segment)."""
        assert encoder.config.positions != "relative"
        assert (first_id is None) != (source is None)
        self.encoder, self.scores, self.mask_id, self.segment = encoder, scores, mask_id, segment
        self.first_id, self.source = first_id, source
        self.vocab_size = encoder.config.vocab_size

    def start(self, num_rows: int) -> ClozeState:
        device = self.encoder.embeddings.tokens.weight.device
        if self.source is None:
            none = torch.zeros(num_rows, 0, dtype=torch.bool, device=device)
            return ClozeState(None, none, torch.zeros(num_rows, dtype=torch.long, device=device), 0)
        ids_NS, tokens_NS, segment = self.source
        assert num_rows == len(ids_NS), "a row a source"
        positions = torch.arange(ids_NS.shape[1], device=device).expand_as(ids_NS)
        _, pasts = self._run(ids_NS, positions, segment, None, tokens_NS[:, None, None, :])
        return ClozeState(pasts, tokens_NS, tokens_NS.sum(1), 0)

    def _run(
        self,
        ids_NT: torch.Tensor,
        positions_NT: torch.Tensor,
        segment: int,
        pasts: list[Past] | None,
        mask: torch.Tensor,
    ) -> tuple[torch.Tensor, list[Past]]:
        """The last layer of tokens that follow others, and all keys and values."""
        hidden = self.encoder.embed(ids_NT, positions_NT, torch.full_like(ids_NT, segment))
        angles = self.encoder.angles(positions_NT)
        found = []
        for layer, block in enumerate(self.encoder.blocks):
            assert isinstance(block, Block)
            hidden, past = block.step(hidden, None if pasts is None else pasts[layer], mask, angles)
            found.append(past)
        final = self.encoder.final_norm
        return hidden if final is None else final(hidden), found

    def step(self, ids_N: torch.Tensor, state: ClozeState) -> tuple[torch.Tensor, ClozeState]:
        masks = torch.full_like(ids_N, self.mask_id)
        if state.at == 0 and self.source is not None:
            ids_NQ = masks[:, None]
        else:
            read = torch.full_like(ids_N, self.first_id) if state.at == 0 and self.first_id is not None else ids_N
            ids_NQ = torch.stack((read, masks), dim=1)
        num_read = ids_NQ.shape[1] - 1
        positions_NQ = state.next_N[:, None] + torch.arange(num_read + 1, device=ids_N.device)
        own = torch.ones(num_read + 1, num_read + 1, dtype=torch.bool, device=ids_N.device).tril()
        before = state.seen_NT[:, None, :].expand(-1, num_read + 1, -1)
        mask = torch.cat((before, own.expand(len(ids_N), -1, -1)), dim=2)[:, None]
        hidden, pasts = self._run(ids_NQ, positions_NQ, self.segment, state.pasts, mask)
        kept = [(key[:, :, :-1], value[:, :, :-1]) for key, value in pasts]
        seen = functional.pad(state.seen_NT, (0, num_read), value=True)
        state = ClozeState(kept, seen, state.next_N + num_read, state.at + 1)
        return self.scores(hidden[:, -1]).log_softmax(-1), state

    def reorder(self, state: ClozeState, index_N: torch.Tensor) -> ClozeState:
        pasts = None
        if state.pasts is not None:
            pasts = [(key.index_select(0, index_N), value.index_select(0, index_N)) for key, value in state.pasts]
        return ClozeState(pasts, state.seen_NT[index_N], state.next_N[index_N], state.at)
