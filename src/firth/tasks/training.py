"""Fine-tuning as a ``Trainable`` for the training loop (batches by number, dev scores, the best weights), the protocol of a
task, and predictions in batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, Later, nearest
from firth.core.run import LabelScore
from firth.core.types import (
    Batch,
    Batches,
    Frame,
    Inputs,
    Ints,
    Losses,
    Prediction,
    TextReader,
    batches_by_length,
    cut_batches,
    hashed,
)
from firth.tasks.checking import AnyExample
from firth.tasks.config import ArrayNetwork, TaskConfig
from firth.tasks.scores import SMALL_IS_GOOD, Interval

if TYPE_CHECKING:
    import torch

    from firth.tasks.network import TaskNetwork
    from firth.training import ranks
else:
    torch, ranks = Later("torch"), Later("firth.training.ranks")

_POOL = 4  # batches that share out their rows by length


def shuffled_batches(
    lens: Sequence[int] | NDArray[np.int64], max_tokens: int, max_rows: int, seed: int, epoch: int, by_length: bool
) -> list[NDArray[np.int64]]:
    """Row numbers of each batch of an epoch: all rows once, in shuffled order.

    A batch has at most ``max_rows`` rows and, padded, at most ``max_tokens`` tokens (unless one row
    alone is longer). A pure function of its arguments: any batch of any epoch can be made again.
    ``by_length`` is for models that compute padding: of the rows of a few batches those of like length come
    together. Not of all rows: length tells what kind of text it is, and batches of one kind each teach
    badly (a tagger from 600 sentences came to an F1 of .52 in place of .61).
    """
    lens_N = np.asarray(lens, np.int64)
    order = np.argsort(hashed(seed, epoch, 2, np.arange(len(lens_N))), kind="stable")
    if by_length:
        pool = np.arange(len(order)) // (_POOL * max_rows)
        order = order[np.lexsort((lens_N[order], pool))]
    borders = cut_batches(lens_N[order], max_tokens, max_rows)
    batches = [order[first:last] for first, last in pairwise(borders.tolist())]
    if by_length:
        order = np.argsort(hashed(seed, epoch, 3, np.arange(len(batches))), kind="stable")
        return [batches[number] for number in order]
    return batches


@dataclass(frozen=True)
class Row:
    """One row that a model reads. ``source`` is the number of each token in the text that matters (the
    last one given: of a pair the second), -1 for all others."""

    ids: Ints  # [T] or [T, characters]
    segments: Ints
    source: Ints
    part: int = 0  # 1: the second text of a pair that is read apart
    shared: Ints | None = None  # of a pair that is read apart: 1 where a token stands in the other text, too


@dataclass(frozen=True)
class Item:
    """An example as rows; ``target`` is whatever its task learns from."""

    rows: tuple[Row, ...]
    target: Any  # a label, tags, or spans with offsets: only its task reads it
    number: int  # of the example

    @property
    def longest(self) -> int:
        return max(len(row.ids) for row in self.rows)


def frame_row(frame: Frame, first: Ints, second: Ints | None, source: Ints, part: int = 0) -> Row:
    """before, first, (between, second,) after; ``source`` numbers the tokens of the last text."""
    pieces: list[tuple[Ints, int]] = [(_special(frame.before, first), 0), (first, 0)]
    if second is not None:
        pieces += [(_special(frame.between, first), 0), (second, 1)]
    pieces.append((_special(frame.after, first), 0 if second is None else 1))
    ids = np.concatenate([piece for piece, _ in pieces])
    segments = np.concatenate([np.full(len(piece), segment) for piece, segment in pieces])
    if frame.last_segment is not None:
        segments[-1] = frame.last_segment
    places = np.full(len(ids), -1)
    end = len(ids) - len(frame.after)
    places[end - len(source) : end] = source
    return Row(ids, segments, places, part)


def _special(ids: tuple[int, ...], like: Ints) -> Ints:
    """Special tokens in the shape of the text's own (with characters: the same number in each place)."""
    column = np.asarray(ids, np.int64)
    return column.reshape(-1, *(1 for _ in like.shape[1:])) + np.zeros((len(ids), *like.shape[1:]), np.int64)


