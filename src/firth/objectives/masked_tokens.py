"""Masked tokens: some are hidden, all of the context predicts them (Devlin et al. 2018, 3.1).

15 % of the tokens of a row are chosen, never special ones; of these 80 % become [MASK], 10 % a
random token, 10 % stay. The share is drawn a row, not a sequence, so that rows of packed short
sequences carry as much to learn as full ones.

B rows, T tokens, P chosen tokens of a row, D hidden size, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.configs import EncoderConfig, MaskedTokensConfig
from firth.core.errors import FirthError
from firth.core.seeds import uniform
from firth.core.types import Batch, Losses
from firth.corpus.format import Split
from firth.corpus.rows import PackedRows
from firth.nn.output import TokenHead

_CHOICE, _KIND, _RANDOM, _ROUNDING = range(4)  # what a random number is for


@dataclass(frozen=True)
class Specials:
    """The ids that masking has to know."""

    cls_id: int
    sep_id: int
    mask_id: int
    pad_id: int
    ordinary: NDArray[np.int64]  # every id that may replace a token at random


@dataclass
class Rows:
    """A batch of packed rows before masking, all [B, T]."""

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    blocks: NDArray[np.int64]  # 1, 2, ... for the sequences of a row; 0 is padding
    units: NDArray[np.int64]  # what is chosen as one: a token, or a word; -1 where nothing may be chosen


def build_rows(
    split: Split, rows: PackedRows, numbers: NDArray[np.int64], row_len: int, specials: Specials, whole_words: bool
) -> Rows:
    """[CLS] sequence [SEP], one after another, positions from 0 in each."""
    shape = (len(numbers), row_len)
    out = Rows(
        np.full(shape, specials.pad_id), np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, -1)
    )
    for place, row in enumerate(numbers.tolist()):
        at = unit = 0
        for block, sequence in enumerate(rows.sequences(row).tolist(), 1):
            start, length = int(rows.starts[sequence]), int(rows.lens[sequence])
            end = at + length + 2
            out.ids[place, at], out.ids[place, end - 1] = specials.cls_id, specials.sep_id
            out.ids[place, at + 1 : end - 1] = split.tokens[start : start + length]
            out.positions[place, at:end] = np.arange(length + 2)
            out.blocks[place, at:end] = block
            if whole_words:
                begins = split.word_starts(start, start + length)
                begins[0] = True
                units = np.cumsum(begins) - 1
            else:
                units = np.arange(length)
            out.units[place, at + 1 : end - 1] = unit + units
            unit += int(units[-1]) + 1
            at = end
    return out


def choose(units: NDArray[np.int64], share: float, key: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Which positions [B, T] are predicted: units in random order until the share of the row is full.

    A unit is taken if its middle lies within the share, so that long words neither overrun it nor
    are passed over. ``key`` is (seed, row keys [B, 1]); the same key chooses the same.
    """
    able = units >= 0
    wanted = share * able.sum(1) + uniform(*key, _ROUNDING)[:, 0] - 0.5
    order_key = np.where(able, uniform(*key, _CHOICE, np.where(able, units, 0)), 2.0)
    order = np.lexsort((units, order_key), axis=1)
    sorted_units = np.take_along_axis(units, order, 1)
    places = np.arange(units.shape[1])
    first = np.ones_like(able)
    first[:, 1:] = sorted_units[:, 1:] != sorted_units[:, :-1]
    begin = np.maximum.accumulate(np.where(first, places, 0), axis=1)
    final = np.ones_like(able)
    final[:, :-1] = first[:, 1:]
    end = np.minimum.accumulate(np.where(final, places, units.shape[1])[:, ::-1], axis=1)[:, ::-1]
    taken = ((begin + end + 1) / 2 <= wanted[:, None]) & np.take_along_axis(able, order, 1)
    chosen = np.zeros_like(able)
    np.put_along_axis(chosen, order, taken, 1)
    return chosen


def hide(
    ids: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    config: MaskedTokensConfig,
    specials: Specials,
    key: tuple[Any, ...],
) -> NDArray[np.int64]:
    """What the model sees: [MASK], a random token or the token itself at the chosen places."""
    places = np.arange(ids.shape[1])
    kind = uniform(*key, _KIND, places)
    random = specials.ordinary[(uniform(*key, _RANDOM, places) * len(specials.ordinary)).astype(np.int64)]
    masked = chosen & (kind < config.mask_token_prob)
    replaced = chosen & ~masked & (kind < config.mask_token_prob + config.random_token_prob)
    return np.where(masked, specials.mask_id, np.where(replaced, random, ids))


class MaskedTokens(nn.Module):
    """The objective: batches of packed, masked rows; the head; the loss on chosen tokens only."""

    def __init__(self, config: MaskedTokensConfig, model: EncoderConfig, specials: Specials) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.head = TokenHead(model)

    def rows(self, split: Split, seed: int) -> PackedRows:
        rows = PackedRows(split, self.config.row_len, 2, seed)
        if not len(rows):
            raise FirthError(f"{split.folder}: no text to train on; prepare a corpus with more documents")
        return rows

    def batch(self, split: Split, rows: PackedRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        numbers, epochs = rows.numbers(first, count)
        plain = build_rows(split, rows, numbers, self.config.row_len, self.specials, self.config.whole_words)
        turn = epochs % self.config.copies if self.config.copies else epochs
        key = (seed, numbers[:, None], turn[:, None])
        chosen = choose(plain.units, self.config.mask_share, key)
        ids = hide(plain.ids, chosen, self.config, self.specials, key)
        used = int(np.flatnonzero(plain.blocks.any(axis=0))[-1]) + 1
        picks, valid = _columns(chosen)
        arrays = {
            "ids": ids[:, :used],
            "positions": plain.positions[:, :used],
            "blocks": plain.blocks[:, :used],
            "picks": picks,
            "valid": np.flatnonzero(valid),
            "labels": plain.ids[chosen],
        }
        return Batch(arrays, {"masked": int(chosen.sum())}, int((plain.blocks > 0).sum()))

    def loss(self, model: Any, batch: Batch) -> Losses:
        """Cross-entropy at the chosen tokens; nothing else is computed in the last block."""
        tensors = batch.tensors
        hidden_BPD = model.picked(tensors["picks"], tensors["ids"], tensors["blocks"], tensors["positions"])
        scores_NV = self.head(hidden_BPD.flatten(0, 1)[tensors["valid"]], model.embeddings.tokens.weight)
        loss = functional.cross_entropy(scores_NV, tensors["labels"], reduction="sum")
        hits = (scores_NV.detach().argmax(-1) == tensors["labels"]).sum() if not self.training else None
        return Losses(
            {"masked": loss}, {} if hits is None else {"masked_accuracy": (float(hits), float(len(scores_NV)))}
        )


def _columns(chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Chosen columns of each row, filled up to the same number with column 0; which are real."""
    counts = chosen.sum(1)
    width = max(int(counts.max()), 1)
    valid = np.arange(width) < counts[:, None]
    picks = np.zeros(valid.shape, np.int64)
    picks[valid] = np.nonzero(chosen)[1]
    return picks, valid
