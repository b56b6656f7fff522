"""Knowledge masking: tokens, phrases and entities are hidden as wholes, and several questions are asked of pairs
at once (Sun et al. 2019; Sun et al. 2020).

A row hides tokens (basic), phrases that the corpus shows, or entities from a list; mixed by share, or in
stages of some epochs, basic first. A pair of segments gets one of up to three questions: does B follow
A; are they in order; how far apart are they (adjacent, same document, other document). All losses are added.
A vector for the question can be added to the tokens (``num_tasks`` of the encoder).

B rows, T tokens, N hidden tokens in all, D hidden size, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.types import Batch, Inputs, Losses, hashed, uniform
from firth.corpus.format import Corpus, PackedRows, Split, need_text
from firth.models.ernie.config import KnowledgeMaskingConfig
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, Pooler, TokenHead
from firth.models.shared.pretraining import EncoderPretraining
from firth.models.shared.rows import (
    HiddenRows,
    PairRows,
    Rows,
    RowWriter,
    Specials,
    Turns,
    build_rows,
    cut_chunk,
    draw_pair,
    elsewhere,
    fill_rows,
    gather,
    guessing_losses,
    hide_tokens,
    trim,
)
from firth.tokenizers.pieces import Pieces


def word_hashes(ids: NDArray[np.int64], begins: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A number for each word, equal for equal words; ``begins`` marks the first token of each."""
    starts = np.flatnonzero(begins)
    if not len(starts):
        return np.zeros(0, np.uint64)
    inside = np.arange(len(ids)) - np.repeat(starts, np.diff(np.append(starts, len(ids))))
    with np.errstate(over="ignore"):
        sums: NDArray[np.uint64] = np.add.reduceat(hashed(ids, inside), starts)
    return sums


