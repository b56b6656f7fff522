"""The text in pieces: units that windows stay within, chunks that a thread takes, legs between
which a checkpoint may be written. All a pure function of the corpus and the settings."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from firth.corpus.format import Corpus

MAX_UNIT = 10_000  # tokens; a longer document is cut, as gensim does


def unit_starts(corpus: Corpus, unit: str) -> NDArray[np.int64]:
    """Where each document or sentence begins among the tokens, long ones cut; the end comes last."""
    split = corpus.train
    starts = np.asarray(split.document_starts if unit == "document" else split.sentences, np.int64)
    long = np.flatnonzero(np.diff(starts) > MAX_UNIT)
    cuts = [np.arange(starts[one] + MAX_UNIT, starts[one + 1], MAX_UNIT) for one in long]
    return np.unique(np.concatenate([starts, *cuts])) if cuts else np.unique(starts)


@dataclass(frozen=True)
class Plan:
    """Chunks of whole units, about equal in tokens, gathered into legs, for every epoch alike."""

    starts: NDArray[np.int64]
    chunk_tokens: int
    chunks_per_leg: int
    epochs: int

    @cached_property
    def borders(self) -> NDArray[np.int64]:
        """[chunks+1] the unit each chunk begins with."""
        tokens = int(self.starts[-1])
        wanted = np.arange(0, tokens, self.chunk_tokens)
        first = np.unique(np.searchsorted(self.starts, wanted))
        first = first[first < len(self.starts) - 1]
        return np.append(first, len(self.starts) - 1)

    @property
    def num_tokens(self) -> int:
        return int(self.starts[-1])

    @property
    def num_chunks(self) -> int:
        return len(self.borders) - 1

    @property
    def legs_per_epoch(self) -> int:
        return -(-self.num_chunks // self.chunks_per_leg)

    @property
    def num_legs(self) -> int:
        return self.epochs * self.legs_per_epoch

    def leg(self, number: int) -> tuple[int, range]:
        """The epoch of a leg and its chunks."""
        epoch, place = divmod(number, self.legs_per_epoch)
        first = place * self.chunks_per_leg
        return epoch, range(first, min(first + self.chunks_per_leg, self.num_chunks))

    def tokens_before(self, number: int) -> int:
        """How many tokens all legs before this one read."""
        epoch, place = divmod(number, self.legs_per_epoch)
        return epoch * self.num_tokens + int(self.starts[self.borders[place * self.chunks_per_leg]])
