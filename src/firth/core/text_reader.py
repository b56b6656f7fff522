"""How a task reads text through any representation: tokens in, ``Layers`` out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import nn

    from firth.core.types import Encoding


@dataclass(frozen=True)
class Frame:
    """Ids of the special tokens around a text, and between the two of a pair. They are of the segment of the text that
    they stand at, but the very last one may have a ``last_segment`` of its own (XLNet's [CLS])."""

    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    last_segment: int | None = None

    def size(self, pair: bool) -> int:
        return len(self.before) + len(self.after) + (len(self.between) if pair else 0)


@dataclass(frozen=True)
class TextReader:
    """A representation seen from a task.

    ``module(ids_BT, blocks_BT, positions_BT, segments_BT)`` gives ``Layers`` and ``module.last(...)`` the last layer,
    both with gradients; ids may have further axes (characters of words). ``tokenize`` adds no special tokens.
    """

    kind: str
    module: nn.Module
    tokenize: Callable[[str | list[str]], Encoding]
    dim: int
    num_layers: int  # the token layer counts
    max_len: int | None  # tokens that fit into one row, special ones included; none: any number
    frame: Frame = field(default_factory=Frame)
    pad_id: int = 0
    summary: Literal["first", "last", "mean"] = "mean"  # where the meaning of a whole text is found
    joins_pairs: bool = False  # whether two texts are read as one row
    pooler: nn.Module | None = None  # learned with the model, over its first token
    beside_dim: int = 0  # width of word vectors beside the model's own, which ``module.vectors(ids_BT)`` then gives
