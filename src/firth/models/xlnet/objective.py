"""Permuted order: tokens are predicted one after another in a random order (Yang et al. 2019, 2.2 and 2.3).

Of each row one token in ``predict_one_in`` is a target, in spans of one to five (a span of n somewhere in every
n * predict_one_in tokens). All other tokens come first in the order, then the targets and the special tokens in
random order; a target is predicted from all that come before it, by the query stream, and from a memory of
what was read just before the row. Half of the lanes read their text backward ("bidirectional data"), with
distances that count backward too. Departures: targets are drawn by the paper's rule, not by words; rows
are a stream of documents, without pairs; the whole row is permuted at once. (A lane is one of the parts of the text that
are read side by side; a stream means attention's content and query streams here.)

B rows, T tokens, P targets of a row, N targets in all, M memory, D hidden size, L layers, V vocabulary.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, processors
from torch import nn
from torch.nn import functional

from firth.core.registry import RunConfig
from firth.core.types import Batch, Losses, Objective, uniform
from firth.corpus.format import Corpus, Split, need_text, require_same_tokens
from firth.corpus.streams import Streams, TokenStream, cut_equally
from firth.models.shared.pretraining import Pretraining
from firth.models.shared.rows import Specials, picked_columns, specials_of
from firth.models.xlnet.config import PermutedOrderConfig, TwoStreamConfig
from firth.models.xlnet.format import load_xlnet, save_xlnet
from firth.models.xlnet.network import TwoStream
from firth.tokenizers.pieces import Pieces
from firth.training.ranks import process_count

_DOCUMENTS, _SPAN, _ORDER = 3, 30, 31  # what a random number is for
_CLS_SEGMENT = 2  # as published: [CLS] is of a segment of its own


def choose_spans(num_tokens: int, predict_one_in: int, longest: int, draws: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Targets: in each stretch of n * predict_one_in tokens a span of n, n from 1 to ``longest``, anywhere in it.

    ``draws`` holds two numbers for each stretch, [S, 2].
    """
    chosen = np.zeros(num_tokens, np.bool_)
    at = number = 0
    while at < num_tokens:
        size = 1 + int(draws[number, 0] * longest)
        start = at + int(draws[number, 1] * (size * (predict_one_in - 1) + 1))
        chosen[start : start + size] = True
        at, number = at + size * predict_one_in, number + 1
    return chosen


