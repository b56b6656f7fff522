"""The types that the packages exchange. Torch is imported here only for the type checker.

B batch, T tokens, D hidden size, L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, Required, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import nn


Array = NDArray[Any]  # where the dtype is known only at run time, as in a file of named arrays
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Encoding:
    """Token ids with their place in the *original* text and the word each belongs to.

    ``words`` is -1 for tokens that stand for no text ([CLS], [SEP]).
    """

    ids: NDArray[np.int64]
    offsets: NDArray[np.int64]  # [T, 2], characters of the original text
    words: NDArray[np.int64]  # [T]
    tokens: list[str]
    segments: NDArray[np.int64]  # [T], 0 or 1


@dataclass(frozen=True)
class Inputs:
    """What a network reads. Rows may be packed: several sequences in one row, distinguished by ``doc_ids``, each with
    positions of its own. What a network has no use for it passes over."""

    ids: torch.Tensor  # [B, T]
    doc_ids: torch.Tensor | None = None  # [B, T]: equal numbers see each other, 0 is padding; none: a document per row
    positions: torch.Tensor | None = None  # [B, T]; none: from 0 in every row
    segments: torch.Tensor | None = None  # [B, T]; none: all 0
    order: torch.Tensor | None = None  # [B, T]: token i sees token j only where order[j] <= order[i]; none: all see all
    alone: torch.Tensor | None = None  # [B, T]: with an order, true where a token is seen by itself only
    tasks: torch.Tensor | None = None  # [B, T]: what the sequence is read for (ERNIE 2.0); none: all 0

    @classmethod
    def of(cls, tensors: Mapping[str, torch.Tensor]) -> Inputs:
        """Those of a batch, which has them by these names."""
        return cls(**{part.name: tensors[part.name] for part in fields(cls) if part.name in tensors})

    @property
    def mask(self) -> torch.Tensor:
        """[B, T], true where there is a token."""
        import torch

        return torch.ones_like(self.ids, dtype=torch.bool) if self.doc_ids is None else self.doc_ids > 0


@dataclass(frozen=True)
class Layers:
    """What any network returns. Layer 0 is the token layer."""

    hidden: torch.Tensor  # [L+1, B, T, D]
    mask: torch.Tensor  # [B, T], true where there is a token

    @property
    def last(self) -> torch.Tensor:
        return self.hidden[-1]


class Network(Protocol):
    """From ids to layers: what all networks have in common. An nn.Module; ``nn/layers.py`` has
    a base class that says everything but ``forward``."""

    training: bool

    def __call__(self, inputs: Inputs) -> Layers:
        """Every layer, for features, probes and mixes."""
        ...

    def last(self, inputs: Inputs) -> torch.Tensor:
        """The last layer only, [B, T, D]."""
        ...

    def picked(self, inputs: Inputs, picks_BP: torch.Tensor) -> torch.Tensor:
        """The last layer at some tokens of each row only, [B, P, D]."""
        ...

    @property
    def can_pack(self) -> bool:
        """Whether ``packed`` is possible, so that padding costs nothing."""
        ...

    def packed(self, inputs: Inputs, lens: Sequence[int]) -> Iterator[torch.Tensor]:
        """The layers, one after another as they are computed, [N, D], of sequences that stand end to end: ids and
        segments are [N]. What the network gives for each sequence by itself."""
        ...

    def parameters(self, recurse: bool = True) -> Iterator[torch.nn.Parameter]: ...

    def state_dict(self) -> dict[str, torch.Tensor]: ...

    def train(self, mode: bool = True) -> object: ...

    def eval(self) -> object: ...


@dataclass(frozen=True)
class Batch:
    """Arrays for one step, and how many things each loss will count in them."""

    arrays: Mapping[str, Array]
    counts: Mapping[str, int]
    num_tokens: int
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    rate: float = 1.0  # the step learns so much faster or slower than usual
    counted: bool = True  # false: read only because other processes wait for this one

    def to(self, device: str) -> Batch:
        """The same batch with its arrays as tensors on the device."""
        import torch

        tensors = {
            name: torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)
            for name, array in self.arrays.items()
        }
        return Batch(self.arrays, self.counts, self.num_tokens, tensors, self.rate, self.counted)


@dataclass(frozen=True)
class Losses:
    """Named sums of loss; with the counts of the batch they become means over any number of
    batches and machines. ``metrics`` are further sums over the same counts (hits, say)."""

    sums: Mapping[str, torch.Tensor]
    metrics: Mapping[str, tuple[float, float]] = field(default_factory=dict)


class SizedRows(Protocol):
    """The rows of one pass over a split."""

    def __len__(self) -> int: ...


class Objective(Protocol):
    """What is predicted from what: an nn.Module with the heads it needs."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Of each named loss in the sum."""
        ...

    def rows(self, split: Any, seed: int) -> Any:
        """The rows of an epoch (``SizedRows``), as this objective cuts them."""
        ...

    def batch(self, split: Any, rows: Any, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        ...

    def loss(self, model: Any, batch: Batch) -> Losses: ...


class Trainable(Protocol):
    """What the loop trains: parameters, pure batches by number, their loss, and a test."""

    module: torch.nn.Module
    weights: Mapping[str, float]  # of each named loss in the sum
    rate_factors: Mapping[str, float]  # by parameter: how much faster or slower than the rest it learns; often empty

    def enough(self) -> bool:
        """Whether training may end before its time (asked after every step)."""
        ...

    def batch(self, number: int) -> Batch:
        """The batch of that number: a pure function, so that resuming is exact."""
        ...

    def loss(self, batch: Batch) -> Losses: ...

    def evaluate(self) -> dict[str, float]:
        """Metrics on held-out text; ``loss``, if there is one, is to become small. Empty without such text."""
        ...


class Entity(TypedDict, total=False):
    """A named span that a tagger found."""

    type: Required[str]
    text: Required[str]
    start: int  # characters of the text
    end: int
    probability: float


class AnswerCandidate(TypedDict):
    """A span of a passage that may be the answer."""

    answer: str
    start: int
    end: int
    probability: float


class Prediction(TypedDict, total=False):
    """What a task predicts for one example; each kind of task has its own keys."""

    text: str  # what was read, where it comes from a file
    second: str
    question: str
    label: str | None  # classify; none: a label that was written but does not exist, or one that is not sure enough
    labels: list[str]  # classify, where a text may have several
    probabilities: dict[str, float]
    score: float  # score, answer
    words: list[str]  # tag
    tags: Sequence[str | None]  # none: as for labels
    entities: list[Entity]
    id: str  # answer
    answer: str
    start: int
    end: int
    no_answer_score: float
    best: list[AnswerCandidate]
    written: str  # write
    unknown: float  # the share of tokens that the model does not know


Event: TypeAlias = Mapping[str, Any]
"""What happened during a long run: ``event`` names its kind, the other keys depend on that."""
Progress = Callable[[Event], None]
"""Called with each event."""


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
    """A representation seen from a task: what makes tokens of texts, and the network that reads these, with gradients.
    ``tokenize`` adds no special tokens."""

    kind: str
    module: Network
    tokenize: Callable[[str | list[str]], Encoding]
    dim: int
    num_layers: int  # the token layer counts
    max_len: int | None  # tokens that fit into one row, special ones included; none: any number
    frame: Frame = field(default_factory=Frame)
    pad_id: int = 0
    summary: Literal["cls", "last", "mean"] = "mean"  # where the meaning of a whole text is found
    joins_pairs: bool = False  # whether two texts are read as one row
    pooler: nn.Module | None = None  # learned with the model, over its first token
    pooler_activation: str = "tanh"  # of one that is new
    tokenize_all: Callable[[Sequence[str]], list[NDArray[np.int64]]] | None = None  # the ids of many texts at once
    unk_id: int | None = None  # of what it does not know; none: it knows everything
    extra_dim: int = 0  # width of word vectors in addition to the model's own (``WithExtraVectors``)
