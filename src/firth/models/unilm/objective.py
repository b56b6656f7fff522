"""Unified masks: one encoder learns to see in both directions, left to right, right to left, and from a source to a target
(Dong et al. 2019).

In each row hidden tokens are predicted as BERT does, but the row says who sees whom: all see all; each
token sees itself and what is left of it (or right of it); or the first segment sees itself and the
second sees the first and what is left in the second. Segment numbers tell the kinds apart, as published.
The kind is drawn a row and not a batch, so that a big batch is still the sum of small ones. Departures: no
next-sentence loss; segments are cut between sentences where a sequence has several.

B rows, T tokens, N hidden tokens in all, D hidden size, V vocabulary.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.run import Scores
from firth.core.types import Batch, Inputs, Losses, uniform
from firth.corpus.format import Corpus, PackedRows, Split, need_text
from firth.corpus.pairs import PairsCorpus, PairSplit, as_pairs
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, TokenHead
from firth.models.shared.pretraining import EncoderPretraining
from firth.models.shared.rows import (
    Rows,
    RowWriter,
    Specials,
    Turns,
    fill_rows,
    guessing_losses,
    hide_tokens,
    picked_columns,
)
from firth.models.shared.translation_model import score_translations
from firth.models.unilm.config import MaskedTargetsConfig, UnifiedMasksConfig
from firth.models.unilm.model import UnilmModel

KINDS = ("bidirectional", "left_to_right", "right_to_left", "seq2seq")
BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT, SEQ2SEQ = range(4)
_KIND, _CUT = 40, 41  # what a random number is for


def first_segments(num_segments: int) -> NDArray[np.int64]:
    """The number of the first segment of each kind, the second is the next; alike where there are too few."""
    return np.asarray([0, 2, 3, 4] if num_segments >= 6 else [0, 0, 0, 0])


def order_of(
    kinds_B: NDArray[np.int64], positions_BT: NDArray[np.int64], segments_BT: NDArray[np.int64]
) -> NDArray[np.int64]:
    """A number for each token: token i sees token j of its sequence if j's number is not larger than i's."""
    kind = kinds_B[:, None]
    order = np.where(kind == LEFT_TO_RIGHT, positions_BT, 0)
    order = np.where(kind == RIGHT_TO_LEFT, -positions_BT, order)
    return np.where((kind == SEQ2SEQ) & (segments_BT == 1), positions_BT, order)


class UnifiedMasks(nn.Module):
    """The objective: hidden tokens in rows of four kinds, the head, the loss where something is predicted."""

    def __init__(self, config: UnifiedMasksConfig, model: EncoderConfig, specials: Specials) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.head = TokenHead(model)
        self.first_segments = first_segments(model.num_segments)
        self.weights = {"masked": 1.0}
        shares = np.asarray(
            [
                config.bidirectional_weight,
                config.left_to_right_weight,
                config.right_to_left_weight,
                config.seq2seq_weight,
            ]
        )
        self.limits = np.cumsum(shares / shares.sum())[:-1]

    def heads(self) -> dict[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        return {"token_head": self.head}

    def rows(self, split: Split, seed: int) -> PackedRows:
        rows = PackedRows.of_documents(split, self.config.seq_len, 3, seed)
        need_text(split, len(rows))
        return rows

    def batch(self, split: Split, rows: PackedRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        turns = Turns.of(rows, self.config, seed, first, count)
        kinds = np.searchsorted(self.limits, uniform(*turns.key, _KIND)[:, 0], side="right")
        plain = self._plain(split, rows, turns, kinds)
        hidden = hide_tokens(plain, self.config, self.specials, turns.key)
        return hidden.batch(
            {"masked": hidden.num_chosen},
            segments=hidden.cut(plain.segments + self.first_segments[kinds][:, None]),
            order=hidden.cut(order_of(kinds, plain.positions, plain.segments)),
            kinds=np.repeat(kinds, hidden.chosen.sum(1)),
        )

    def _plain(self, split: Split, rows: PackedRows, turns: Turns, kinds: NDArray[np.int64]) -> Rows:
        """Sequences as one segment where the kind goes one way, else as two."""

        def write(writer: RowWriter, sequence: int, turn: int) -> None:
            start, length = int(rows.starts[sequence]), int(rows.lens[sequence])
            if kinds[writer.row] in (LEFT_TO_RIGHT, RIGHT_TO_LEFT) or length < 2:
                writer.add((start, length))
                return
            middle = _cut(split, start, length, float(uniform(turns.seed, sequence, turn, _CUT)))
            writer.add((start, middle - start), (middle, start + length - middle))

        return fill_rows(split, rows, turns, self.config, self.specials, write)

    def loss(self, model: Encoder, batch: Batch) -> Losses:
        """Cross-entropy at the hidden tokens; the last block computes nothing else."""
        tensors = batch.tensors
        hidden_ND = model.picked(Inputs.of(tensors), tensors["picks"]).flatten(0, 1)[tensors["masked"]]
        scores_NV = self.head(hidden_ND, model.embeddings.tokens.weight)
        labels, kinds = tensors["labels"], tensors["kinds"]
        if self.training:
            return Losses({"masked": functional.cross_entropy(scores_NV, labels, reduction="sum")})
        losses_N = functional.cross_entropy(scores_NV, labels, reduction="none")
        hits_N = scores_NV.argmax(-1) == labels
        metrics = {"masked_accuracy": (float(hits_N.sum()), float(len(labels)))}
        for number, name in enumerate(KINDS):
            mine = kinds == number
            metrics[f"{name}_loss"] = (float(losses_N.detach()[mine].sum()), float(mine.sum()))
        return Losses({"masked": torch.sum(losses_N)}, metrics)


def _cut(split: Split, start: int, length: int, draw: float) -> int:
    """Where the second segment begins: at one of the sentences inside, or anywhere if there is none."""
    first, last = np.searchsorted(split.sentences, (start + 1, start + length)).tolist()
    if last > first:
        return int(split.sentences[first + int(draw * (last - first))])
    return start + 1 + int(draw * (length - 1))


NUM_SPECIAL = 3


def fit_lens(
    source_lens: NDArray[np.int64], target_lens: NDArray[np.int64], room: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How much of each side is used: all of it where both fit; else the source gives way, down to half the room."""
    target = np.minimum(target_lens, np.maximum(room - source_lens, room // 2))
    return np.minimum(source_lens, room - target), target


class PairedRows(PackedRows):
    """Pairs packed into rows: ``starts`` are the numbers of the pairs."""

    def __init__(self, split: PairSplit, seq_len: int, seed: int) -> None:
        self.source_lens, self.target_lens = fit_lens(split.lens("source"), split.lens("target"), seq_len - NUM_SPECIAL)
        numbers = np.arange(split.num_pairs)
        super().__init__(numbers, self.source_lens + self.target_lens, seq_len, NUM_SPECIAL, seed)


class MaskedTargets(nn.Module):
    """The objective: rows of pairs with hidden targets, the head, the loss where something is predicted."""

    def __init__(self, config: MaskedTargetsConfig, model: EncoderConfig, specials: Specials) -> None:
        super().__init__()
        self.config, self.specials = config, specials
        self.head = TokenHead(model)
        self.first_segment = int(first_segments(model.num_segments)[SEQ2SEQ])
        self.weights = {"masked": 1.0}

    def heads(self) -> dict[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        return {"token_head": self.head}

    def rows(self, split: PairSplit, seed: int) -> PairedRows:
        if not split.num_pairs:
            raise FirthError(f"{split.folder}: no pairs to train on; prepare a corpus with more of them")
        return PairedRows(split, self.config.seq_len, seed)

    def _plain(self, split: PairSplit, rows: PairedRows, numbers: NDArray[np.int64]) -> Rows:
        out = Rows.empty(len(numbers), self.config.seq_len, self.specials.pad_id)
        for row, number in enumerate(numbers.tolist()):
            begin = 0
            for block, pair in enumerate(rows.sequences(number).tolist(), start=1):
                middle = begin + int(rows.source_lens[pair]) + 2
                end = middle + int(rows.target_lens[pair]) + 1
                out.ids[row, begin] = self.specials.cls_id
                out.ids[row, begin + 1 : middle - 1] = split.sentence("source", pair)[: rows.source_lens[pair]]
                out.ids[row, middle : end - 1] = split.sentence("target", pair)[: rows.target_lens[pair]]
                out.ids[row, [middle - 1, end - 1]] = self.specials.sep_id
                out.positions[row, begin:end] = np.arange(end - begin)
                out.blocks[row, begin:end] = block
                out.segments[row, middle:end] = 1
                out.units[row, middle:end] = np.arange(middle, end)
                begin = end
        return out

    def batch(self, split: PairSplit, rows: PairedRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        turns = Turns.of(rows, self.config, seed, first, count)
        plain = self._plain(split, rows, turns.numbers)
        if self.config.targets == "pseudo_masked":
            return self._with_masks(plain)
        hidden = hide_tokens(plain, self.config, self.specials, turns.key)
        return hidden.batch(
            {"masked": hidden.num_chosen},
            segments=hidden.cut(plain.segments + self.first_segment),
            order=hidden.cut(order_of(np.full(count, SEQ2SEQ), plain.positions, plain.segments)),
        )

    def _with_masks(self, plain: Rows) -> Batch:
        """The rows with a [MASK] behind them for every token of their targets."""
        targets_BT, used = plain.units >= 0, plain.used
        columns_BM, _ = picked_columns(targets_BT)
        there_BM = np.arange(columns_BM.shape[1]) < targets_BT.sum(1, keepdims=True)

        def behind(array_BT: NDArray[np.int64]) -> NDArray[np.int64]:
            taken_BM = np.where(there_BM, np.take_along_axis(array_BT, columns_BM, 1), 0)
            return np.concatenate((array_BT[:, :used], taken_BM), axis=1)

        order = order_of(np.full(len(plain.ids), SEQ2SEQ), plain.positions, plain.segments)
        mask_id, pad_id = self.specials.mask_id, self.specials.pad_id
        arrays = {
            "ids": np.concatenate((plain.ids[:, :used], np.where(there_BM, mask_id, pad_id)), axis=1),
            "positions": behind(plain.positions),
            "doc_ids": behind(plain.blocks),
            "segments": behind(plain.segments) + self.first_segment,
            "order": behind(order),
            "alone": np.concatenate((np.zeros((len(there_BM), used), np.bool_), there_BM), axis=1),
            "picks": np.broadcast_to(used + np.arange(columns_BM.shape[1]), columns_BM.shape).copy(),
            "masked": np.flatnonzero(there_BM),
            "labels": plain.ids[targets_BT],
        }
        arrays["order"][arrays["alone"]] -= 1  # not the token that it stands for
        return Batch(arrays, {"masked": int(targets_BT.sum())}, plain.num_tokens)

    def loss(self, model: Encoder, batch: Batch) -> Losses:
        """Cross-entropy at the hidden tokens; the last block computes nothing else."""
        tensors = batch.tensors
        hidden_ND = model.picked(Inputs.of(tensors), tensors["picks"]).flatten(0, 1)[tensors["masked"]]
        scores_NV = self.head(hidden_ND, model.embeddings.tokens.weight)
        return guessing_losses({"masked": (scores_NV, tensors["labels"])}, self.training)


class UnilmPretraining(EncoderPretraining):
    """An encoder that predicts hidden tokens from both sides, from one, and as in a target."""

    objective: UnifiedMasks

    def build_objective(self, config: RunConfig, corpus: Corpus, encoder: Encoder, specials: Specials) -> UnifiedMasks:
        assert isinstance(config.objective, UnifiedMasksConfig)
        return UnifiedMasks(config.objective, encoder.config, specials)


_SCORED = 200  # held-out sources for which targets are written at the end
_NUM_SEGMENTS = 6


class UnilmWriting(EncoderPretraining):
    """Pairs in, a model that writes out; best begun with the weights of a UniLM run."""

    objective: MaskedTargets
    uses = ('translate {name} "A text."', "translate {name} texts.txt --beams 5")
    reads_pairs = True

    @classmethod
    def open_corpus(cls, path: Path) -> PairsCorpus:
        return PairsCorpus.open(path)

    def build_objective(self, config: RunConfig, corpus: Corpus, encoder: Encoder, specials: Specials) -> MaskedTargets:
        assert isinstance(config.objective, MaskedTargetsConfig)
        if as_pairs(corpus).info.separate:
            raise FirthError(f"{corpus.folder}: each side has its own vocabulary; prepare it without --separate")
        if encoder.config.num_segments < _NUM_SEGMENTS or encoder.config.positions == "relative":
            raise FirthError(
                f"a model that writes needs {_NUM_SEGMENTS} segments and learned or rotary positions: begin with a run of unilm-tiny or unilm-mini"
            )
        return MaskedTargets(config.objective, encoder.config, specials)

    def final_scores(self, folder: Path) -> Scores:
        """BLEU and chrF of what is written for held-out sources, with their signatures."""
        pairs = as_pairs(self.corpus)
        heldout = pairs.heldout
        if not heldout.num_pairs:
            return Scores()
        if self.score_pairs is not None:
            return self.score_pairs(folder, heldout, _SCORED)
        sources, references = (heldout.texts(side)[:_SCORED] for side in ("source", "target"))
        longest = min(int(heldout.lens("target").max()) + 8, self.model.config.max_positions // 2)
        found = UnilmModel.load(folder).translate(sources, max_tokens=longest)
        return score_translations(found, references, pairs.info.languages[1])

    def extra_scores(self, folder: Path, num_texts: int) -> Scores:
        return self.final_scores(folder)
