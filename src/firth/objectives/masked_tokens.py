"""Masked tokens: some are hidden, all of the context predicts them (Devlin et al. 2018, 3.1).

15 % of the tokens of a row are chosen, never special ones; of these 80 % become [MASK], 10 % a
random token, 10 % stay. The share is drawn a row, not a sequence, so that rows of packed short
sequences carry as much to learn as full ones. With ``pairs`` each sequence is a pair of segments
that is also classified (next_sentence.py); both losses are added.

B rows, T tokens, P chosen tokens of a row, N chosen tokens in all, D hidden size, V vocabulary.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.model_configs import EncoderConfig
from firth.core.objective_configs import MaskedTokensConfig, MaskingConfig
from firth.core.seeds import uniform
from firth.core.types import Batch, Losses
from firth.corpus.format import Split
from firth.corpus.rows import PackedRows
from firth.nn.output import PairHead, TokenHead
from firth.objectives.next_sentence import PairRows, build_pairs
from firth.objectives.rows import Rows, Specials, build_rows

_CHOICE, _KIND, _RANDOM, _ROUNDING = range(4)  # what a random number is for


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
    config: MaskingConfig,
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
    """The objective: batches of packed, masked rows; the heads; the loss where something is predicted."""

    def __init__(self, config: MaskedTokensConfig, model: EncoderConfig, specials: Specials) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.head = TokenHead(model)
        self.pair_head = PairHead(model.hidden_dim) if config.pairs != "none" else None
        self.weights = {"masked": config.mask_weight, "pairs": config.pair_weight}

    def heads(self) -> dict[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        found: dict[str, nn.Module] = {"token_head": self.head}
        if self.pair_head is not None:
            found |= {"pooler": self.pair_head.pooler, "pair_head": self.pair_head.out}
        return found

    def rows(self, split: Split, seed: int) -> PackedRows | PairRows:
        if self.config.pairs == "none":
            rows: PackedRows | PairRows = PackedRows.of_documents(split, self.config.row_len, 2, seed)
        else:
            rows = PairRows(split, self.config.row_len, self.config.short_prob, seed)
        if not len(rows):
            raise FirthError(f"{split.folder}: no text to train on; prepare a corpus with more documents")
        return rows

    def batch(self, split: Split, rows: PackedRows | PairRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        numbers, epochs = rows.numbers(first, count)
        turns = epochs % self.config.copies if self.config.copies else epochs
        if isinstance(rows, PairRows):
            plain = build_pairs(split, rows, numbers, turns, self.config, self.specials, seed)
        else:
            plain = build_rows(split, rows, numbers, turns, self.config, self.specials, seed)
        key = (seed, numbers[:, None], turns[:, None])
        chosen = choose(plain.units, self.config.mask_share, key)
        ids = hide(plain.ids, chosen, self.config, self.specials, key)
        return self._pack(plain, ids, chosen)

    def _pack(self, plain: Rows, ids: NDArray[np.int64], chosen: NDArray[np.bool_]) -> Batch:
        used = int(np.flatnonzero(plain.blocks.any(axis=0))[-1]) + 1
        read = chosen.copy()
        read[plain.pair_rows, plain.pair_columns] = True
        picks, where = picked_columns(read)
        arrays = {
            "ids": ids[:, :used],
            "positions": plain.positions[:, :used],
            "blocks": plain.blocks[:, :used],
            "picks": picks,
            "masked": where[chosen],
            "labels": plain.ids[chosen],
        }
        counts = {"masked": int(chosen.sum())}
        if self.pair_head is not None:
            arrays["segments"] = plain.segments[:, :used]
            arrays["pairs"] = where[plain.pair_rows, plain.pair_columns]
            arrays["pair_labels"] = np.asarray(plain.pair_labels, np.int64)
            counts["pairs"] = len(plain.pair_labels)
        return Batch(arrays, counts, int((plain.blocks > 0).sum()))

    def loss(self, model: Any, batch: Batch) -> Losses:
        """Cross-entropy at the chosen tokens and pairs; the last block computes nothing else."""
        tensors = batch.tensors
        hidden_BPD = model.picked(
            tensors["picks"], tensors["ids"], tensors["blocks"], tensors["positions"], tensors.get("segments")
        )
        hidden_ND = hidden_BPD.flatten(0, 1)
        scores_NV = self.head(hidden_ND[tensors["masked"]], model.embeddings.tokens.weight)
        found = {"masked": (scores_NV, tensors["labels"])}
        if self.pair_head is not None:
            found["pairs"] = (self.pair_head(hidden_ND[tensors["pairs"]]), tensors["pair_labels"])
        sums = {
            name: functional.cross_entropy(scores, labels, reduction="sum") for name, (scores, labels) in found.items()
        }
        if self.training:
            return Losses(sums)
        hits = {
            f"{name}_accuracy": (float((scores.argmax(-1) == labels).sum()), float(len(labels)))
            for name, (scores, labels) in found.items()
        }
        return Losses(sums, hits)


def picked_columns(read: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The columns read in each row, filled up to the same number with column 0, [B, P]; and for each
    place [B, T] where it stands among these, counted through all rows."""
    counts = read.sum(1)
    width = max(int(counts.max()), 1)
    picks = np.zeros((len(read), width), np.int64)
    picks[np.arange(width) < counts[:, None]] = np.nonzero(read)[1]
    where = np.cumsum(read, axis=1) - 1 + np.arange(len(read))[:, None] * width
    return picks, where
