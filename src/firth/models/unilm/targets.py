"""Masked targets: an encoder learns to write a target after its source.

[CLS] source [SEP] target [SEP]: the source sees itself, the target sees the source and what is left of it.
``targets=each`` (Bao et al. 2021, "pseudo-masked"): behind the row stands a [MASK] for every token of the target, the [SEP] at
its end among them, from which the model learns to stop. It has that token's position, sees the source and all of the
target before it, and is seen by no other: what the model meets when it writes, and every token learns.
``targets=share`` (Dong et al. 2019, 2.5): a share of the target's tokens is hidden in their places, so that most of what a token
would be guessed from is hidden, too. Pairs that are too long lose the end of the source first. Short pairs share rows.

B rows, T tokens, M tokens of targets in a row, N predicted tokens in all, D hidden size, V vocabulary.
"""

import numpy as np
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.types import Batch, Inputs, Losses
from firth.corpus.pairs import PairSplit
from firth.corpus.rows import PackedRows
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.heads import TokenHead
from firth.models.shared.masking import guessing_losses, hide_tokens, picked_columns
from firth.models.shared.rows import Rows, Specials, Turns
from firth.models.unilm.config import MaskedTargetsConfig
from firth.models.unilm.objective import SEQUENCE, first_segments, order_of

NUM_SPECIAL = 3


def fit_lens(
    source_lens: NDArray[np.int64], target_lens: NDArray[np.int64], room: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How much of each side is used: all of it where both fit; else the source gives way, down to half the room."""
    target = np.minimum(target_lens, np.maximum(room - source_lens, room // 2))
    return np.minimum(source_lens, room - target), target


class PairedRows(PackedRows):
    """Pairs packed into rows: ``starts`` are the numbers of the pairs."""

    def __init__(self, split: PairSplit, seq_len: int, seed: int) -> None:
        self.source_lens, self.target_lens = fit_lens(split.lens("source"), split.lens("target"), seq_len - NUM_SPECIAL)
        numbers = np.arange(split.num_pairs)
        super().__init__(numbers, self.source_lens + self.target_lens, seq_len, NUM_SPECIAL, seed)


class MaskedTargets(nn.Module):
    """The objective: rows of pairs with hidden targets, the head, the loss where something is predicted."""

    def __init__(self, config: MaskedTargetsConfig, model: EncoderConfig, specials: Specials) -> None:
        super().__init__()
        self.config, self.specials = config, specials
        self.head = TokenHead(model)
        self.first_segment = int(first_segments(model.num_segments)[SEQUENCE])
        self.weights = {"masked": 1.0}

    def heads(self) -> dict[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        return {"token_head": self.head}

    def rows(self, split: PairSplit, seed: int) -> PairedRows:
        if not split.num_pairs:
            raise FirthError(f"{split.folder}: no pairs to train on; prepare a corpus with more of them")
        return PairedRows(split, self.config.seq_len, seed)

    def _plain(self, split: PairSplit, rows: PairedRows, numbers: NDArray[np.int64]) -> Rows:
        out = Rows.empty(len(numbers), self.config.seq_len, self.specials.pad_id)
        for row, number in enumerate(numbers.tolist()):
            begin = 0
            for block, pair in enumerate(rows.sequences(number).tolist(), start=1):
                middle = begin + int(rows.source_lens[pair]) + 2
                end = middle + int(rows.target_lens[pair]) + 1
                out.ids[row, begin] = self.specials.cls_id
                out.ids[row, begin + 1 : middle - 1] = split.sentence("source", pair)[: rows.source_lens[pair]]
                out.ids[row, middle : end - 1] = split.sentence("target", pair)[: rows.target_lens[pair]]
                out.ids[row, [middle - 1, end - 1]] = self.specials.sep_id
                out.positions[row, begin:end] = np.arange(end - begin)
                out.blocks[row, begin:end] = block
                out.segments[row, middle:end] = 1
                out.units[row, middle:end] = np.arange(middle, end)
                begin = end
        return out

    def batch(self, split: PairSplit, rows: PairedRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        turns = Turns.of(rows, self.config, seed, first, count)
        plain = self._plain(split, rows, turns.numbers)
        if self.config.targets == "each":
            return self._with_masks(plain)
        hidden = hide_tokens(plain, self.config, self.specials, turns.key)
        return hidden.batch(
            {"masked": hidden.num_chosen},
            segments=hidden.cut(plain.segments + self.first_segment),
            order=hidden.cut(order_of(np.full(count, SEQUENCE), plain.positions, plain.segments)),
        )

    def _with_masks(self, plain: Rows) -> Batch:
        """The rows with a [MASK] behind them for every token of their targets."""
        targets_BT, used = plain.units >= 0, plain.used
        columns_BM, _ = picked_columns(targets_BT)
        there_BM = np.arange(columns_BM.shape[1]) < targets_BT.sum(1, keepdims=True)

        def behind(array_BT: NDArray[np.int64]) -> NDArray[np.int64]:
            taken_BM = np.where(there_BM, np.take_along_axis(array_BT, columns_BM, 1), 0)
            return np.concatenate((array_BT[:, :used], taken_BM), axis=1)

        order = order_of(np.full(len(plain.ids), SEQUENCE), plain.positions, plain.segments)
        mask_id, pad_id = self.specials.mask_id, self.specials.pad_id
        arrays = {
            "ids": np.concatenate((plain.ids[:, :used], np.where(there_BM, mask_id, pad_id)), axis=1),
            "positions": behind(plain.positions),
            "doc_ids": behind(plain.blocks),
            "segments": behind(plain.segments) + self.first_segment,
            "order": behind(order),
            "alone": np.concatenate((np.zeros((len(there_BM), used), np.bool_), there_BM), axis=1),
            "picks": np.broadcast_to(used + np.arange(columns_BM.shape[1]), columns_BM.shape).copy(),
            "masked": np.flatnonzero(there_BM),
            "labels": plain.ids[targets_BT],
        }
        arrays["order"][arrays["alone"]] -= 1  # not the token that it stands for
        return Batch(arrays, {"masked": int(targets_BT.sum())}, plain.num_tokens)

    def loss(self, model: Encoder, batch: Batch) -> Losses:
        """Cross-entropy at the hidden tokens; the last block computes nothing else."""
        tensors = batch.tensors
        hidden_ND = model.picked(Inputs.of(tensors), tensors["picks"]).flatten(0, 1)[tensors["masked"]]
        scores_NV = self.head(hidden_ND, model.embeddings.tokens.weight)
        return guessing_losses({"masked": (scores_NV, tensors["labels"])}, self.training)
