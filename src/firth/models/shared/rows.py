"""Rows of a batch, and what is hidden in them: sequences with their special tokens one after another, the choice of
tokens, and the loss of predicting them; the rows of next-sentence prediction.

B rows, T tokens, P chosen tokens of a row.
"""

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.types import Batch, Losses, uniform
from firth.corpus.format import PackedRows, Split, cut_documents
from firth.models.shared.configs import MaskingConfig
from firth.tokenizers.pieces import Pieces

_NGRAM = 17  # what the random numbers here are for


@dataclass(frozen=True)
class Specials:
    """The ids that masking has to know."""

    cls_id: int
    sep_id: int
    mask_id: int
    pad_id: int
    ordinary: NDArray[np.int64]  # every id that may replace a token at random


def specials_of(pieces: Pieces, where: Path) -> Specials:
    """The special ids that masking needs, or a word about what is missing."""
    wanted = {"cls_id": pieces.cls_id, "sep_id": pieces.sep_id, "mask_id": pieces.mask_id, "pad_id": pieces.pad_id}
    missing = [name.removesuffix("_id") for name, number in wanted.items() if number is None]
    if missing:
        raise FirthError(
            f"{where}: its tokenizer has no token for {', '.join(missing)}, which this recipe needs; prepare the corpus with --tokens wordpiece"
        )
    ordinary = np.setdiff1d(np.arange(pieces.vocab_size), np.asarray(pieces.special_ids, np.int64))
    return Specials(ordinary=ordinary, **{name: int(number) for name, number in wanted.items() if number is not None})


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
    halves: list[tuple[int, int]] = field(
        default_factory=list
    )  # (row, block) of first halves; the second is the next block

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


def build_halves(split: Split, rows: PackedRows, turns: Turns, config: MaskingConfig, specials: Specials) -> Rows:
    """[CLS] half [SEP] [CLS] other half [SEP], cut at the word nearest to the middle; neither sees the other. A short sequence
    stays whole."""

    def write(writer: RowWriter, sequence: int, turn: int) -> None:
        start, length = int(rows.starts[sequence]), int(rows.lens[sequence])
        begins = np.flatnonzero(split.word_starts(start, start + length))
        begins = begins[(begins >= _SHORTEST_HALF) & (begins <= length - _SHORTEST_HALF)]
        if not len(begins):
            writer.add((start, length))
            return
        cut = int(begins[np.abs(begins - length / 2).argmin()])
        writer.add((start, cut))
        writer.rows.halves.append((writer.row, writer.block))
        writer.add((start + cut, length - cut))

    return fill_rows(split, rows, turns, config, specials, write)


_SHORTEST_HALF = 6  # tokens
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


_TARGET, _CUT, _FALSE, _OTHER, _PLACE, _TRIM = range(20, 26)  # what a random number is for
FOLLOWS, OTHER = 0, 1  # labels as published


class PairRows(PackedRows):
    """Chunks of sentences, packed into rows."""

    def __init__(self, split: Split, seq_len: int, short_prob: float, seed: int) -> None:
        self.room = seq_len - 3
        self.segments, _ = cut_documents(np.asarray(split.sentences), self.room)
        self.segments = np.append(self.segments, split.sentences[-1:])
        borders = np.searchsorted(self.segments, split.document_starts)
        self.document_segments = borders  # [N+1] where each document begins among the segments
        first, last, document = _chunks(self.segments, borders, self.room, short_prob, seed)
        self.chunk_first, self.chunk_last, self.chunk_document = first, last, document
        sizes = np.minimum(self.segments[last] - self.segments[first], self.room)
        super().__init__(self.segments[first], sizes, seq_len, 3, seed)
        if len(borders) < 3:
            raise FirthError(f"{split.folder}: pairs need at least two documents; prepare more text or set pairs=none")