def pair_hashes(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return hashed(first, second)


def find_phrases(split: Split, sample_tokens: int, min_count: int, min_score: float) -> NDArray[np.uint64]:
    """The hashes, sorted, of all pairs of words that belong together, from the first tokens of a split."""
    size = min(sample_tokens, len(split.tokens))
    if not size:
        return np.zeros(0, np.uint64)
    begins = split.word_starts(0, size)
    borders = np.asarray(split.sentences)
    borders = borders[borders < size]
    begins[borders] = True
    begins[0] = True
    words = word_hashes(np.asarray(split.tokens[:size], np.int64), begins)
    opens = np.isin(np.flatnonzero(begins), borders)[1:]  # the second word begins a sentence: no pair
    first, second = words[:-1][~opens], words[1:][~opens]
    _, number, counts = np.unique(words, return_inverse=True, return_counts=True)
    pairs, at, pair_counts = np.unique(pair_hashes(first, second), return_index=True, return_counts=True)
    here = np.flatnonzero(~opens)[at]
    p_first = counts[number[:-1][here]] / len(words)
    p_second = counts[number[1:][here]] / len(words)
    p_pair = pair_counts / max(len(first), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.log(p_pair / (p_first * p_second)) / -np.log(p_pair)
    return pairs[(pair_counts >= min_count) & (scores >= min_score)]


def join_phrases(
    ids: NDArray[np.int64], units: NDArray[np.int64], phrases: NDArray[np.uint64], longest: int
) -> NDArray[np.int64]:
    """The units [T] of a row, words at first, with the words of a phrase as one; -1 stays what it was."""
    places = np.flatnonzero(units >= 0)
    if not len(places) or not len(phrases):
        return units
    inner, owner = ids[places], units[places]
    begins = np.append(True, owner[1:] != owner[:-1])
    starts = np.flatnonzero(begins)
    words = word_hashes(inner, begins)
    near = np.diff(places)[starts[1:] - 1] == 1  # nothing special between the two words
    keys = pair_hashes(words[:-1], words[1:])
    at = np.minimum(np.searchsorted(phrases, keys), len(phrases) - 1)
    together = (phrases[at] == keys) & near
    group = np.zeros(len(words), np.int64)
    length = 1
    for word in range(1, len(words)):
        length = length + 1 if together[word - 1] and length < longest else 1
        group[word] = group[word - 1] + (length == 1)
    out = units.copy()
    out[places] = group[np.cumsum(begins) - 1]
    return out


class Entities:
    """A list of names as token ids, found in rows, the longest first."""

    def __init__(self, names: Sequence[Sequence[int]], inner_ids: Sequence[int]) -> None:
        """``inner_ids`` are tokens that cannot begin a word: a name does not end before one."""
        self.by_first: dict[int, list[tuple[int, ...]]] = {}
        for name in sorted({tuple(name) for name in names if len(name)}, key=lambda name: (-len(name), name)):
            self.by_first.setdefault(name[0], []).append(name)
        self.inner = frozenset(inner_ids)

    def __len__(self) -> int:
        return sum(len(names) for names in self.by_first.values())

    def join(self, ids: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The units [T] of a row with each name as one unit of its own."""
        out = units.copy()
        row, able = ids.tolist(), (units >= 0).tolist()
        fresh = int(units.max()) + 1
        at = 0
        while at < len(row):
            size = self._match(row, able, at)
            if size:
                out[at : at + size] = fresh
                tail = at + size  # what is left of a word that the name cut through is another unit
                while tail < len(row) and able[tail] and units[tail] == units[at + size - 1]:
                    out[tail] = fresh + 1
                    tail += 1
                fresh += 2
            at += max(size, 1)
        return out

    def _match(self, row: list[int], able: list[bool], at: int) -> int:
        for name in self.by_first.get(row[at], ()) if able[at] else ():
            end = at + len(name)
            if tuple(row[at:end]) == name and all(able[at:end]) and (end == len(row) or row[end] not in self.inner):
                return len(name)
        return 0


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


_SPACE = "▁"  # how Unigram writes it


def read_entities(path: Path, pieces: Pieces) -> Entities:
    """A file with a name a line, as the tokenizer sees them."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file; entities= names a file with an entity a line") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FirthError(f"{path}: cannot be read as UTF-8 text ({error}); check the file") from None
    names = [pieces.encode(line.strip(), add_special=False, read_special=False).ids.tolist() for line in lines]
    names += [_inside(pieces, name) for name in names]
    vocabulary = pieces.backend.get_vocab(with_added_tokens=True)
    found = Entities(
        [name for name in names if pieces.unk_id not in name],
        [number for token, number in vocabulary.items() if token.startswith("##")],
    )
    if not len(found):
        raise FirthError(f"{path}: no entity in it that the tokenizer knows; write one entity per line")
    return found


def _inside(pieces: Pieces, name: list[int]) -> list[int]:
    """A name where no space is before it, as in Chinese, if its first piece has one in it; else none."""
    first = pieces.token(name[0]) if name else ""
    if not first.startswith(_SPACE):
        return []
    bare = pieces.id(first.removeprefix(_SPACE)) if first != _SPACE else None
    return name[1:] if first == _SPACE else [] if bare is None else [bare, *name[1:]]


class ErniePretraining(EncoderPretraining):
    """An encoder that predicts hidden phrases and entities, and answers the tasks about whole texts."""

    objective: KnowledgeMasking

    def build_objective(
        self, config: RunConfig, corpus: Corpus, encoder: Encoder, specials: Specials
    ) -> KnowledgeMasking:
        objective, num_tasks = config.objective, encoder.config.num_tasks
        assert isinstance(objective, KnowledgeMaskingConfig)
        if 0 < num_tasks < NUM_TASKS:
            raise FirthError(f"num_tasks={num_tasks} is too few: set it to {NUM_TASKS}, or to 0 for none")
        phrases = find_phrases(corpus.train, objective.sample_tokens, objective.phrase_count, objective.phrase_score)
        entities = read_entities(Path(objective.entities), corpus.pieces) if objective.entities else None
        return KnowledgeMasking(objective, encoder.config, specials, phrases, entities)

    @classmethod
    def fewest_documents(cls, config: RunConfig) -> int:
        return 2 if any(getattr(config.objective, name) for name in TASKS) else 1
