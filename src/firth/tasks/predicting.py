"""Predictions for many examples: batches of like length, answers in the order of the examples."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.batching import batches_by_length
from firth.core.types import Batch, Losses
from firth.tasks.batches import Item
from firth.tasks.network import TaskNetwork
from firth.tasks.scores import Interval

Example = TypeVar("Example")
_MAX_TOKENS, _MAX_ROWS, _CHUNK = 4096, 64, 256


class Task(Protocol):
    """What the kinds of tasks have in common."""

    weights: dict[str, float]

    @property
    def metric(self) -> str: ...

    def build(self, pairs: bool) -> Any: ...

    def learn_from(self, examples: Sequence[Any]) -> None: ...

    def start(self, network: Any, examples: Sequence[Any]) -> None: ...

    def item(self, example: Any, number: int) -> Item: ...

    def lessons(self, item: Item) -> list[Item]:
        """What is learned from at once: all of the item, or each of its windows by itself."""
        ...

    def batch(self, items: Sequence[Item]) -> Batch: ...

    def loss(self, network: Any, batch: Batch) -> Losses: ...

    def outputs(self, network: Any, batch: Batch) -> list[NDArray[np.float32]]: ...

    def prediction(self, example: Any, item: Item, output: NDArray[np.float32]) -> dict[str, Any]: ...

    def score(
        self, examples: Sequence[Any], items: Sequence[Item], predictions: Sequence[dict[str, Any]]
    ) -> dict[str, float]: ...

    def interval(self, examples: Sequence[Any], predictions: Sequence[dict[str, Any]]) -> tuple[str, Interval]: ...


def item_cost(item: Item) -> int:
    """The tokens that an example puts into a batch."""
    return item.longest * len(item.rows)


def predict_items(
    task: Task,
    network: TaskNetwork,
    examples: Sequence[Any],
    items: Sequence[Item],
    device: str = "cpu",
    batch_of: Callable[[Sequence[Item]], Batch] | None = None,
) -> list[dict[str, Any]]:
    """A prediction an example."""
    found: list[dict[str, Any]] = [{} for _ in items]
    most = min(_MAX_TOKENS, network.config.max_batch_tokens)
    network.eval()
    with torch.inference_mode():
        for numbers in batches_by_length([item_cost(item) for item in items], most, _MAX_ROWS, longest_first=True):
            some = [items[number] for number in numbers]
            batch = (batch_of or task.batch)(some).to(device)
            for number, output in zip(numbers.tolist(), task.outputs(network, batch), strict=True):
                found[number] = task.prediction(examples[number], items[number], output)
    return found


def predict_stream(
    task: Task, network: TaskNetwork, examples: Iterable[Any], device: str = "cpu"
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Pairs of example and prediction in their order, in memory for a few hundred examples."""
    chunk: list[Any] = []

    def flush() -> Iterator[tuple[Any, dict[str, Any]]]:
        items = [task.item(example, number) for number, example in enumerate(chunk)]
        yield from zip(chunk, predict_items(task, network, chunk, items, device), strict=True)
        chunk.clear()

    for example in examples:
        chunk.append(example)
        if len(chunk) == _CHUNK:
            yield from flush()
    if chunk:
        yield from flush()
