"""A tag for every word: entities, parts of speech (Devlin et al. 2018, fig. 4 d; CRF: Lample et al. 2016).

The first piece of a word speaks for it. Long documents go through in overlapping windows, and each
word is judged where it has most context: none is lost, none is judged twice.

B rows, T tokens, K tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import Later
from firth.core.run import LabelScore
from firth.core.types import Batch, Entity, Losses, Prediction, TextReader, softmax
from firth.data.labelled import TagExample
from firth.tasks.config import ArrayNetwork, TaskConfig
from firth.tasks.data import by_owner
from firth.tasks.scores import Interval, interval, label_scores
from firth.tasks.tag_schemes import as_bioes, entity_counts, entity_scores, prf, spans_of, tag_accuracy
from firth.tasks.training import AnyNetwork, Item, best_windows, collate, frame_row, pieces_of

if TYPE_CHECKING:
    import torch
    from torch.nn import functional

    from firth.tasks.network import TagNetwork, TaskNetwork
else:
    torch, functional = Later("torch"), Later("torch.nn.functional")

_NOT_JUDGED = -1


class Tag:
    """Rows of examples, loss, predictions and scores of tagging."""

    def __init__(self, config: TaskConfig, reader: TextReader) -> None:
        self.config = config
        self.reader = reader
        self.number = {label: place for place, label in enumerate(config.labels)}
        self.weights = {"task": 1.0}
        limit = config.max_len if reader.max_len is None else min(config.max_len, reader.max_len)
        self.room = limit - reader.frame.size(pair=False)
        self.class_weights: torch.Tensor | None = None
        usual = config.default_label or ("O" if "O" in self.number else next(iter(config.labels), "O"))
        self.unread = usual  # the tag of words of which no piece is left

    @property
    def metric(self) -> str:
        return self.config.metric or ("f1" if self.config.scheme else "accuracy")

    def build(self, pairs: bool = False) -> TagNetwork:
        from firth.tasks.network import TagNetwork

        return TagNetwork(self.config, self.reader, len(self.config.labels))

    def learn_from(self, examples: Sequence[TagExample]) -> None:
        tags = [self.number[tag] for example in examples for tag in example.tags or ()]
        counts = np.bincount(tags, minlength=len(self.number))
        if self.config.class_weights:
            weights = counts.sum() / (len(counts) * np.maximum(counts, 1))
            self.class_weights = torch.from_numpy(weights.astype(np.float32))

    def start(self, network: TaskNetwork, examples: Sequence[TagExample]) -> None:
        """Nothing to add."""

    # -- examples to batches

    def item(self, example: TagExample, number: int) -> Item:
        encoding = self.reader.tokenize(example.words)
        words = encoding.words
        first = np.ones(len(words), np.bool_)
        first[1:] = words[1:] != words[:-1]
        places = np.where(first & (words >= 0), words, _NOT_JUDGED)  # the word that each token speaks for
        pieces = pieces_of(len(words), self.room, "windows", self.config.stride)
        window = best_windows(pieces, len(words)) if len(pieces) > 1 else np.zeros(len(words), np.int64)
        rows, judged = [], []
        for which, piece in enumerate(pieces):
            rows.append(frame_row(self.reader.frame, encoding.ids[piece], None, piece))
            judged.append(np.where(window[piece] == which, places[piece], _NOT_JUDGED))
        tags = None if example.tags is None else np.asarray([self.number.get(tag, -1) for tag in example.tags])
        return Item(tuple(rows), (judged, tags), number)

    def training_items(self, item: Item) -> list[Item]:
        """Windows say nothing about one another, so a long document need not fit into one batch."""
        judged, tags = item.target
        return [Item((row,), ([places], tags), item.number) for row, places in zip(item.rows, judged, strict=True)]

    def batch(self, items: Sequence[Item]) -> Batch:
        rows = [row for item in items for row in item.rows]
        arrays = collate(rows, self.reader.pad_id)
        words = np.full(arrays["doc_ids"].shape, _NOT_JUDGED)
        labels = np.full(arrays["doc_ids"].shape, 0)
        at = 0
        before = len(self.reader.frame.before)
        for item in items:
            judged, tags = item.target
            for places in judged:
                words[at, before : before + len(places)] = places
                if tags is not None and len(tags):
                    labels[at, before : before + len(places)] = np.where(places >= 0, tags[places], 0)
                at += 1
        owner = np.repeat(np.arange(len(items)), [len(item.rows) for item in items])
        arrays |= {"words": words, "labels": labels, "owner": owner}
        judged_count = int((words >= 0).sum())
        return Batch(arrays, {"task": max(judged_count, 1)}, int(arrays["doc_ids"].sum()))

    # -- learning

    def loss(self, network: TagNetwork, batch: Batch) -> Losses:
        scores, mask = network.token_scores(batch.tensors), batch.tensors["words"] >= 0
        labels = batch.tensors["labels"]
        if network.crf is not None:
            return Losses({"task": -network.crf.log_likelihood(scores, labels, mask).sum()})
        weights = None if self.class_weights is None else self.class_weights.to(scores.device)
        return Losses({"task": functional.cross_entropy(scores[mask], labels[mask], weights, reduction="sum")})

    # -- predicting

    def outputs(self, network: AnyNetwork, batch: Batch) -> list[NDArray[np.float32]]:
        """An array an example: [word, tag, probability] for each of its words."""
        kept = batch.arrays["words"] >= 0
        if isinstance(network, ArrayNetwork):
            found = self._array_outputs(network, batch, kept)
        else:
            found = self._tensor_outputs(cast("TagNetwork", network), batch)
        rows = [row[keep] for row, keep in zip(found, kept, strict=True)]
        return [np.concatenate(some) for some in by_owner(rows, batch.arrays["owner"])]

    def _array_outputs(self, network: ArrayNetwork, batch: Batch, kept_BT: NDArray[np.bool_]) -> NDArray[np.float32]:
        scores_BTK = network.token_arrays(batch.arrays)
        if network.crf is not None:
            tags_BT = np.maximum(network.crf.decode(scores_BTK, kept_BT), 0)
            chances_BTK = network.crf.marginals(scores_BTK, kept_BT)
        else:
            tags_BT, chances_BTK = scores_BTK.argmax(-1), softmax(scores_BTK)
        chosen_BT = np.take_along_axis(chances_BTK, tags_BT[:, :, None], 2)[:, :, 0]
        return np.stack((batch.arrays["words"], tags_BT, chosen_BT), 2).astype(np.float32)

    def _tensor_outputs(self, network: TagNetwork, batch: Batch) -> NDArray[np.float32]:
        scores, words = network.token_scores(batch.tensors), batch.tensors["words"]
        mask = words >= 0
        if network.crf is not None:
            tags = network.crf.decode(scores, mask)
            probabilities = network.crf.marginals(scores, mask)
        else:
            tags, probabilities = scores.argmax(-1), scores.softmax(-1)
        chosen = probabilities.gather(2, tags.clamp(min=0)[:, :, None])[:, :, 0]
        found: NDArray[np.float32] = torch.stack((words.float(), tags.float(), chosen), 2).cpu().numpy()
        return found

    def prediction(self, example: TagExample, item: Item, output: NDArray[np.float32]) -> Prediction:
        tags = [self.unread] * len(example.words)
        sure = [0.0] * len(example.words)
        for word, tag, probability in output.tolist():
            tags[int(word)], sure[int(word)] = self.config.labels[int(tag)], probability
        found: Prediction = {"words": example.words, "tags": tags}
        if self.config.scheme:
            found["entities"] = self._entities(example, tags, sure)
        return found

    def _entities(self, example: TagExample, tags: list[str], sure: list[float]) -> list[Entity]:
        """Spans with their characters in the text that the words came from."""
        text, offsets = example.text, example.offsets
        if not offsets:
            text = " ".join(example.words)
            ends = np.cumsum([len(word) + 1 for word in example.words]) - 1
            offsets = [(int(end) - len(word), int(end)) for word, end in zip(example.words, ends, strict=True)]
        return [
            {
                "type": span.type,
                "text": text[offsets[span.first][0] : offsets[span.last][1]],
                "start": offsets[span.first][0],
                "end": offsets[span.last][1],
                "probability": float(np.mean(sure[span.first : span.last + 1])),
            }
            for span in spans_of(as_bioes(tags))
        ]

    def score(
        self, examples: Sequence[TagExample], items: Sequence[Item], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        true, guessed = self._sides(examples, predictions)
        if self.config.scheme:
            return entity_scores(true, guessed)
        return {"accuracy": tag_accuracy(true, guessed)}

    def interval(self, examples: Sequence[TagExample], predictions: Sequence[Prediction]) -> tuple[str, Interval]:
        true, guessed = self._sides(examples, predictions)
        if self.config.scheme:
            counts = entity_counts(true, guessed).counts.sum(1)
            return "f1", interval(counts, lambda sums: prf(sums.astype(np.int64))[2])
        rows = [
            (sum(a == b for a, b in zip(tags, guesses, strict=True)), len(tags))
            for tags, guesses in zip(true, guessed, strict=True)
        ]
        return "accuracy", interval(rows, lambda sums: sums[:, 0] / np.maximum(sums[:, 1], 1))

    def by_label(self, examples: Sequence[TagExample], predictions: Sequence[Prediction]) -> dict[str, LabelScore]:
        """Type by type of entities, or tag by tag."""
        true, guessed = self._sides(examples, predictions)
        if self.config.scheme:
            return entity_counts(true, guessed).by_type()
        number = {tag: place for place, tag in enumerate(sorted({tag for tags in (*true, *guessed) for tag in tags}))}
        first, second = ([number[tag] for tags in side for tag in tags] for side in (true, guessed))
        return label_scores(first, second, list(number))

    def _sides(
        self, examples: Sequence[TagExample], predictions: Sequence[Prediction]
    ) -> tuple[list[list[str]], list[list[str]]]:
        return [list(example.tags or ()) for example in examples], [
            [str(tag) for tag in found["tags"]] for found in predictions
        ]
