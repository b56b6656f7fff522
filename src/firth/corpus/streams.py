"""Text as one long sequence with an end after each document or sentence; cut into streams that run side by side.

Place p of the sequence is predicted from place p - 1 (an end before the first). For training with carried
state the sequence is cut into B equal streams, and batch k is window k of every stream; all of it is a pure
function of the number, so what a reader carries from one batch to the next is all that has to be kept.

B streams, T places of a window.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.corpus.format import Split
from firth.corpus.word_view import TokenView


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


class Streams:
    """The windows of a sequence, epoch after epoch; ``len`` counts rows, one a stream and window."""

    def __init__(self, sequence: TokenSequence, num_streams: int, window_len: int) -> None:
        self.sequence, self.num_streams, self.window_len = sequence, num_streams, window_len
        self.stream_len = -(-len(sequence) // num_streams)
        self.num_windows = -(-self.stream_len // window_len)

    def __len__(self) -> int:
        return self.num_windows * self.num_streams

    def window(self, number: int) -> Window:
        within = number % self.num_windows
        start = within * self.window_len
        offsets = np.arange(start, min(start + self.window_len, self.stream_len))
        places = np.arange(self.num_streams)[:, None] * self.stream_len + offsets
        inside = places < len(self.sequence)
        places = np.minimum(places, len(self.sequence) - 1)
        labels = np.where(inside, self.sequence.take(places), -1)
        return Window(self.sequence.take(places - 1), labels, within == 0)
