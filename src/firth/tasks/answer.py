"""Answers as stretches of a passage (Devlin et al. 2018, §4.2, §4.3).

The question and a window of the passage are read together; start and end of the answer are each one
vector. Long passages go through in overlapping windows, and the best span over all of them wins; a
window without the answer learns to point at the token that sums it up: the first, or the last for models that read
from left to right or have it there (GPT, XLNet).

B windows, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import Later
from firth.core.run import LabelScore
from firth.core.types import Batch, Encoding, Ints, Losses, Prediction, TextReader
from firth.data.labelled import AnswerExample
from firth.tasks.answer_spans import Found, answer_scores, answer_tokens, best_threshold, find_answers
from firth.tasks.config import ArrayNetwork, TaskConfig
from firth.tasks.data import by_owner
from firth.tasks.scores import Interval, mean_interval
from firth.tasks.training import AnyNetwork, Item, Row, collate, frame_row, pieces_of

if TYPE_CHECKING:
    import torch
    from torch.nn import functional

    from firth.tasks.network import TaskNetwork
else:
    torch, functional = Later("torch"), Later("torch.nn.functional")

_NUM_BEST = 20


class AnswerQuestions:
    """Rows of examples, loss, predictions and scores of extractive answers.

    Each window has columns, one a token and one that says "no answer"; scores are by column.
    """

    def __init__(self, config: TaskConfig, reader: TextReader) -> None:
        self.config = config
        self.reader = reader
        self.weights = {"task": 1.0}
        self.limit = (config.max_len if reader.max_len is None else min(config.max_len, reader.max_len)) - (
            reader.frame.size(pair=True)
        )
        self.threshold = config.null_threshold
        self.measure = config.answer_metric or "squad2"

    @property
    def metric(self) -> str:
        return self.config.metric or "f1"

    def build(self, pairs: bool = True) -> TaskNetwork:
        from firth.tasks.network import TaskNetwork

        return TaskNetwork(self.config, self.reader, 2)

    def learn_from(self, examples: Sequence[AnswerExample]) -> None:
        """Nothing to find out."""

    def start(self, network: TaskNetwork, examples: Sequence[AnswerExample]) -> None:
        """Nothing to add."""

    # -- examples to batches

    def item(self, example: AnswerExample, number: int) -> Item:
        most = max(1, min(self.config.max_question_len, self.limit // 2))
        question, passage = self.reader.tokenize(example.question), self.reader.tokenize(example.passage)
        room = self._room(min(most, len(question.ids)))
        stride = self.config.stride or max(1, room - min(128, room // 2))  # 128 tokens shared by neighbours
        answer = None
        if example.answers and not example.impossible:
            text, start = example.answers[0]
            answer = answer_tokens(passage.offsets, start, start + len(text))
        windows = pieces_of(len(passage.ids), room, "windows", min(stride, room))
        rows = self._rows(example, question, passage, most, windows)
        places = []
        for source in self._sources(rows):
            found = [np.flatnonzero(source == token) for token in answer or ()]
            inside = bool(found) and all(map(len, found))
            places.append((int(found[0][0]), int(found[1][0])) if inside else (self._null(source),) * 2)
        return Item(rows, (places, passage.offsets), number)

    def _room(self, question_len: int) -> int:
        """Tokens of the passage in one window."""
        return self.limit - question_len

    def _rows(
        self, example: AnswerExample, question: Encoding, passage: Encoding, most: int, windows: Sequence[Ints]
    ) -> tuple[Row, ...]:
        """The rows of all windows, in order, as many for each; of the question the first ``most`` tokens."""
        frame, asked = self.reader.frame, question.ids[:most]
        return tuple(frame_row(frame, asked, passage.ids[piece], piece) for piece in windows)

    def _sources(self, rows: Sequence[Row]) -> list[Ints]:
        """For every window and column the number of the passage's token that stands there, -1 for others."""
        return [row.source for row in rows]

    def _null(self, source: Ints) -> int:
        """Where a window says that it has no answer."""
        return 0 if self.reader.summary == "cls" else len(source) - 1

    def training_items(self, item: Item) -> list[Item]:
        """Windows say nothing about one another, so a long passage need not fit into one batch."""
        places, offsets = item.target
        each = len(item.rows) // len(places)
        return [
            Item(item.rows[each * window : each * (window + 1)], ([place], offsets), item.number)
            for window, place in enumerate(places)
        ]

    def batch(self, items: Sequence[Item]) -> Batch:
        rows = [row for item in items for row in item.rows]
        arrays = collate(rows, self.reader.pad_id)
        arrays["owner"] = np.repeat(np.arange(len(items)), [len(item.target[0]) for item in items])
        arrays["spans"] = np.asarray([place for item in items for place in item.target[0]], np.int64)
        return Batch(arrays, {"task": len(arrays["spans"])}, int(arrays["doc_ids"].sum()))

    # -- learning

    def _scores(self, network: TaskNetwork, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = network.token_scores(batch.tensors).unbind(-1)
        gone = self._gone(batch.tensors["doc_ids"])
        lowest = torch.finfo(start.dtype).min
        return start.masked_fill(gone, lowest), end.masked_fill(gone, lowest)

    def _gone(self, blocks: torch.Tensor) -> torch.Tensor:
        """Columns that are padding."""
        return blocks == 0

    def loss(self, network: TaskNetwork, batch: Batch) -> Losses:
        """Half the sum of both cross-entropies, over all tokens of the window."""
        start, end = self._scores(network, batch)
        spans = batch.tensors["spans"]
        loss = functional.cross_entropy(start, spans[:, 0], reduction="sum") + functional.cross_entropy(
            end, spans[:, 1], reduction="sum"
        )
        return Losses({"task": loss / 2})

    # -- predicting

    def outputs(self, network: AnyNetwork, batch: Batch) -> list[NDArray[np.float32]]:
        """Start and end scores of an example's windows, [windows, 2, T]."""
        if isinstance(network, ArrayNetwork):
            lowest = np.finfo(np.float32).min
            scores_BTK = np.where(batch.arrays["doc_ids"][:, :, None] == 0, lowest, network.token_arrays(batch.arrays))
            rows = list(scores_BTK.swapaxes(1, 2))
        else:
            start, end = self._scores(network, batch)
            rows = list(torch.stack((start, end), 1).cpu().numpy())
        return [np.stack(some) for some in by_owner(rows, batch.arrays["owner"])]

    def prediction(self, example: AnswerExample, item: Item, output: NDArray[np.float32]) -> Prediction:
        found = self._found(example, item, output)
        best = found.best(self.threshold)
        return {
            "id": example.id,
            "answer": best.text,
            "start": best.start,
            "end": best.end,
            "score": best.score,
            "no_answer_score": found.null_score,
            "best": [
                {"answer": one.text, "start": one.start, "end": one.end, "probability": one.prob}
                for one in found.answers
            ],
        }

    def _found(self, example: AnswerExample, item: Item, output: NDArray[np.float32]) -> Found:
        """``output`` [windows, 2, T]; every window's tokens with their characters in the passage."""
        sources = self._sources(item.rows)
        offsets = np.zeros((len(sources), output.shape[2], 2), np.int64)
        allowed = np.zeros(offsets.shape[:2], np.bool_)
        for number, source in enumerate(sources):
            inside = source >= 0
            allowed[number, : len(inside)] = inside
            offsets[number, : len(inside)][inside] = item.target[1][source[inside]]
        scores = output.astype(np.float64)
        nulls = np.asarray([self._null(source) for source in sources])
        return find_answers(
            example.passage, scores[:, 0], scores[:, 1], allowed, offsets, self.config.max_answer_len, _NUM_BEST, nulls
        )

    def tune_threshold(self, examples: Sequence[AnswerExample], predictions: Sequence[Prediction]) -> float | None:
        """Above which score of "no answer" nothing is answered: what serves the dev set best."""
        if not any(example.impossible for example in examples):
            return None
        guesses = [found["best"][0]["answer"] if found["best"] else "" for found in predictions]
        scores = answer_scores(guesses, [_texts(example) for example in examples], self.measure)[:, 1]
        nulls = [found["no_answer_score"] for found in predictions]
        answered = [bool(guess) for guess in guesses]
        answerable = [not example.impossible for example in examples]
        return best_threshold(scores, nulls, answered, answerable).value

    def score(
        self, examples: Sequence[AnswerExample], items: Sequence[Item], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        rows = self._each(examples, predictions)
        return {"exact": float(rows[:, 0].mean()), "f1": float(rows[:, 1].mean())}

    def interval(self, examples: Sequence[AnswerExample], predictions: Sequence[Prediction]) -> tuple[str, Interval]:
        return "f1", mean_interval(self._each(examples, predictions)[:, 1])

    def by_label(self, examples: Sequence[AnswerExample], predictions: Sequence[Prediction]) -> dict[str, LabelScore]:
        """Answers have no labels."""
        return {}

    def _each(self, examples: Sequence[AnswerExample], predictions: Sequence[Prediction]) -> NDArray[np.float64]:
        answers = [_texts(example) for example in examples]
        return answer_scores([found["answer"] for found in predictions], answers, self.measure)


def _texts(example: AnswerExample) -> list[str]:
    if example.impossible:
        return []
    return list(example.references) or [answer.text for answer in example.answers]


class AnswerApart(AnswerQuestions):
    """The same task with question and passage encoded separately: two rows per window."""

    def build(self, pairs: bool = True) -> TaskNetwork:
        from firth.tasks.network import ComparingNetwork

        return ComparingNetwork(self.config, self.reader)

    def _room(self, question_len: int) -> int:
        return self.limit

    def _rows(
        self, example: AnswerExample, question: Encoding, passage: Encoding, most: int, windows: Sequence[Ints]
    ) -> tuple[Row, ...]:
        asked = _words(example.question, question.offsets[:most])
        said = _words(example.passage, passage.offsets)
        found: list[Row] = []
        for piece in windows:
            here = [said[place] for place in piece.tolist()]
            found.append(self._row(question.ids[:most], np.arange(len(asked)), asked, set(here), 0))
            found.append(self._row(passage.ids[piece], piece, here, set(asked), 1))
        return tuple(found)

    def _row(self, ids: Ints, source: Ints, words: list[str], others: set[str], part: int) -> Row:
        row = frame_row(self.reader.frame, ids, None, source, part)
        shared = np.zeros(len(row.ids), np.int64)
        shared[row.source >= 0] = [word in others for word in words]
        return Row(row.ids, row.segments, row.source, part, shared)

    def _sources(self, rows: Sequence[Row]) -> list[Ints]:
        return [np.concatenate(([-1], row.source)) for row in rows[1::2]]

    def _null(self, source: Ints) -> int:
        return 0

    def batch(self, items: Sequence[Item]) -> Batch:
        batch = super().batch(items)
        shared = np.zeros_like(batch.arrays["doc_ids"])
        for number, row in enumerate(row for item in items for row in item.rows):
            assert row.shared is not None
            shared[number, : len(row.shared)] = row.shared
        return Batch({**batch.arrays, "shared": shared}, batch.counts, batch.num_tokens)

    def _gone(self, blocks: torch.Tensor) -> torch.Tensor:
        return functional.pad(blocks[1::2] == 0, (1, 0), value=False)


def _words(text: str, offsets: Ints) -> list[str]:
    """The text of each token, so that different unknown words differ."""
    return [text[start:end].lower() for start, end in offsets.tolist()]
