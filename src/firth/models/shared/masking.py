"""Rows with hidden tokens: which are chosen, what stands in their place, what a batch of them holds, and the losses of
guessing. What all objectives that hide tokens share.

B rows, T tokens, P places read in a row, N chosen tokens in all, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.seeds import uniform
from firth.core.types import Batch, Losses
from firth.models.shared.configs import MaskingConfig
from firth.models.shared.rows import Rows, Specials

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


def picked_columns(read: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The columns read in each row, filled up to the same number with column 0, [B, P]; and for each
    place [B, T] where it stands among these, counted through all rows."""
    counts = read.sum(1)
    width = max(int(counts.max()), 1)
    picks = np.zeros((len(read), width), np.int64)
    picks[np.arange(width) < counts[:, None]] = np.nonzero(read)[1]
    where = np.cumsum(read, axis=1) - 1 + np.arange(len(read))[:, None] * width
    return picks, where


@dataclass(frozen=True)
class HiddenRows:
    """Rows after hiding: ``where`` tells of each place where it stands among those that are read."""

    plain: Rows
    chosen: NDArray[np.bool_]
    where: NDArray[np.int64]
    arrays: dict[str, NDArray[Any]]

    @property
    def num_chosen(self) -> int:
        return int(self.chosen.sum())

    @property
    def pair_places(self) -> NDArray[np.int64]:
        return self.where[self.plain.pair_rows, self.plain.pair_columns]

    def cut(self, array_BT: NDArray[Any]) -> NDArray[Any]:
        """Without the columns that no row fills."""
        return array_BT[:, : self.plain.used]

    def batch(self, counts: Mapping[str, int], **more: NDArray[Any]) -> Batch:
        """The batch, with further arrays."""
        return Batch(self.arrays | more, counts, self.plain.num_tokens)


def hide_tokens(plain: Rows, config: MaskingConfig, specials: Specials, key: tuple[Any, ...]) -> HiddenRows:
    """Chooses tokens of the rows and hides them; the beginnings of pairs are read, too."""
    chosen = choose(plain.units, config.mask_prob, key)
    read = chosen.copy()
    read[plain.pair_rows, plain.pair_columns] = True
    picks, where = picked_columns(read)
    used = plain.used
    arrays = {
        "ids": hide(plain.ids, chosen, config, specials, key)[:, :used],
        "positions": plain.positions[:, :used],
        "doc_ids": plain.blocks[:, :used],
        "picks": picks,
        "masked": where[chosen],
        "labels": plain.ids[chosen],
    }
    return HiddenRows(plain, chosen, where, arrays)


def guessing_losses(found: Mapping[str, tuple[torch.Tensor, torch.Tensor]], training: bool) -> Losses:
    """Cross-entropies of named (scores [N, C], labels [N]); at a test how many were hit as well."""
    sums = {name: functional.cross_entropy(scores, labels, reduction="sum") for name, (scores, labels) in found.items()}
    if training:
        return Losses(sums)
    hits = {
        f"{name}_accuracy": (float((scores.argmax(-1) == labels).sum()), float(len(labels)))
        for name, (scores, labels) in found.items()
    }
    return Losses(sums, hits)