def cut_pair(first_len: int, second_len: int, room: int) -> tuple[int, int]:
    """How much of each text is kept: the longer one is cut first, until both fit."""
    if first_len + second_len <= room:
        return first_len, second_len
    half = room // 2
    if first_len <= half:
        return first_len, room - first_len
    if second_len <= room - half:
        return room - second_len, second_len
    return half, room - half


def collate(rows: Sequence[Row], pad_id: int) -> dict[str, Ints]:
    """Arrays [B, T]: ids, blocks (1 where there is a token) and segments; T is at least 1, also for empty texts."""
    longest = max(1, *(len(row.ids) for row in rows))
    ids = np.full((len(rows), longest, *rows[0].ids.shape[1:]), pad_id, np.int64)
    blocks = np.zeros((len(rows), longest), np.int64)
    segments = np.zeros((len(rows), longest), np.int64)
    for number, row in enumerate(rows):
        size = len(row.ids)
        ids[number, :size] = row.ids
        blocks[number, :size] = 1
        segments[number, :size] = row.segments
    return {"ids": ids, "doc_ids": blocks, "segments": segments}


Policy = Literal["head", "tail", "head_tail", "windows"]
POLICIES: tuple[str, ...] = get_args(Policy)

# Of 510 tokens: 128 + 382 for texts up to 800 tokens, 256 + 254 for longer ones.
_ROOM, _MIDDLING, _SHORT_HEAD, _LONG_HEAD = 510, 800, 128, 256


def pieces_of(num_tokens: int, room: int, policy: str, stride: int | None = None) -> list[NDArray[np.int64]]:
    """The token numbers of each piece of a text; one piece unless the policy is ``windows``.

    ``stride`` is how far each window starts after the one before (half the room if none is given).
    A text that fits is one whole piece, and so is an empty one.
    """
    assert num_tokens >= 0
    if room < 1:
        raise FirthError(f"no room for tokens ({room}): give the model more positions or a shorter second text")
    if policy not in POLICIES:
        raise FirthError(f"unknown policy for long text '{policy}': {nearest(policy, list(POLICIES))}")
    if num_tokens <= room:
        return [np.arange(num_tokens)]
    if policy == "head":
        return [np.arange(room)]
    if policy == "tail":
        return [np.arange(num_tokens - room, num_tokens)]
    if policy == "head_tail":
        head_len = head_of(num_tokens, room)
        return [np.concatenate((np.arange(head_len), np.arange(num_tokens - (room - head_len), num_tokens)))]
    return [start + np.arange(room) for start in window_starts(num_tokens, room, stride)]


def head_of(num_tokens: int, room: int) -> int:
    """How many of ``room`` tokens come from the head; the published numbers in proportion to the room."""
    short = num_tokens * _ROOM <= _MIDDLING * room
    return round(room * (_SHORT_HEAD if short else _LONG_HEAD) / _ROOM)


