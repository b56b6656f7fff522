"""Unified masks: one encoder learns to see in both directions, left to right, right to left, and from a source to a target
(Dong et al. 2019).

In each row hidden tokens are predicted as BERT does, but the row says who sees whom: all see all; each
token sees itself and what is left of it (or right of it); or the first segment sees itself and the
second sees the first and what is left in the second. Segment numbers tell the kinds apart, as published.
The kind is drawn a row and not a batch, so that a big batch is still the sum of small ones. Departures: no
next-sentence loss; segments are cut between sentences where a sequence has several.

B rows, T tokens, N hidden tokens in all, D hidden size, V vocabulary.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.seeds import uniform
from firth.core.types import Batch, Inputs, Losses
from firth.corpus.format import Split
from firth.corpus.rows import PackedRows, need_text
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.heads import TokenHead
from firth.models.shared.masking import hide_tokens
from firth.models.shared.rows import Rows, RowWriter, Specials, Turns, fill_rows
from firth.models.unilm.config import UnifiedMasksConfig

KINDS = ("bidirectional", "left_to_right", "right_to_left", "seq2seq")
BOTH_WAYS, LEFTWARD, RIGHTWARD, SEQUENCE = range(4)
_KIND, _CUT = 40, 41  # what a random number is for


def first_segments(num_segments: int) -> NDArray[np.int64]:
    """The number of the first segment of each kind, the second is the next; alike where there are too few."""
    return np.asarray([0, 2, 3, 4] if num_segments >= 6 else [0, 0, 0, 0])


def order_of(
    kinds_B: NDArray[np.int64], positions_BT: NDArray[np.int64], segments_BT: NDArray[np.int64]
) -> NDArray[np.int64]:
    """A number for each token: token i sees token j of its sequence if j's number is not larger than i's."""
    kind = kinds_B[:, None]
    order = np.where(kind == LEFTWARD, positions_BT, 0)
    order = np.where(kind == RIGHTWARD, -positions_BT, order)
    return np.where((kind == SEQUENCE) & (segments_BT == 1), positions_BT, order)


class UnifiedMasks(nn.Module):
    """The objective: hidden tokens in rows of four kinds, the head, the loss where something is predicted."""

    def __init__(self, config: UnifiedMasksConfig, model: EncoderConfig, specials: Specials) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.head = TokenHead(model)
        self.first_segments = first_segments(model.num_segments)
        self.weights = {"masked": 1.0}
        shares = np.asarray(
            [
                config.bidirectional_weight,
                config.left_to_right_weight,
                config.right_to_left_weight,
                config.seq2seq_weight,
            ]
        )
        self.limits = np.cumsum(shares / shares.sum())[:-1]

    def heads(self) -> dict[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        return {"token_head": self.head}

    def rows(self, split: Split, seed: int) -> PackedRows:
        rows = PackedRows.of_documents(split, self.config.seq_len, 3, seed)
        need_text(split, len(rows))
        return rows

    def batch(self, split: Split, rows: PackedRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        turns = Turns.of(rows, self.config, seed, first, count)
        kinds = np.searchsorted(self.limits, uniform(*turns.key, _KIND)[:, 0], side="right")
        plain = self._plain(split, rows, turns, kinds)
        hidden = hide_tokens(plain, self.config, self.specials, turns.key)
        return hidden.batch(
            {"masked": hidden.num_chosen},
            segments=hidden.cut(plain.segments + self.first_segments[kinds][:, None]),
            order=hidden.cut(order_of(kinds, plain.positions, plain.segments)),
            kinds=np.repeat(kinds, hidden.chosen.sum(1)),
        )

    def _plain(self, split: Split, rows: PackedRows, turns: Turns, kinds: NDArray[np.int64]) -> Rows:
        """Sequences as one segment where the kind goes one way, else as two."""

        def write(writer: RowWriter, sequence: int, turn: int) -> None:
            start, length = int(rows.starts[sequence]), int(rows.lens[sequence])
            if kinds[writer.row] in (LEFTWARD, RIGHTWARD) or length < 2:
                writer.add((start, length))
                return
            middle = _cut(split, start, length, float(uniform(turns.seed, sequence, turn, _CUT)))
            writer.add((start, middle - start), (middle, start + length - middle))

        return fill_rows(split, rows, turns, self.config, self.specials, write)

    def loss(self, model: Encoder, batch: Batch) -> Losses:
        """Cross-entropy at the hidden tokens; the last block computes nothing else."""
        tensors = batch.tensors
        hidden_ND = model.picked(Inputs.of(tensors), tensors["picks"]).flatten(0, 1)[tensors["masked"]]
        scores_NV = self.head(hidden_ND, model.embeddings.tokens.weight)
        labels, kinds = tensors["labels"], tensors["kinds"]
        if self.training:
            return Losses({"masked": functional.cross_entropy(scores_NV, labels, reduction="sum")})
        losses_N = functional.cross_entropy(scores_NV, labels, reduction="none")
        hits_N = scores_NV.argmax(-1) == labels
        metrics = {"masked_accuracy": (float(hits_N.sum()), float(len(labels)))}
        for number, name in enumerate(KINDS):
            mine = kinds == number
            metrics[f"{name}_loss"] = (float(losses_N.detach()[mine].sum()), float(mine.sum()))
        return Losses({"masked": torch.sum(losses_N)}, metrics)


def _cut(split: Split, start: int, length: int, draw: float) -> int:
    """Where the second segment begins: at one of the sentences inside, or anywhere if there is none."""
    first, last = np.searchsorted(split.sentences, (start + 1, start + length)).tolist()
    if last > first:
        return int(split.sentences[first + int(draw * (last - first))])
    return start + 1 + int(draw * (length - 1))
