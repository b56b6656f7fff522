"""Rows of a batch before anything is hidden: sequences with their special tokens, one after another.

B rows, T tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import uniform
from firth.corpus.format import Split
from firth.corpus.rows import PackedRows
from firth.models.shared.configs import MaskingConfig

_NGRAM = 17  # what the random numbers here are for


@dataclass(frozen=True)
class Specials:
    """The ids that masking has to know."""

    cls_id: int
    sep_id: int
    mask_id: int
    pad_id: int
    ordinary: NDArray[np.int64]  # every id that may replace a token at random


@dataclass(frozen=True)
class Turns:
    """Which rows a batch takes, and which of its masks each wears; ``key`` names both to a random number."""

    numbers: NDArray[np.int64]
    turns: NDArray[np.int64]
    seed: int

    @classmethod
    def of(cls, rows: PackedRows, config: MaskingConfig, seed: int, first: int, count: int) -> "Turns":
        """Rows ``first`` to ``first + count`` of the endless sequence of epochs."""
        numbers, epochs = rows.numbers(first, count)
        return cls(numbers, epochs % config.dupe_factor if config.dupe_factor else epochs, seed)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.seed, self.numbers[:, None], self.turns[:, None]


@dataclass
class Rows:
    """All [B, T]; pairs are listed apart."""

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    blocks: NDArray[np.int64]  # 1, 2, ... for the sequences of a row; 0 is padding
    segments: NDArray[np.int64]  # 0 or 1
    units: NDArray[np.int64]  # what is chosen as one: token, word or n-gram; -1 where nothing may be chosen
    pair_rows: list[int] = field(default_factory=list)  # where the [CLS] of each pair stands, and its label
    pair_columns: list[int] = field(default_factory=list)
    pair_labels: list[int] = field(default_factory=list)

    @property
    def used(self) -> int:
        """How many columns hold a token of any row."""
        return int(np.flatnonzero(self.blocks.any(axis=0))[-1]) + 1

    @property
    def num_tokens(self) -> int:
        return int((self.blocks > 0).sum())

    @classmethod
    def empty(cls, num_rows: int, seq_len: int, pad_id: int) -> "Rows":
        shape = (num_rows, seq_len)
        return cls(
            ids=np.full(shape, pad_id),
            positions=np.zeros(shape, np.int64),
            blocks=np.zeros(shape, np.int64),
            segments=np.zeros(shape, np.int64),
            units=np.full(shape, -1),
        )


@dataclass
class RowWriter:
    """Fills one row, sequence by sequence."""

    rows: Rows
    split: Split
    config: MaskingConfig
    specials: Specials
    row: int
    keys: tuple[int, ...]  # of the row's random numbers
    at: int = 0
    unit: int = 0
    block: int = 0

    def add(self, *parts: tuple[int, int]) -> int:
        """[CLS] part [SEP] part [SEP] for parts given as (start, length); returns the place of [CLS]."""
        rows, row = self.rows, self.row
        begin = self.at
        self.block += 1
        rows.ids[row, begin] = self.specials.cls_id
        at = begin + 1
        for segment, (start, length) in enumerate(parts):
            end = at + length
            rows.ids[row, at:end] = self.split.tokens[start : start + length]
            rows.ids[row, end] = self.specials.sep_id
            rows.segments[row, at : end + 1] = segment
            units = self._units(start, length)
            rows.units[row, at:end] = self.unit + units
            self.unit += int(units[-1]) + 1 if length else 0
            at = end + 1
        rows.positions[row, begin:at] = np.arange(at - begin)
        rows.blocks[row, begin:at] = self.block
        self.at = at
        return begin

    def _units(self, start: int, length: int) -> NDArray[np.int64]:
        if not (self.config.whole_word_mask or self.config.max_ngram > 1):
            return np.arange(length)
        begins = self.split.word_starts(start, start + length)
        begins[:1] = True
        words = np.cumsum(begins) - 1
        return words if self.config.max_ngram == 1 else self._ngrams(int(words[-1]) + 1)[words]

    def _ngrams(self, num_words: int) -> NDArray[np.int64]:
        """Neighbouring words joined at random, n of them with a chance that falls linearly with n
        (for four: 40, 30, 20, 10 %, as Cui et al. 2020)."""
        size = self.config.max_ngram
        chances = np.cumsum(np.arange(size, 0, -1) / (size * (size + 1) / 2))
        draws = np.searchsorted(chances, uniform(*self.keys, _NGRAM, self.unit + np.arange(num_words)), side="right")
        group = np.empty(num_words, np.int64)
        at = number = 0
        while at < num_words:
            end = at + int(min(draws[at], size - 1)) + 1
            group[at:end] = number
            at, number = end, number + 1
        return group


def fill_rows(
    split: Split,
    rows: PackedRows,
    turns: Turns,
    config: MaskingConfig,
    specials: Specials,
    write: Callable[[RowWriter, int, int], None],
) -> Rows:
    """These rows; ``write(writer, sequence, turn)`` adds each sequence of a row to it."""
    out = Rows.empty(len(turns.numbers), config.seq_len, specials.pad_id)
    for place, (row, turn) in enumerate(zip(turns.numbers.tolist(), turns.turns.tolist(), strict=True)):
        writer = RowWriter(out, split, config, specials, place, (turns.seed, row, turn))
        for sequence in rows.sequences(row).tolist():
            write(writer, sequence, turn)
    return out


def build_rows(split: Split, rows: PackedRows, turns: Turns, config: MaskingConfig, specials: Specials) -> Rows:
    """[CLS] sequence [SEP], one after another, positions from 0 in each."""

    def write(writer: RowWriter, sequence: int, turn: int) -> None:
        writer.add((int(rows.starts[sequence]), int(rows.lens[sequence])))

    return fill_rows(split, rows, turns, config, specials, write)