class PermutedOrder(nn.Module):
    """The objective: rows of lanes with an order, the output bias, the memory of every lane, the loss."""

    memory: torch.Tensor

    def __init__(self, config: PermutedOrderConfig, model: TwoStreamConfig, specials: Specials, num_lanes: int) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.num_lanes = num_lanes
        self.bias = nn.Parameter(torch.zeros(model.vocab_size))
        shape = (model.num_layers, num_lanes, config.memory_len, model.hidden_dim)
        self.register_buffer("memory", torch.zeros(shape))  # kept in checkpoints, so that resuming is exact
        self._heldout = torch.zeros(shape)  # what a test remembers is another matter
        self.weights = {"targets": 1.0}

    def rows(self, split: Split, seed: int) -> Streams:
        text = TokenStream(split, (self.specials.sep_id, self.specials.cls_id), shuffle_key=(seed, _DOCUMENTS))
        need_text(split, len(text))
        return Streams(text, cut_equally(len(text), self.num_lanes, self.config.seq_len), self.config.seq_len)

    def batch(self, split: Split, rows: Streams, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        numbers, lanes = np.divmod(np.arange(first, first + count), self.num_lanes)
        shape = (count, self.config.seq_len)
        ids = np.full(shape, self.specials.pad_id, np.int64)
        segments = np.zeros(shape, np.int64)
        order, limit = np.full(shape, np.iinfo(np.int64).max), np.zeros(shape, np.int64)
        chosen, fresh = np.zeros(shape, np.bool_), np.zeros(count, np.bool_)
        backward = (lanes % 2 == 1) & self.config.bidirectional_data
        for row, (number, lane) in enumerate(zip(numbers.tolist(), lanes.tolist(), strict=True)):
            window = rows.window(number, slice(lane, lane + 1), bool(backward[row]))
            positions = window.positions[window.inside]
            size = len(positions)
            at = rows.text.locate(positions, window.epoch)
            ids[row, :size] = rows.text.read(positions, window.epoch)
            segments[row, :size] = at.unit != at.unit[:1]
            segments[row, :size][ids[row, :size] == self.specials.cls_id] = _CLS_SEGMENT
            fresh[row] = window.number == 0
            key = (seed, lane, window.number, window.epoch)
            spans = self.config.seq_len // self.config.predict_one_in + 1
            draws = uniform(*key, _SPAN, np.arange(2 * spans)).reshape(spans, 2)
            targets = choose_spans(size, self.config.predict_one_in, self.config.max_span_len, draws) & ~at.is_end
            ranks = np.argsort(uniform(*key, _ORDER, np.arange(size)), kind="stable")
            chosen[row, :size] = targets
            order[row, :size] = np.where(targets | at.is_end, ranks, -1)
            limit[row, :size] = order[row, :size] + ~targets  # all but targets may see themselves
        picks, where = picked_columns(chosen)
        arrays = {
            "ids": ids,
            "segments": segments,
            "order": order,
            "limit": limit,
            "picks": picks,
            "targets": where[chosen],
            "labels": ids[chosen],
            "lanes": lanes,
            "fresh": fresh,
            "backward": backward,
        }
        num_tokens = int((order < np.iinfo(np.int64).max).sum())
        return Batch(arrays, {"targets": int(chosen.sum())}, num_tokens)

    def loss(self, model: TwoStream, batch: Batch) -> Losses:
        """Cross-entropy at the targets; the lanes of the batch then remember its rows."""
        tensors = batch.tensors
        lanes, ids = tensors["lanes"], tensors["ids"]
        memory = self.memory if self.training else self._heldout.to(ids.device)
        before = memory[:, lanes] * ~tensors["fresh"][None, :, None, None]
        seen_BTT = tensors["order"][:, None, :] < tensors["limit"][:, :, None]
        hidden_BPD, given = model.predicted(
            tensors["picks"],
            ids,
            seen_BTT,
            tensors["segments"],
            before if self.config.memory_len else None,
            tensors["backward"] if self.config.bidirectional_data else None,
        )
        if self.config.memory_len:
            after = torch.cat((before, given), dim=2)[:, :, -self.config.memory_len :]
            if self.training:
                self.memory[:, lanes] = after.detach().to(self.memory.dtype)
            else:
                self._heldout = memory.index_copy(1, lanes, after.to(memory.dtype))
        hidden_ND = hidden_BPD.flatten(0, 1)[tensors["targets"]]
        scores_NV = functional.linear(hidden_ND, model.embeddings.tokens.weight, self.bias)
        labels = tensors["labels"]
        sums = {"targets": functional.cross_entropy(scores_NV, labels, reduction="sum")}
        if self.training:
            return Losses(sums)
        hits = float((scores_NV.argmax(-1) == labels).sum())
        return Losses(sums, {"targets_accuracy": (hits, float(len(labels)))})


class XlnetPretraining(Pretraining):
    """Each row of a step is a lane with a memory of its own."""

    model: TwoStream
    objective: PermutedOrder

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, TwoStreamConfig)
        assert isinstance(config.objective, PermutedOrderConfig)
        specials = specials_of(corpus.pieces, corpus.folder)
        if config.objective.memory_len:
            self.lanes = {"objective.memory": 1}
        num_lanes = self.rows_per_step * process_count()  # each process reads the same ones in every step
        return TwoStream(config.model), PermutedOrder(config.objective, config.model, specials, num_lanes)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        self.model.start(self.model.config.init_std, generator)

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> TwoStreamConfig:
        config, _, _ = load_xlnet(base)
        require_same_tokens(Pieces.load(base), corpus, base)
        return config

    def start_from(self, base: Path) -> None:
        _, weights, bias = load_xlnet(base)
        self.model.load_state_dict(weights)
        if bias is not None:
            self.objective.bias.data.copy_(bias)

    def export(self, folder: Path) -> None:
        """A directory that transformers reads; its tokenizer puts [CLS] last, as XLNet does."""
        pieces = with_class_last(self.corpus.pieces)
        save_xlnet(folder, self.model.config, dict(self.model.state_dict()), self.objective.bias.detach(), pieces)
        pieces.save(folder)


def with_class_last(pieces: Pieces) -> Pieces:
    """The same tokenizer, but texts end with [SEP] [CLS] with nothing before them (Yang et al. 2019);
    [CLS] is of segment 2."""
    assert pieces.cls_id is not None
    assert pieces.sep_id is not None
    cls, sep = pieces.token(pieces.cls_id), pieces.token(pieces.sep_id)
    backend = Tokenizer.from_str(pieces.backend.to_str())
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A:0 {sep}:0 {cls}:2",
        pair=f"$A:0 {sep}:0 $B:1 {sep}:1 {cls}:2",
        special_tokens=[(cls, pieces.cls_id), (sep, pieces.sep_id)],
    )
    return Pieces(backend, pieces.segmentation)
