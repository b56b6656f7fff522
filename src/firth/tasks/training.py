"""Fine-tuning as a ``Trainable`` for the training loop (batches by number, dev scores, the best weights), the protocol of a
task, and predictions in batches."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.batching import batches_by_length
from firth.core.errors import FirthError
from firth.core.run import LabelScore
from firth.core.types import Batch, Inputs, Losses, Prediction, TextReader
from firth.tasks.batches import Item, Row, collate, shuffled_batches
from firth.tasks.checking import AnyExample
from firth.tasks.config import TaskConfig
from firth.tasks.network import TaskNetwork
from firth.tasks.scores import SMALL_IS_GOOD, Interval
from firth.training.ranks import process_count, process_rank

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


def predict_items(
    task: Task,
    network: TaskNetwork,
    examples: Sequence[AnyExample],
    items: Sequence[Item],
    device: str = "cpu",
    batch_of: Callable[[Sequence[Item]], Batch] | None = None,
) -> list[Prediction]:
    """A prediction for each example."""
    found: list[Prediction] = [{} for _ in items]
    most = min(MAX_TOKENS, network.config.max_batch_tokens)
    network.eval()
    with torch.inference_mode():
        for numbers in batches_by_length([item_cost(item) for item in items], most, MAX_ROWS, longest_first=True):
            some = [items[number] for number in numbers]
            batch = (batch_of or task.batch)(some).to(device)
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
    task: Task, network: TaskNetwork, examples: Iterable[OneExample], device: str = "cpu"
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
        costs = [item_cost(item) for item in self.items]
        pads = not network.reader_module.can_pack
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
        own = rows[process_rank() :: process_count()] if self.divides_batches else rows
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
