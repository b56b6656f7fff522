"""Classes or a score for one text or two (Devlin et al. 2018, fig. 4 a, b)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import Later
from firth.core.run import LabelScore
from firth.core.types import Batch, Floats, Losses, Prediction, TextReader, softmax
from firth.data.labelled import TextExample
from firth.tasks.config import ArrayNetwork, TaskConfig
from firth.tasks.scores import (
    Interval,
    accuracy,
    class_scores,
    classify_scores,
    confusion_interval,
    interval_of_rows,
    label_scores,
    number_scores,
    spearman,
)
from firth.tasks.training import AnyNetwork, Item, Row, collate, cut_pair, frame_row, pieces_of

if TYPE_CHECKING:
    import torch
    from torch.nn import functional

    from firth.tasks.network import TaskNetwork
else:
    torch, functional = Later("torch"), Later("torch.nn.functional")

Numbers: TypeAlias = NDArray[np.int64] | NDArray[np.float64]


class Classify:
    """Rows of examples, loss, predictions and scores; ``score`` is the same with one output."""

    def __init__(self, config: TaskConfig, reader: TextReader) -> None:
        self.config = config
        self.reader = reader
        self.number = {label: place for place, label in enumerate(config.labels)}
        self.weights = {"task": 1.0}
        self.class_weights: torch.Tensor | None = None
        limit = config.max_len if reader.max_len is None else min(config.max_len, reader.max_len)
        self.room = limit - reader.frame.size(pair=False)
        self.pair_room = limit - reader.frame.size(pair=True)

    @property
    def regresses(self) -> bool:
        return self.config.task == "score"

    @property
    def metric(self) -> str:
        return self.config.metric or ("spearman" if self.regresses else "accuracy")

    def build(self, pairs: bool) -> TaskNetwork:
        from firth.tasks.network import TaskNetwork

        num_outputs = 1 if self.regresses else len(self.config.labels)
        network = TaskNetwork(self.config, self.reader, num_outputs)
        if pairs and not self.reader.joins_pairs:
            network.join_pairs_apart(num_outputs)
        return network

    def learn_from(self, examples: Sequence[TextExample]) -> None:
        """Weights of classes: rare ones count as much as common ones (n / (K n_k))."""
        if self.config.class_weights and not self.regresses:
            counts = np.bincount([self.number[str(example.label)] for example in examples], minlength=len(self.number))
            weights = len(examples) / (len(counts) * np.maximum(counts, 1))
            self.class_weights = torch.from_numpy(weights.astype(np.float32))

    def start(self, network: TaskNetwork, examples: Sequence[TextExample]) -> None:
        """A score begins at the mean of what it learns from."""
        if self.regresses and examples:
            mean = float(np.mean([float(example.label) for example in examples if example.label is not None]))
            torch.nn.init.constant_(network.out.bias, mean)

    # -- examples to batches

    def item(self, example: TextExample, number: int) -> Item:
        label = example.label
        target = None if label is None else float(label) if self.regresses else self.number.get(str(label))
        return Item(tuple(self._rows(example)), target, number)

    def _rows(self, example: TextExample) -> list[Row]:
        frame, tokenize = self.reader.frame, self.reader.tokenize
        first = tokenize(example.text).ids
        if example.second is None:
            return self._single(first, 0)
        second = tokenize(example.second).ids
        if not self.reader.joins_pairs:
            return self._single(first, 0) + self._single(second, 1)
        sizes = cut_pair(len(first), len(second), self.pair_room)
        return [frame_row(frame, first[: sizes[0]], second[: sizes[1]], np.arange(sizes[1]))]

    def _single(self, ids: NDArray[np.int64], part: int) -> list[Row]:
        pieces = pieces_of(len(ids), self.room, self.config.long_text, self.config.stride)
        return [frame_row(self.reader.frame, ids[piece], None, piece, part) for piece in pieces]

    def training_items(self, item: Item) -> list[Item]:
        """A label is for the whole text."""
        return [item]

    def batch(self, items: Sequence[Item]) -> Batch:
        rows = [row for item in items for row in item.rows]
        found = collate(rows, self.reader.pad_id)
        found["owner"] = np.repeat(np.arange(len(items)), [len(item.rows) for item in items])
        found["part"] = np.asarray([row.part for row in rows])
        counts, num_tokens = {"task": len(items)}, int(found["doc_ids"].sum())
        if any(item.target is None for item in items):
            return Batch(found, counts, num_tokens)
        return Batch({**found, "labels": self._targets(items)}, counts, num_tokens)

    def _targets(self, items: Sequence[Item]) -> NDArray[np.float32] | NDArray[np.int64]:
        found = [item.target for item in items]
        return np.asarray(found, np.float32) if self.regresses else np.asarray(found, np.int64)

    # -- learning

    def loss(self, network: TaskNetwork, batch: Batch) -> Losses:
        scores = network.text_scores(batch.tensors, batch.counts["task"])
        labels = batch.tensors["labels"]
        if self.regresses:
            return Losses({"task": (scores[:, 0] - labels).square().sum()})
        weights = None if self.class_weights is None else self.class_weights.to(scores.device)
        return Losses({"task": functional.cross_entropy(scores, labels, weights, reduction="sum")})

    # -- predicting

    def outputs(self, network: AnyNetwork, batch: Batch) -> list[NDArray[np.float32]]:
        """One array an example: probabilities, or the score."""
        if isinstance(network, ArrayNetwork):
            found = network.text_arrays(batch.arrays, batch.counts["task"])
            return list(found if self.regresses else self.array_probabilities(found))
        scores = network.text_scores(batch.tensors, batch.counts["task"])
        return list((scores if self.regresses else self.probabilities(scores)).cpu().numpy())

    def probabilities(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.softmax(-1)

    def array_probabilities(self, scores: Floats) -> Floats:
        return softmax(scores)

    def prediction(self, example: TextExample, item: Item, output: NDArray[np.float32]) -> Prediction:
        if self.regresses:
            return {"score": float(output[0])}
        chances, labels = output.tolist(), self.config.labels
        order = sorted(range(len(chances)), key=chances.__getitem__, reverse=True)
        return {"label": labels[order[0]], "probabilities": {labels[place]: chances[place] for place in order}}

    def score(
        self, examples: Sequence[TextExample], items: Sequence[Item], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        true, guessed = self._sides(examples, predictions)
        return number_scores(true, guessed) if self.regresses else classify_scores(true, guessed, len(self.number))

    def interval(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> tuple[str, Interval]:
        """What the main score could be on other examples, 95 times in 100."""
        true, guessed = self._sides(examples, predictions)
        if self.regresses:
            return "spearman", interval_of_rows(lambda rows: float(spearman(true[rows], guessed[rows])), len(true))
        if self.metric == "macro_f1":
            return self.metric, confusion_interval(true, guessed, len(self.number), lambda t: class_scores(t).macro_f1)
        return "accuracy", confusion_interval(true, guessed, len(self.number), accuracy)

    def by_label(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> dict[str, LabelScore]:
        """Class by class; nothing for scores."""
        return {} if self.regresses else label_scores(*self._sides(examples, predictions), self.config.labels)

    def _sides(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> tuple[Numbers, Numbers]:
        if self.regresses:
            true = np.asarray([float(example.label or 0.0) for example in examples])
            return true, np.asarray([found["score"] for found in predictions])
        labels = [self.number[str(example.label)] for example in examples]
        return np.asarray(labels), np.asarray([self.number[str(found["label"])] for found in predictions])
