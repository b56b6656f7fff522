"""Pairs of segments: does B follow A? (Devlin et al. 2018, 3.1 and A.2); or: are they in order? (Lan et al. 2019)

A document's sentences are gathered into chunks that fill the length (one in ten aims at a shorter
one); a chunk is cut between two sentences into A and B. Half of the time B is replaced by sentences of
another document, or, for sentence order, A and B change places. Both kinds are whole sentences that are
trimmed by the same rule, so that lengths and ends hardly tell them apart. Nothing crosses the border of a
document. Departures: chunks are fixed and only what is drawn from them changes with the epoch;
a chunk of one sentence is used for masked tokens alone, so that the halves stay equal; sentences
longer than a row are cut instead of cut off.
"""

import bisect

import numpy as np
from numpy.typing import NDArray

from firth.core.batching import uniform
from firth.core.errors import FirthError
from firth.corpus.format import PackedRows, Split, cut_documents
from firth.models.shared.configs import MaskingConfig
from firth.models.shared.rows import Rows, RowWriter, Specials, Turns, fill_rows

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
