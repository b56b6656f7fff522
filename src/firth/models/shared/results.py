"""What models answer with: layers, attention, guesses, translations.

L layers, H heads, T tokens, S source tokens, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SHOWN = 8  # tokens of a text in a repr


@dataclass(frozen=True)
class TextLayers:
    """Every layer for every token of one text."""

    tokens: list[str]
    offsets: NDArray[np.int64]  # [T, 2], characters of the text
    words: NDArray[np.int64]  # [T]
    hidden: NDArray[np.float32]  # [L+1, T, D]

    def __repr__(self) -> str:
        layers, _, dim = self.hidden.shape
        return f"<layers of {_shown(self.tokens)}: {layers} x {len(self.tokens)} x {dim}>"


@dataclass(frozen=True)
class Attention:
    """Where every token of a text, or of two read together, looks: each row of ``weights`` sums to one."""

    tokens: list[str]
    offsets: NDArray[np.int64]  # [T, 2], characters of the text that the token is of
    weights: NDArray[np.float32]  # [L, H, T, T], from (row) to (column)

    def __repr__(self) -> str:
        layers, heads, size, _ = self.weights.shape
        return f"<attention of {_shown(self.tokens)}: {layers} layers, {heads} heads, {size} x {size}>"


@dataclass(frozen=True, repr=False)
class AttentionMaps(Attention):
    """That of the source (a recurrent model has none: no layers), of the target, and between them: row t of
    ``between`` is what was looked at to write target token t."""

    target_tokens: list[str]
    between: NDArray[np.float32]  # [L, H, T, S]
    target: NDArray[np.float32] | None  # [L, H, T, T]; a recurrent model has none

    def __repr__(self) -> str:
        both = f"{_shown(self.tokens)} by {_shown(self.target_tokens)}"
        layers, heads, rows, columns = self.between.shape
        return f"<attention of {both}: {layers} layers, {heads} heads, {rows} x {columns}>"

    @property
    def source_tokens(self) -> list[str]:
        return self.tokens

    @property
    def source(self) -> NDArray[np.float32] | None:
        """[L, H, S, S]; a recurrent model has none."""
        return self.weights if len(self.weights) else None

    @property
    def alignment(self) -> NDArray[np.float32]:
        """[T, S]: the mean of all layers and heads between target and source."""
        found: NDArray[np.float32] = self.between.mean((0, 1))
        return found


def _shown(tokens: Sequence[str]) -> str:
    """Some tokens, for people."""
    return f"{len(tokens)} tokens [{' '.join(tokens[:_SHOWN])}{' ...' if len(tokens) > _SHOWN else ''}]"


@dataclass(frozen=True)
class Guess:
    """A token for a masked place."""

    token: str
    probability: float
    text: str  # the whole text with the guess in its place


@dataclass(frozen=True)
class Translated:
    """A translation; ``score`` is log p, ``normalised`` what candidates are ranked by."""

    text: str
    score: float
    normalised: float


@dataclass(frozen=True)
class PromptedLabel:
    """The likeliest label, and the probability of each among those that the examples have."""

    label: str
    probabilities: dict[str, float]
