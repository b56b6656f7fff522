"""Text read in lanes: side by side, each lane goes on where it stopped in the batch before.

The sentences of a split, documents in the order of the epoch, form one long text that is cut into equal
lanes; batch k is window k of every lane. A sentence of n words has n + 1 places: at each there is a word
that is read and one that comes next, the borders of the sentence among them. A window is a pure function
of its number, so what a reader carries from one to the next is all that has to be kept.

B lanes, T places of a window.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.core.seeds import generator
from firth.corpus.format import Split
from firth.corpus.rows import each_epoch

_ORDER = 31  # what the random numbers here are for


@dataclass(frozen=True)
class Window:
    """All [B, T]: the sentence at each place (where it starts among the tokens, how many words it has), the
    place within it, and whether there is text at all (lanes differ by a place at their ends)."""

    starts: NDArray[np.int64]
    lens: NDArray[np.int64]
    places: NDArray[np.int64]
    live: NDArray[np.bool_]
    opens: bool  # the first window of an epoch: what comes before it is other text


class Lanes:
    """The windows of a split, epoch after epoch."""

    def __init__(self, split: Split, num_lanes: int, seq_len: int, seed: int) -> None:
        self.seed, self.num_lanes, self.seq_len = seed, num_lanes, seq_len
        self.sentences = np.asarray(split.sentences)
        self.documents = np.asarray(split.documents)
        self.num_places = int(self.sentences[-1]) + len(self.sentences) - 1 if len(self.sentences) > 1 else 0
        self.borders = np.arange(num_lanes + 1) * self.num_places // num_lanes
        self.num_windows = -(-int(np.diff(self.borders).max()) // seq_len)
        self._order = each_epoch(self._draw_order)

    def __len__(self) -> int:
        return self.num_windows * self.num_lanes

    def _draw_order(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sentences in their order, and the place where each begins."""
        documents = generator(self.seed, _ORDER, epoch).permutation(len(self.documents) - 1)
        counts = np.diff(self.documents)[documents]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        order = np.repeat(self.documents[:-1][documents], counts) + within
        sizes = np.diff(self.sentences)[order] + 1
        return order, np.cumsum(sizes) - sizes

    def window(self, number: int) -> Window:
        epoch, within = divmod(number, self.num_windows)
        order, begins = self._order(epoch)
        places = self.borders[:-1, None] + within * self.seq_len + np.arange(self.seq_len)
        live = places < self.borders[1:, None]
        places = np.minimum(places, self.num_places - 1)
        at = np.searchsorted(begins, places, side="right") - 1
        sentence = order[at]
        starts = self.sentences[sentence]
        return Window(starts, self.sentences[sentence + 1] - starts, places - begins[at], live, within == 0)
