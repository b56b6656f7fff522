"""Answers from models that read one text at a time: word vectors, ELMo, a table from scratch.

Question and passage are read apart and then compared, as Chen et al. 2017 (DrQA) did before BERT: beside each word stands
what is like it in the other text, a mean by attention, and whether the word itself is there; the body reads both; the
question becomes one vector, and what is alike between it and a word of the passage says how well an answer starts or
ends there. "No answer" has a column of its own before the passage's.

W windows, each of two rows (question, passage); T tokens, Q of the question; D width.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from firth.core.batching import Ints
from firth.core.types import Batch, Encoding, TextReader
from firth.data.examples import AnswerExample
from firth.nn.pooling import pool_tokens
from firth.tasks.answer.answer import AnswerQuestions
from firth.tasks.batches import Item, Row, frame_row
from firth.tasks.config import TaskConfig
from firth.tasks.network import TaskNetwork, Tensors, by_parts

_ALIGN_DIM = 128


class AnswerApart(AnswerQuestions):
    """The same task on two rows a window."""

    def build(self, pairs: bool = True) -> TaskNetwork:
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
    """What each token stands for, so that words that no vocabulary has are told apart."""
    return [text[start:end].lower() for start, end in offsets.tolist()]


class ComparingNetwork(TaskNetwork):
    """Rows come in twos: a question and a window of its passage."""

    def __init__(self, config: TaskConfig, reader: TextReader) -> None:
        super().__init__(config, reader, 2, compares=True)
        self.align = nn.Linear(self.below_dim, _ALIGN_DIM)
        self.asked = nn.Linear(self.dim, 1)  # how much a word of the question counts
        self.out = nn.Linear(self.dim, 2 * self.dim)  # the question as the starts and ends it looks for
        self.nothing = nn.Linear(2 * self.dim, 2)

    def _new_parts(self) -> list[nn.Module | None]:
        return [*super()._new_parts(), self.align, self.asked, self.nothing]

    def token_scores(self, tensors: Tensors) -> torch.Tensor:
        """Start and end, [W, 1 + T, 2]; the first column is that of no answer."""
        return by_parts(self._compared, tensors, self.config.max_batch_tokens, together=2)

    def _compared(self, tensors: Tensors) -> torch.Tensor:
        layers, mask = self._read(tensors), tensors["doc_ids"] > 0
        hidden = self._above(self._beside_each(self._below(tensors, layers), tensors, mask), tensors, layers)
        hidden = self._dropped(hidden)
        asked, passage = hidden[0::2], hidden[1::2]
        shares = _hide(self.asked(asked).squeeze(-1), mask[0::2]).softmax(-1)
        question_WD = torch.einsum("wt,wtd->wd", shares, asked)
        sought = self.out(question_WD).unflatten(-1, (2, self.dim))
        scores = torch.einsum("wtd,wkd->wtk", passage, sought)
        nothing = self.nothing(torch.cat((question_WD, pool_tokens(passage, mask[1::2], "max")), -1))
        return torch.cat((nothing[:, None], scores), 1)

    def _beside_each(self, below: torch.Tensor, tensors: Tensors, mask: torch.Tensor) -> torch.Tensor:
        """[2W, T, 2D + 1]: every word, what is like it in the other text, and whether it is there itself."""
        longest = max(1, int(mask[0::2].sum(1).max()))
        keys = self.align(self._dropped(below)).relu()
        alike_WQT = keys[0::2, :longest] @ keys[1::2].transpose(1, 2)
        for_passage = _hide(alike_WQT.transpose(1, 2), mask[0::2, None, :longest]).softmax(-1) @ below[0::2, :longest]
        for_question = _hide(alike_WQT, mask[1::2, None]).softmax(-1) @ below[1::2]
        for_question = functional.pad(for_question, (0, 0, 0, below.shape[1] - longest))
        others = torch.stack((for_question, for_passage), 1).flatten(0, 1)
        return torch.cat((below, others, tensors["shared"][:, :, None].to(below.dtype)), -1)


def _hide(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Padding never wins; a finite number, so that a row of padding alone does no harm."""
    return values.masked_fill(~mask, torch.finfo(values.dtype).min)
