"""Knowledge masking: tokens, phrases and entities are hidden as wholes, and several questions are asked of pairs
at once (Sun et al. 2019; Sun et al. 2020).

A row hides tokens (basic), phrases that the corpus shows, or entities from a list; mixed by share, or in
stages of some epochs, basic first. A pair of segments gets one of up to three questions: does B follow
A; are they in order; how far apart are they (adjacent, same document, other document). All losses are added.
A vector for the question can be added to the tokens (``num_tasks`` of the encoder).

B rows, T tokens, N hidden tokens in all, D hidden size, V vocabulary.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from firth.core.seeds import uniform
from firth.core.types import Batch, Inputs, Losses
from firth.corpus.format import Split
from firth.corpus.rows import PackedRows, need_text
from firth.models.ernie.config import KnowledgeMaskingConfig
from firth.models.ernie.phrases import Entities, join_phrases
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.heads import Pooler, TokenHead
from firth.models.shared.masking import HiddenRows, guessing_losses, hide_tokens
from firth.models.shared.next_sentence import PairRows, cut_chunk, draw_pair, elsewhere, gather, trim
from firth.models.shared.rows import Rows, RowWriter, Specials, Turns, build_rows, fill_rows

BASIC, PHRASE, ENTITY = range(3)
TASKS = {
    "next_sentence": ("pair_head", 2),
    "sentence_order": ("order_head", 2),
    "sentence_distance": ("distance_head", 3),
}
NUM_TASKS = len(TASKS)  # the first is also that of rows without a question, and of the model in use
ADJACENT, SAME_DOCUMENT, OTHER_DOCUMENT = range(3)
_LEVEL, _TASK, _DRAW = 50, 51, 52  # what a random number is for


def draw_distance(rows: PairRows, chunk: int, draws: list[float]) -> tuple[int, list[tuple[int, int]]]:
    """How far B is from A: it follows, is elsewhere in the document with text between, or in another one."""
    cut, false, other, place, trim_a, trim_b = draws
    part_a, part_b = cut_chunk(rows, chunk, cut)
    label = int(false * 3)
    first, last = int(rows.chunk_first[chunk]), int(rows.chunk_last[chunk])
    document = int(rows.chunk_document[chunk])
    begin, end = int(rows.document_segments[document]), int(rows.document_segments[document + 1])
    before, after = max(first - 1 - begin, 0), end - last
    if label == SAME_DOCUMENT and not before + after:  # a document of one chunk has no third choice
        label = ADJACENT if other < 0.5 else OTHER_DOCUMENT
        other = 2 * other % 1  # as good as a new draw
    if label == SAME_DOCUMENT:
        earlier = other * (before + after) < before
        segments = np.arange(begin, first - 1) if earlier else np.arange(last, end)
        part_b = gather(rows, chunk, part_a[1], segments, place)
    elif label == OTHER_DOCUMENT:
        part_b = elsewhere(rows, chunk, part_a[1], other, place)
    return label, trim(part_a, part_b, int(rows.lens[chunk]), trim_a, trim_b)


class KnowledgeMasking(nn.Module):
    """The objective: rows with units and questions, the heads, the losses."""

    def __init__(
        self,
        config: KnowledgeMaskingConfig,
        model: EncoderConfig,
        specials: Specials,
        phrases: NDArray[np.uint64],
        entities: Entities | None,
    ) -> None:
        super().__init__()
        self.config, self.specials, self.phrases, self.entities = config, specials, phrases, entities
        self.tasks = [name for name in TASKS if getattr(config, name)]
        self.head = TokenHead(model)
        self.pooler = Pooler(model.hidden_dim) if self.tasks else None
        self.answers = nn.ModuleDict({name: nn.Linear(model.hidden_dim, TASKS[name][1]) for name in self.tasks})
        self.with_tasks = model.num_tasks > 0
        self.weights = {"masked": 1.0, **dict.fromkeys(self.tasks, config.pair_weight)}
        shares = np.asarray(
            [config.basic_weight, config.phrase_weight, config.entity_weight if entities is not None else 0.0]
        )
        self.limits = np.cumsum(shares / shares.sum())[:-1]

    def heads(self) -> dict[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        found: dict[str, nn.Module] = {"token_head": self.head}
        if self.pooler is not None:
            found["pooler"] = self.pooler
        return found | {TASKS[name][0]: self.answers[name] for name in self.tasks}

    def rows(self, split: Split, seed: int) -> PackedRows:
        if self.tasks:
            rows: PackedRows = PairRows(split, self.config.seq_len, self.config.short_prob, seed)
        else:
            rows = PackedRows.of_documents(split, self.config.seq_len, 2, seed)
        need_text(split, len(rows))
        return rows

    def batch(self, split: Split, rows: PackedRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        turns = Turns.of(rows, self.config, seed, first, count)
        levels = self._levels(turns.key, (first + np.arange(count)) / len(rows))
        plain, tasks = self._plain(split, rows, turns)
        for row, level in enumerate(levels.tolist()):
            plain.units[row] = self._join(plain.ids[row], plain.units[row], level)
        return self._pack(hide_tokens(plain, self.config, self.specials, turns.key), tasks)

    def _levels(self, key: tuple[Any, ...], epochs_B: NDArray[np.float64]) -> NDArray[np.int64]:
        if self.config.schedule == "stages":
            last = ENTITY if self.entities is not None else PHRASE
            return np.minimum(epochs_B / self.config.stage_epochs, last).astype(np.int64)
        return np.searchsorted(self.limits, uniform(*key, _LEVEL)[:, 0], side="right")

    def _join(self, ids: NDArray[np.int64], units: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """From words to what this level hides as one."""
        if level == BASIC:
            return units if self.config.whole_word_mask else np.where(units >= 0, np.arange(len(units)), -1)
        joined = join_phrases(ids, units, self.phrases, self.config.max_phrase_len)
        return self.entities.join(ids, joined) if level == ENTITY and self.entities is not None else joined

    def _plain(self, split: Split, rows: PackedRows, turns: Turns) -> tuple[Rows, list[int]]:
        """Rows with words as units, and the task of each pair."""
        config = self.config.replace(whole_word_mask=True, max_ngram=1)
        tasks: list[int] = []
        if not isinstance(rows, PairRows):
            return build_rows(split, rows, turns, config, self.specials), tasks

        def write(writer: RowWriter, chunk: int, turn: int) -> None:
            if rows.chunk_last[chunk] - rows.chunk_first[chunk] == 1:
                writer.add((int(rows.starts[chunk]), int(rows.lens[chunk])))
                return
            task = int(float(uniform(turns.seed, chunk, turn, _TASK)) * len(self.tasks))
            draws = uniform(turns.seed, chunk, turn, _DRAW, np.arange(6)).tolist()
            name = self.tasks[task]
            found = (
                draw_distance(rows, chunk, draws)
                if name == "sentence_distance"
                else draw_pair(rows, chunk, name, draws)
            )
            writer.rows.pair_rows.append(writer.row)
            writer.rows.pair_columns.append(writer.add(*found[1]))
            writer.rows.pair_labels.append(found[0])
            tasks.append(task)

        return fill_rows(split, rows, turns, config, self.specials, write), tasks

    def _pack(self, hidden: HiddenRows, tasks: list[int]) -> Batch:
        plain, places = hidden.plain, hidden.pair_places
        arrays = {"segments": hidden.cut(plain.segments)}
        counts = {"masked": hidden.num_chosen}
        labels, asked = np.asarray(plain.pair_labels, np.int64), np.asarray(tasks, np.int64)
        for number, name in enumerate(self.tasks):
            arrays[f"{name}_places"], arrays[f"{name}_labels"] = places[asked == number], labels[asked == number]
            counts[name] = int((asked == number).sum())
        if self.with_tasks:
            task_of = np.zeros(plain.blocks.shape, np.int64)
            known = list(TASKS)
            for row, column, task in zip(plain.pair_rows, plain.pair_columns, tasks, strict=True):
                task_of[row][plain.blocks[row] == plain.blocks[row, column]] = known.index(self.tasks[task])
            arrays["tasks"] = hidden.cut(task_of)
        return hidden.batch(counts, **arrays)

    def loss(self, model: Encoder, batch: Batch) -> Losses:
        """Cross-entropy at the hidden tokens and for each question; the last block computes nothing else."""
        tensors = batch.tensors
        hidden_ND = model.picked(Inputs.of(tensors), tensors["picks"]).flatten(0, 1)
        found = {"masked": (self.head(hidden_ND[tensors["masked"]], model.embeddings.tokens.weight), tensors["labels"])}
        for name in self.tasks:
            assert self.pooler is not None
            pooled = self.pooler(hidden_ND[tensors[f"{name}_places"]])
            found[name] = (self.answers[name](pooled), tensors[f"{name}_labels"])
        return guessing_losses(found, self.training)
