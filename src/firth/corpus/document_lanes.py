"""Documents one after another as a stream, cut into lanes that are read side by side.

A model that remembers what it read must be given the text in order. So the stream is cut into as many
lanes as a step has rows; row r of step s is piece s of lane r, and the next step goes on where this one
ended. In every epoch the documents stand in a new order, a pure function of (seed, epoch).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import generator
from firth.corpus.format import Split
from firth.corpus.rows import each_epoch


class Place(NamedTuple):
    """A row of the endless sequence: which lane, which piece of it, in which epoch."""

    lane: int
    piece: int
    epoch: int


class Piece(NamedTuple):
    """A stretch of the stream."""

    ids: NDArray[np.int64]
    documents: NDArray[np.int64]  # 0, 1, ... for each token, counted from the start of the stretch
    added: NDArray[np.bool_]  # special tokens that end a document


class DocumentLanes:
    """``len`` rows an epoch: ``num_lanes`` times as many as each lane has pieces."""

    def __init__(self, split: Split, seq_len: int, num_lanes: int, endings: tuple[int, ...], seed: int) -> None:
        """``endings`` are the special tokens after each document."""
        self.split, self.seq_len, self.num_lanes, self.seed = split, seq_len, num_lanes, seed
        self.endings = np.asarray(endings, np.int64)
        self.starts = np.asarray(split.document_starts)
        self.lens = np.diff(self.starts) + len(endings)
        self.num_tokens = int(self.lens.sum())
        self.pieces_per_lane = -(-self.num_tokens // (num_lanes * seq_len))
        self._layout = each_epoch(self._draw_layout)

    def __len__(self) -> int:
        return self.num_lanes * self.pieces_per_lane

    def places(self, first: int, count: int) -> list[Place]:
        """Of ``count`` rows from row ``first`` of the endless sequence of epochs."""
        found = []
        for number in range(first, first + count):
            step, lane = divmod(number, self.num_lanes)
            epoch, piece = divmod(step, self.pieces_per_lane)
            found.append(Place(lane, piece, epoch))
        return found

    def read(self, place: Place, backward: bool = False) -> Piece:
        """At most ``seq_len`` tokens, fewer where the stream ends; backward: the lane from its end, each
        piece turned round."""
        lane_len = self.pieces_per_lane * self.seq_len
        begin = place.lane * lane_len
        end = min(begin + lane_len, self.num_tokens)
        if backward:
            stop = end - place.piece * self.seq_len
            piece = self.stretch(place.epoch, max(stop - self.seq_len, begin), stop)
            return Piece(piece.ids[::-1], piece.documents[::-1], piece.added[::-1])
        start = begin + place.piece * self.seq_len
        return self.stretch(place.epoch, start, min(start + self.seq_len, end))

    def stretch(self, epoch: int, begin: int, end: int) -> Piece:
        """Tokens ``begin`` to ``end`` of an epoch's stream."""
        order, borders = self._layout(epoch)
        size = max(end - begin, 0)
        ids = np.empty(size, np.int64)
        documents = np.empty(size, np.int64)
        added = np.zeros(size, np.bool_)
        number = int(np.searchsorted(borders, begin, side="right")) - 1
        at = 0
        while at < size:
            document = int(order[number])
            inside = begin + at - int(borders[number])
            text_len = int(self.lens[document]) - len(self.endings)
            whole = min(int(self.lens[document]) - inside, size - at)
            text = max(min(text_len - inside, whole), 0)
            start = int(self.starts[document]) + inside
            ids[at : at + text] = self.split.tokens[start : start + text]
            skip = max(inside - text_len, 0)
            ids[at + text : at + whole] = self.endings[skip : skip + whole - text]
            added[at + text : at + whole] = True
            documents[at : at + whole] = number
            at, number = at + whole, number + 1
        return Piece(ids, documents - documents[:1] if size else documents, added)

    def _draw_layout(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The order of the documents, and where each begins in the stream."""
        order = generator(self.seed, 3, epoch).permutation(len(self.lens))
        return order, np.concatenate(([0], np.cumsum(self.lens[order])))
