"""A model with a table of word vectors beside it: both read the same tokens.

A token's number holds both of its ids, the model's own in the lower half and the word's in the upper one, so that whatever
cuts, frames and pads rows of numbers need not know of it: special tokens and padding have no word (row 0, zeros).

B batch, T tokens, E width of the word vectors.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.types import Encoding, Inputs, Layers, Network, TextReader
from firth.models.shared.static import Lookup, StaticModel
from firth.nn.network import TokenNetwork

_SHIFT = 32


def join_ids(model_ids: NDArray[np.int64], word_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number a token."""
    return model_ids + (word_ids << _SHIFT)


class WithExtraVectors(TokenNetwork):
    """Layers come from the model alone; ``vectors`` are the words' own."""

    def __init__(self, base: Network, extra_vectors: Lookup) -> None:
        super().__init__()
        self.base = base
        self.extra_vectors = extra_vectors.requires_grad_(False)

    def forward(self, inputs: Inputs) -> Layers:
        return self.base(replace(inputs, ids=_own(inputs.ids)))

    def last(self, inputs: Inputs) -> torch.Tensor:
        return self.base.last(replace(inputs, ids=_own(inputs.ids)))

    def picked(self, inputs: Inputs, picks_BP: torch.Tensor) -> torch.Tensor:
        return self.base.picked(replace(inputs, ids=_own(inputs.ids)), picks_BP)

    def vectors(self, ids_BT: torch.Tensor) -> torch.Tensor:
        """[B, T, E]."""
        return self.extra_vectors.rows(ids_BT >> _SHIFT)


def _own(ids_BT: torch.Tensor) -> torch.Tensor:
    return ids_BT & ((1 << _SHIFT) - 1)


class ExtraVectors(NamedTuple):
    """Word vectors, and where they were read from."""

    vectors: StaticModel
    path: Path


def read_with_vectors(reader: TextReader, vectors: StaticModel) -> TextReader:
    """The reader with a word's vector for each of its tokens; the vectors do not learn."""
    words = vectors.reader()
    assert isinstance(words.module, Lookup)

    def tokenize(text: str | list[str]) -> Encoding:
        found = reader.tokenize(text)
        spelt = words.tokenize(_spelt(found, text)).ids
        return replace(found, ids=join_ids(found.ids, spelt[np.cumsum(_first(found.words)) - 1]))

    module = WithExtraVectors(reader.module, words.module)
    return replace(reader, module=module, tokenize=tokenize, pooler=None, extra_dim=vectors.dim)


def _first(words_T: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a word begins."""
    found = np.ones(len(words_T), np.bool_)
    found[1:] = words_T[1:] != words_T[:-1]
    return found


def _spelt(encoding: Encoding, text: str | list[str]) -> list[str]:
    """The words that tokens belong to, as they stand in the text."""
    starts = np.flatnonzero(_first(encoding.words)).tolist()
    if isinstance(text, list):
        return [text[int(encoding.words[start])] for start in starts]
    ends = [*starts[1:], len(encoding.words)] if starts else []
    return [
        text[int(encoding.offsets[start, 0]) : int(encoding.offsets[end - 1, 1])].strip()
        for start, end in zip(starts, ends, strict=True)
    ]
