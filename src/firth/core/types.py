"""The types that the packages exchange. Torch is imported here only for the type checker.

B batch, T tokens, D hidden size, L layers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol, Required, TypeAlias, TypedDict, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.core.errors import FirthError

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

    def __post_init__(self) -> None:
        note_computing()

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
    where: str  # its place in the file, in the texts of a pool
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


class _NoNetwork:
    """Stands where nothing is read by a network."""

    training, can_pack = False, False


def _no_tokens(text: str | list[str]) -> Encoding:
    nothing = np.zeros(0, np.int64)
    return Encoding(nothing, nothing.reshape(0, 2), nothing, [], nothing)


NO_READER = TextReader("nothing", cast("Network", _NoNetwork()), _no_tokens, 0, num_layers=1, max_len=None)
"""Of a task that counts."""


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
BATCH_TOKENS = 4096  # tokens that a trained model reads at a time

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


# -- slices

SLICE_STEPS = 64  # of a recurrent network

_between: ContextVar[Callable[[], None] | None] = ContextVar("between_slices", default=None)


@contextmanager
def in_slices(between: Callable[[], None] | None) -> Iterator[None]:
    """While this is open, ``between`` is called in this thread after each slice of work: a batch, a step of a search, some
    steps of a recurrent network. It may do other work meanwhile, or raise an exception to stop."""
    before = _between.set(between)
    try:
        yield
    finally:
        _between.reset(before)


def between_slices() -> None:
    """Called by long work at moments when it may be interrupted."""
    between = _between.get()
    if between is not None:
        between()


class Batches(list[Ints]):
    """The numbers of the sequences of each batch; a slice of work lies between two of them."""

    def __iter__(self) -> Iterator[Ints]:
        for batch in super().__iter__():
            between_slices()
            yield batch


def _finish(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def hashed(*keys: ArrayLike) -> NDArray[np.uint64]:
    """64 well-mixed bits for each combination of the keys (arrays broadcast)."""
    with np.errstate(over="ignore"):
        state = np.zeros((), np.uint64)
        for key in keys:
            state = _finish(state + _GOLDEN + np.asarray(key).astype(np.uint64))
    return np.asarray(state, np.uint64)


def uniform(*keys: ArrayLike) -> NDArray[np.float64]:
    """A uniform number in [0, 1) for each combination of the keys."""
    return (hashed(*keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


Real = TypeVar("Real", np.float32, np.float64)


def softmax(scores: NDArray[Real]) -> NDArray[Real]:
    """Over the last axis, in the precision of the scores."""
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(shares / shares.sum(-1, keepdims=True))


def unit_rows(vectors: Floats) -> Floats:
    """Rows of length 1; zeros stay."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms), np.float32)


def generator(*keys: int) -> np.random.Generator:
    """A NumPy generator seeded by the keys."""
    return np.random.Generator(np.random.Philox(key=int(hashed(*keys))))


def cut_batches(
    lens: Sequence[int] | Ints,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    *,
    padded: bool = True,
    equal: bool = False,
) -> Ints:
    """Borders [M+1] of batches among sequences of these lengths, in their order.

    A batch takes sequences for as long as it has at most ``max_rows`` of them and at most ``max_tokens`` tokens (unless
    one sequence alone has more). ``padded``: every row counts as long as the longest. ``equal``: lengths are the same.
    """
    assert max_tokens is None or max_tokens > 0
    assert max_rows is None or max_rows > 0
    sizes: list[int] = np.asarray(lens, np.int64).tolist()
    borders, longest, total = [0], 0, 0
    for place, size in enumerate(sizes):
        first = borders[-1]
        num_rows, longest, total = place - first + 1, max(longest, size), total + size
        full = max_rows is not None and num_rows > max_rows
        full |= max_tokens is not None and (num_rows * longest if padded else total) > max_tokens
        full |= equal and size != sizes[first]
        if full and num_rows > 1:
            borders.append(place)
            longest = total = size
    return np.asarray([*borders, len(sizes)] if sizes else borders, np.int64)


def batches_by_length(
    lens: Sequence[int] | Ints,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    *,
    longest_first: bool = False,
    padded: bool = True,
    equal: bool = False,
) -> Batches:
    """The numbers of the sequences of each batch, in order of length; limits as of ``cut_batches``.

    ``longest_first`` for what needs much memory, so that a lack of it shows at once.
    """
    lens_N = np.asarray(lens, np.int64)
    order = np.argsort(-lens_N if longest_first else lens_N, kind="stable")
    borders = cut_batches(lens_N[order], max_tokens, max_rows, padded=padded, equal=equal)
    return Batches(order[first:last] for first, last in pairwise(borders.tolist()))


def pad(rows: Sequence[Ints], pad_id: int = 0) -> tuple[Ints, Ints]:
    """Rows as an array [B, T], filled up at their ends, and 1 where there is a token."""
    lens_B = np.asarray([len(row) for row in rows])
    mask_BT = (np.arange(lens_B.max()) < lens_B[:, None]).astype(np.int64)
    ids_BT = np.full(mask_BT.shape, pad_id, np.int64)
    ids_BT[mask_BT > 0] = np.concatenate(rows)
    return ids_BT, mask_BT


# -- after a fork

_computed: set[int] = set()  # threads of this process in which networks have computed
_refused = False
FORKED = (
    "this process was forked from one in which {who}, and may wait here without end: "
    "start workers with the spawn method (multiprocessing.get_context('spawn')), or fork before the first use of a model"
)


def note_computing() -> None:
    """Called by every network before it computes. After a fork PyTorch's matrix routines (MKL) may wait for threads that
    are not there any more: one thread is safe where only the thread that forked had computed, otherwise it is refused."""
    if _refused:
        raise FirthError(FORKED.format(who="several threads had computed with models"))
    _computed.add(threading.get_ident())


def _after_fork() -> None:
    """In the child."""
    global _refused
    _refused = _refused or bool(_computed - {threading.get_ident()})
    torch = sys.modules.get("torch")
    if _computed and torch is not None:
        torch.set_num_threads(1)
    _computed.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class SameProcess:
    """For an engine with threads of its own, which a forked process does not have."""

    def __init__(self, engine: str) -> None:
        self.engine, self.process = engine, os.getpid()

    def check(self) -> None:
        if os.getpid() != self.process:
            raise FirthError(FORKED.format(who=f"{self.engine} had started its threads"))
