"""Text as one long sequence with an end after each document or sentence; cut into streams that run side by side.

Place p of the sequence is predicted from place p - 1 (an end before the first). For training with carried
state the sequence is cut into B equal streams, and batch k is window k of every stream; all of it is a pure
function of the number, so what a reader carries from one batch to the next is all that has to be kept.

B streams, T places of a window.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.core.seeds import uniform
from firth.corpus.format import Split
from firth.corpus.word_view import TokenView

_WHOLE_PROB, _LEN_DEVIATION, _SHORTEST = 0.95, 5.0, 5


class TokenSequence:
    """The tokens of a split and an end behind each unit of text, addressed by place."""

    def __init__(self, split: Split, view: TokenView, unit: str) -> None:
        """``unit``: ``document`` or ``sentence``."""
        self.split, self.view = split, view
        self.starts = np.asarray(split.document_starts if unit == "document" else split.sentences)
        self.firsts = self.starts + np.arange(len(self.starts))  # where each unit begins in the sequence

    def __len__(self) -> int:
        return int(self.firsts[-1]) if len(self.firsts) else 0

    def take(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens at these places; before the first there is an end."""
        safe = np.maximum(places, 0)
        unit = np.searchsorted(self.firsts, safe, side="right") - 1
        at = self.starts[unit] + safe - self.firsts[unit]
        is_end = (at == self.starts[unit + 1]) | (places < 0)
        found = self.view.ids(self.split.tokens[np.where(is_end, 0, at)])
        return np.where(is_end, self.view.eos_id, found)


@dataclass(frozen=True)
class Window:
    """What is read and what comes next, [B, T]; labels are -1 beyond the end of the text."""

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    opens: bool  # the first window of an epoch: what was read before it is other text


def random_len(seq_len: int, *keys: ArrayLike) -> NDArray[np.int64]:
    """Lengths of windows (Merity et al. 2018, §5): about ``seq_len``, one in twenty about half of it, spread by a normal
    distribution of deviation 5, never below 5. A pure function of the keys."""
    middle = np.where(uniform(*keys, 0) < _WHOLE_PROB, seq_len, seq_len / 2)
    radius = np.sqrt(-2 * np.log(1 - uniform(*keys, 1)))  # Box and Muller (1958)
    found = middle + _LEN_DEVIATION * radius * np.cos(2 * np.pi * uniform(*keys, 2))
    return np.maximum(found.astype(np.int64), min(_SHORTEST, seq_len))


class Streams:
    """The windows of a sequence, epoch after epoch; ``len`` counts rows, one a stream and window (of the first epoch)."""

    def __init__(self, sequence: TokenSequence, num_streams: int, seq_len: int, random_seed: int | None = None) -> None:
        """With a ``random_seed`` windows have random lengths, others in every epoch."""
        self.sequence, self.num_streams, self.seq_len = sequence, num_streams, seq_len
        self.stream_len = -(-len(sequence) // num_streams)
        self.random_seed = random_seed
        self._borders: list[NDArray[np.int64]] = []
        self.num_windows = len(self._epoch(0)) - 1

    def __len__(self) -> int:
        return self.num_windows * self.num_streams

    def _epoch(self, epoch: int) -> NDArray[np.int64]:
        """Where the windows of an epoch begin and the last one ends; each epoch's are made once."""
        if self.random_seed is None:
            epoch = 0
        while len(self._borders) <= epoch:
            number = len(self._borders)
            most = np.arange(-(-self.stream_len // min(_SHORTEST, self.seq_len)))
            lens = (
                np.full(len(most), self.seq_len)
                if self.random_seed is None
                else random_len(self.seq_len, self.random_seed, number, most)
            )
            ends = np.cumsum(lens)
            self._borders.append(np.concatenate(([0], ends[ends < self.stream_len], [self.stream_len])))
        return self._borders[epoch]

    def _find(self, number: int) -> tuple[int, int]:
        """The epoch of a window and its place in it."""
        if self.random_seed is None:
            return divmod(number, self.num_windows)
        epoch = 0
        while number >= len(self._epoch(epoch)) - 1:
            number -= len(self._epoch(epoch)) - 1
            epoch += 1
        return epoch, number

    def window(self, number: int) -> Window:
        epoch, within = self._find(number)
        start, end = self._epoch(epoch)[within : within + 2].tolist()
        offsets = np.arange(start, end)
        places = np.arange(self.num_streams)[:, None] * self.stream_len + offsets
        inside = places < len(self.sequence)
        places = np.minimum(places, len(self.sequence) - 1)
        labels = np.where(inside, self.sequence.take(places), -1)
        return Window(self.sequence.take(places - 1), labels, within == 0)