def _chunks(
    segments: NDArray[np.int64], borders: NDArray[np.int64], room: int, short_prob: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(first segment, segment after the last, document) of each chunk."""
    starts = segments.tolist()
    chunks: list[tuple[int, int, int]] = []
    for document, (begin, end) in enumerate(zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)):
        draws = uniform(seed, _TARGET, document, np.arange(2 * (end - begin))).tolist()
        at = begin
        while at < end:
            short, size = draws[2 * (at - begin)], draws[2 * (at - begin) + 1]
            target = 2 + int(size * (room - 1)) if short < short_prob else room
            after = min(bisect.bisect_left(starts, starts[at] + target, at + 1, end), end)
            chunks.append((at, max(after, at + 1), document))
            at = chunks[-1][1]
    table = np.asarray(chunks, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def build_pairs(
    split: Split, rows: PairRows, turns: Turns, config: MaskingConfig, specials: Specials, kind: str
) -> Rows:
    """[CLS] A [SEP] B [SEP] of each chunk of each row, with the label of the pair; ``kind`` as of ``draw_pair``."""

    def write(writer: RowWriter, chunk: int, turn: int) -> None:
        if rows.chunk_last[chunk] - rows.chunk_first[chunk] == 1:
            writer.add((int(rows.starts[chunk]), int(rows.lens[chunk])))
            return
        draws = uniform(turns.seed, chunk, turn, np.arange(_CUT, _TRIM + 2)).tolist()
        label, parts = draw_pair(rows, chunk, kind, draws)
        writer.rows.pair_rows.append(writer.row)
        writer.rows.pair_columns.append(writer.add(*parts))
        writer.rows.pair_labels.append(label)

    return fill_rows(split, rows, turns, config, specials, write)


def draw_pair(rows: PairRows, chunk: int, kind: str, draws: list[float]) -> tuple[int, list[tuple[int, int]]]:
    """The label and (start, length) of both parts, together no longer than the chunk may be. A false pair is in the wrong
    order (``sentence_order``), or its second part is from elsewhere (``next_sentence``)."""
    cut, false, other, place, trim_a, trim_b = draws
    part_a, part_b = cut_chunk(rows, chunk, cut)
    label = FOLLOWS if false < 0.5 else OTHER
    if kind == "sentence_order" and label == OTHER:
        part_a, part_b = part_b, part_a
    elif label == OTHER:
        part_b = elsewhere(rows, chunk, part_a[1], other, place)
    return label, trim(part_a, part_b, int(rows.lens[chunk]), trim_a, trim_b)


def cut_chunk(rows: PairRows, chunk: int, cut: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """(start, length) of A and of the B that follows it."""
    first, last = int(rows.chunk_first[chunk]), int(rows.chunk_last[chunk])
    start, middle, end = (int(rows.segments[at]) for at in (first, first + 1 + int(cut * (last - first - 1)), last))
    return (start, middle - start), (middle, end - middle)


def elsewhere(rows: PairRows, chunk: int, len_a: int, other: float, place: float) -> tuple[int, int]:
    """Sentences of another document that could follow an A of this length."""
    borders = rows.document_segments
    num_documents = len(borders) - 1
    chosen = (int(rows.chunk_document[chunk]) + 1 + int(other * (num_documents - 1))) % num_documents
    return gather(rows, chunk, len_a, np.arange(borders[chosen], borders[chosen + 1]), place)


def gather(rows: PairRows, chunk: int, len_a: int, segments: NDArray[np.int64], place: float) -> tuple[int, int]:
    """(start, length) of some of these segments, whole and in a row, to follow an A of this length.

    If the chunk is too long for its row they are, too, and both are trimmed alike; else they have at most its length,
    as far as that can be. They begin anywhere where enough is left of the document.
    """
    room = int(rows.lens[chunk])
    wanted = room - len_a
    overflows = int(rows.segments[rows.chunk_last[chunk]] - rows.segments[rows.chunk_first[chunk]]) > room
    starts, ends = rows.segments[segments], rows.segments[segments + 1]
    fits = starts <= ends[-1] - wanted
    if not overflows:
        short = ends - starts <= wanted
        fits = fits & short if (fits & short).any() else short
    able = np.flatnonzero(fits) if fits.any() else np.arange(len(segments))
    first = int(able[int(place * len(able))])
    goal = int(starts[first]) + wanted
    last = np.searchsorted(ends, goal, "left") if overflows else np.searchsorted(ends, goal, "right") - 1
    return int(starts[first]), int(ends[min(max(int(last), first), len(ends) - 1)] - starts[first])


def trim(
    part_a: tuple[int, int], part_b: tuple[int, int], room: int, trim_a: float, trim_b: float
) -> list[tuple[int, int]]:
    """Takes from the longer part until both fit, some at its front, the rest at its back."""
    excess = max(part_a[1] + part_b[1] - room, 0)
    longer = min(excess, abs(part_a[1] - part_b[1]))
    from_a = (longer if part_a[1] > part_b[1] else 0) + (excess - longer) // 2
    cuts = (from_a, excess - from_a)
    return [
        (start + int(draw * (cut + 1)), length - cut)
        for (start, length), cut, draw in zip((part_a, part_b), cuts, (trim_a, trim_b), strict=True)
    ]