def window_starts(num_tokens: int, room: int, stride: int | None = None) -> list[int]:
    """Where windows start. The last one is moved back so that it is full: a window of a few tokens
    would weigh as much as any other when windows are pooled."""
    step = max(1, room // 2) if stride is None else stride
    if not 1 <= step <= room:
        raise FirthError(f"stride {step} is not between 1 and the {room} tokens of a window: some would be left out")
    last = max(0, num_tokens - room)
    return [*range(0, last, step), last]


def best_windows(pieces: Sequence[NDArray[np.int64]], num_tokens: int) -> NDArray[np.int64]:
    """For each token the number of the window in which it stands farthest from an edge.

    So that in long documents every token is judged once, with the most context (Devlin et al. 2018,
    "maximum context"). Where the text itself begins or ends nothing is cut off: that is no edge.
    Of equals the earlier window is taken. Pieces must be stretches, as ``windows`` makes them.
    """
    best_T = np.full(num_tokens, -1, np.int64)
    window_T = np.full(num_tokens, -1, np.int64)
    for number, piece in enumerate(pieces):
        if len(piece) == 0:
            continue
        first, last = int(piece[0]), int(piece[-1])
        left = piece - first if first > 0 else np.full(len(piece), num_tokens)
        right = last - piece if last < num_tokens - 1 else np.full(len(piece), num_tokens)
        context = np.minimum(left, right)
        better = context > best_T[piece]
        best_T[piece[better]] = context[better]
        window_T[piece[better]] = number
    assert num_tokens == 0 or window_T.min() >= 0, "a token is in no window"
    return window_T


AnyNetwork: TypeAlias = "TaskNetwork | ArrayNetwork"
OneExample = TypeVar("OneExample", bound=AnyExample)
Example = TypeVar("Example", contravariant=True)
Net = TypeVar("Net", contravariant=True)
MAX_TOKENS, MAX_ROWS, CHUNK = 4096, 64, 256


class TaskOf(Protocol[Example, Net]):
    """What all kinds of tasks have in common: examples to batches, loss, predictions, scores."""

    weights: dict[str, float]

    @property
    def metric(self) -> str: ...

    def build(self, pairs: bool) -> TaskNetwork: ...

    def learn_from(self, examples: Sequence[Example]) -> None: ...

    def start(self, network: TaskNetwork, examples: Sequence[Example]) -> None: ...

    def item(self, example: Example, number: int) -> Item: ...

    def training_items(self, item: Item) -> list[Item]:
        """The training items of an example: the whole item, or each of its windows separately."""
        ...

    def batch(self, items: Sequence[Item]) -> Batch: ...

    def loss(self, network: Net, batch: Batch) -> Losses: ...

    def outputs(self, network: Net, batch: Batch) -> list[NDArray[np.float32]]: ...

    def prediction(self, example: Example, item: Item, output: NDArray[np.float32]) -> Prediction: ...

    def score(
        self, examples: Sequence[Example], items: Sequence[Item], predictions: Sequence[Prediction]
    ) -> dict[str, float]: ...

    def interval(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> tuple[str, Interval]: ...

    def by_label(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, LabelScore]: ...


Task: TypeAlias = TaskOf[Any, Any]
"""A task of any kind; the caller gives it examples and networks of its own kind."""


def item_cost(item: Item) -> int:
    """The tokens that an example puts into a batch."""
    return item.longest * len(item.rows)


def item_batches(items: Sequence[Item], max_tokens: int) -> Batches:
    """The numbers of the items that are read together by a network that has learned, the longest first."""
    most = min(MAX_TOKENS, max_tokens)
    return batches_by_length([item_cost(item) for item in items], most, MAX_ROWS, longest_first=True)


def predict_items(
    task: Task,
    network: AnyNetwork,
    examples: Sequence[AnyExample],
    items: Sequence[Item],
    device: str = "cpu",
    batch_of: Callable[[Sequence[Item]], Batch] | None = None,
) -> list[Prediction]:
    """A prediction for each example."""
    found: list[Prediction] = [{} for _ in items]
    arrays = isinstance(network, ArrayNetwork)
    network.eval()
    with nullcontext() if arrays else torch.inference_mode():
        for numbers in item_batches(items, network.config.max_batch_tokens):
            batch = (batch_of or task.batch)([items[number] for number in numbers])
            batch = batch if arrays else batch.to(device)
            for number, output in zip(numbers.tolist(), task.outputs(network, batch), strict=True):
                found[number] = task.prediction(examples[number], items[number], output)
                found[number]["unknown"] = _unknown_share(items[number], network.reader)
    return found


_MODEL_IDS = (1 << 32) - 1


def _unknown_share(item: Item, reader: TextReader) -> float:
    """Of the tokens of the text, special ones left out."""
    if reader.unk_id is None:
        return 0.0
    frame = reader.frame
    special = (*frame.before, *frame.between, *frame.after)
    rows = [row.ids & _MODEL_IDS if reader.extra_dim else row.ids for row in item.rows]  # word vectors have ids above
    rows = [ids[~np.isin(ids, special)] if special else ids for ids in rows]
    unknown = sum(int(np.count_nonzero(ids == reader.unk_id)) for ids in rows)
    return round(unknown / max(sum(map(len, rows)), 1), 4)


def predict_stream(
    task: Task, network: AnyNetwork, examples: Iterable[OneExample], device: str = "cpu"
) -> Iterator[tuple[OneExample, Prediction]]:
    """Pairs of example and prediction in their order, in memory for a few hundred examples."""
    chunk: list[OneExample] = []

    def flush() -> Iterator[tuple[OneExample, Prediction]]:
        items = [task.item(example, number) for number, example in enumerate(chunk)]
        yield from zip(chunk, predict_items(task, network, chunk, items, device), strict=True)
        chunk.clear()

    for example in examples:
        chunk.append(example)
        if len(chunk) == CHUNK:
            yield from flush()
    if chunk:
        yield from flush()


_CACHE_BYTES = 1_500_000_000  # of vectors that a frozen model gives, kept rather than computed in every epoch


class Finetuning:
    """A ``Trainable``: a task's network on its training examples, tested on its dev examples."""

    divides_batches = True  # several processes learn from the batches of one

    def __init__(
        self,
        config: TaskConfig,
        task: Task,
        network: TaskNetwork,
        train: Sequence[AnyExample],
        dev: Sequence[AnyExample],
    ) -> None:
        self.config, self.task, self.network = config, task, network
        self.module: torch.nn.Module = network
        self.weights: Mapping[str, float] = task.weights
        self.items = [
            part for number, example in enumerate(train) for part in task.training_items(task.item(example, number))
        ]
        self.dev, self.dev_items = dev, [task.item(example, number) for number, example in enumerate(dev)]
        if not config.tune:
            for parameter in network.reader_module.parameters():
                parameter.requires_grad_(False)
        self.rate_factors: Mapping[str, float] = layer_rates(network, config.layer_decay)
        costs, pads = [item_cost(item) for item in self.items], not network.reader_module.can_pack
        self.epochs = [
            shuffled_batches(costs, config.max_batch_tokens, config.batch_size, config.seed, epoch, by_length=pads)
            for epoch in range(config.epochs)
        ]
        self.order = [numbers for epoch in self.epochs for numbers in epoch]
        self.cache: dict[int, NDArray[np.float32]] | None = None
        if not config.tune and self._cache_size() <= _CACHE_BYTES:
            self.cache = {}
        self.best: dict[str, float] | None = None
        self.best_weights: dict[str, torch.Tensor] = {}
        self.predictions: list[Prediction] = []
        self.waited = 0

    @property
    def steps(self) -> int:
        return len(self.order)

    # -- what a frozen model says is computed once

    def _layers_kept(self) -> int:
        return self.network.reader.num_layers if self.network.all_layers else 1

    def _cache_size(self) -> int:
        tokens = sum(len(row.ids) for item in (*self.items, *self.dev_items) for row in item.rows)
        return 4 * tokens * self.network.reader.dim * self._layers_kept()

    def _batch_of(self, items: Sequence[Item]) -> Batch:
        batch = self.task.batch(items)
        if self.cache is None:
            return batch
        arrays = dict(batch.arrays)
        num_rows, longest = arrays["doc_ids"].shape
        if num_rows * longest > self.config.max_batch_tokens:
            return batch  # many windows of one text: the network reads them in parts
        rows = [row for item in items for row in item.rows]
        missing = [row for row in rows if id(row) not in self.cache]
        if missing:
            self._compute(missing)
        features = np.zeros((self._layers_kept(), num_rows, longest, self.network.reader.dim), np.float32)
        for place, row in enumerate(rows):
            features[:, place, : len(row.ids)] = self.cache[id(row)]
        arrays["features"] = features
        return Batch(arrays, batch.counts, batch.num_tokens)

    def _compute(self, rows: list[Row]) -> None:
        """The frozen model's vectors of these rows; the rows live as long as this trainable, so their ids are theirs."""
        assert self.cache is not None
        arrays = collate(rows, self.network.reader.pad_id)
        tensors = {name: torch.from_numpy(array).to(self.config.device) for name, array in arrays.items()}
        self.network.reader_module.eval()
        with torch.no_grad():
            found = self.network.layers(Inputs.of(tensors)).hidden.cpu().numpy()
        for place, row in enumerate(rows):
            self.cache[id(row)] = found[:, place, : len(row.ids)].copy()

    # -- what the loop asks

    def batch(self, number: int) -> Batch:
        """Of an endless sequence of epochs; a pure function of the number. Each process reads its part of it; where it has none,
        one example that does not count."""
        rows = self.order[number % len(self.order)].tolist()
        own = rows[ranks.process_rank() :: ranks.process_count()] if self.divides_batches else rows
        found = self._batch_of([self.items[row] for row in own or rows[:1]])
        return found if own else replace(found, counted=False, num_tokens=0)

    def loss(self, batch: Batch) -> Losses:
        losses = self.task.loss(self.network, batch)
        penalty = self.network.penalty()
        if not isinstance(penalty, torch.Tensor):
            return losses
        return Losses({name: loss + penalty * batch.counts[name] for name, loss in losses.sums.items()})

    def evaluate(self) -> dict[str, float]:
        """The dev scores; weights that give the best one are kept."""
        if not self.dev:
            return {}
        predictions = predict_items(
            self.task, self.network, self.dev, self.dev_items, self.config.device, self._batch_of
        )
        tune = getattr(self.task, "tune_threshold", None)
        if tune is not None:
            threshold = tune(self.dev, predictions)
            if threshold is not None:
                vars(self.task)["threshold"] = threshold
                predictions = [_withheld(found, threshold) for found in predictions]
        recut = getattr(self.task, "recut", None)
        if recut is not None:
            predictions = recut(self.dev, predictions)
        scores = self.task.score(self.dev, self.dev_items, predictions)
        choices = [name for name in scores if name not in SMALL_IS_GOOD]
        if self.task.metric not in choices:
            reason = "is best when it is small" if self.task.metric in scores else "is no score of this task"
            raise FirthError(f"metric: '{self.task.metric}' {reason}; choose among {', '.join(choices)}")
        if self.best is not None and self.best[self.task.metric] > 0:
            self.waited += 1  # not yet, while nothing is found: a tagger begins by calling every word outside
        if self.best is None or scores[self.task.metric] > self.best[self.task.metric]:
            self.best, self.waited = {**scores, **_threshold_of(self.task)}, 0
            self.predictions = predictions
            self.best_weights = {
                name: tensor.detach().clone()
                for name, tensor in self.network.state_dict().items()
                if self.network.keeps(name)
            }
        return scores

    def enough(self) -> bool:
        return self.config.patience is not None and self.waited >= self.config.patience

    def take_best(self) -> None:
        """Back to the weights of the best dev score."""
        if self.best_weights:
            missing, left = self.network.load_state_dict(self.best_weights, strict=False)
            assert not left
            assert not any(self.network.keeps(name) for name in missing)
        if self.best and "null_threshold" in self.best:
            vars(self.task)["threshold"] = self.best["null_threshold"]


def _withheld(found: Prediction, threshold: float) -> Prediction:
    """An answer after the threshold was found: kept, or taken back."""
    if not found["best"] or found["no_answer_score"] > threshold:
        return {**found, "answer": "", "start": 0, "end": 0}
    best = found["best"][0]
    return {**found, "answer": best["answer"], "start": best["start"], "end": best["end"]}


def _threshold_of(task: Task) -> dict[str, float]:
    threshold = vars(task).get("threshold")
    return {} if threshold is None else {"null_threshold": float(threshold)}


_TOKEN_LAYER = re.compile(r"embeddings|\b(?:tokens|positions|table)\.")


def layer_rates(network: TaskNetwork, decay: float) -> dict[str, float]:
    """Each layer learns ``decay`` times as fast as the one above it (Howard & Ruder 2018; Sun et al. 2019)."""
    if decay == 1.0:
        return {}
    top = network.reader.num_layers - 1
    found = {}
    for name, _ in network.named_parameters():
        if name.startswith("reader_module."):
            block = re.search(r"(?:blocks|layers)\.(\d+)\.", name)
            depth = int(block.group(1)) + 1 if block else 0 if _TOKEN_LAYER.search(name) else top
            found[name] = decay ** (top + 1 - depth)
    return found
