"""The next token from all that are before it, at every place of a row (Radford et al. 2018).

Every document is read from a token that ends texts and predicts each of its tokens and its end,
each exactly once an epoch. Rows hold documents: cut where they are longer than a row, packed
where they are shorter, none seeing another (``rows=documents``). Or rows are cut from one
stream of all documents, which see one another across the ends between them, as GPT-2 was
trained (``rows=stream``): no padding and the fastest attention.

B rows, T tokens, N predicted tokens, D hidden size.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.run import Scores
from firth.core.types import Batch, Inputs, Losses, Objective
from firth.corpus.format import Corpus, PackedRows, Split, cut_documents, need_text, require_same_tokens
from firth.corpus.streams import StreamRows, TokenStream
from firth.models.gpt.config import DecoderConfig, NextTokenConfig
from firth.models.gpt.format import load_decoder, save_decoder
from firth.models.gpt.model import DecoderModel, name_perplexities
from firth.models.gpt.network import Decoder
from firth.models.shared.pretraining import Pretraining
from firth.nn.attention import look_near
from firth.nn.blocks import Block
from firth.nn.softmax import cross_entropy_sum, judge_labels
from firth.tokenizers.pieces import Pieces

LOSS = "next_token"
_OFFSETS = (-1, -2, -3)  # whom heads look at in the beginning, in turn


class DocumentRows:
    """Documents with their ends, packed into rows by their positions in the stream."""

    def __init__(self, text: TokenStream, seq_len: int, seed: int) -> None:
        self.text, self.seq_len = text, seq_len
        self.packed = PackedRows(*cut_documents(text.borders(), seq_len), seq_len, 0, seed)

    def __len__(self) -> int:
        return len(self.packed)


class NextToken(nn.Module):
    """The objective: packed rows or a stream, and the loss. It has no weights: the head is the model's table."""

    def __init__(self, config: NextTokenConfig, eos_id: int, bos_id: int | None = None) -> None:
        """``bos_id``: what a text is read after, where that is not the token that ends texts."""
        super().__init__()
        self.config = config
        self.eos_id, self.bos_id = eos_id, bos_id
        self.weights = {LOSS: 1.0}

    def rows(self, split: Split, seed: int) -> DocumentRows | StreamRows:
        kind = StreamRows if self.config.rows == "stream" else DocumentRows
        rows: DocumentRows | StreamRows = kind(TokenStream(split, (self.eos_id,)), self.config.seq_len, seed)
        need_text(split, len(rows))
        return rows

    def batch(self, split: Split, rows: DocumentRows | StreamRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments. Each token of the
        stream is predicted from those before it, the first from an end."""
        if isinstance(rows, StreamRows):
            places = rows.positions(first, count)
            arrays = {"ids": self._read(rows, places - 1), "labels": rows.text.read(places).reshape(-1)}
            return Batch(arrays, {LOSS: places.size}, places.size)
        places, blocks, positions = _lay_out(rows, first, count)
        there = blocks > 0
        arrays = {"ids": self._read(rows, np.where(there, places, 0) - 1), "doc_ids": blocks, "positions": positions}
        arrays["labels"] = rows.text.read(places[there])
        if not there.all():
            arrays["read"] = np.flatnonzero(there)
        return Batch(arrays, {LOSS: int(there.sum())}, int(there.sum()))

    def _read(self, rows: DocumentRows | StreamRows, places: NDArray[np.int64]) -> NDArray[np.int64]:
        ids = rows.text.read(places)
        return ids if self.bos_id is None else np.where(ids == self.eos_id, self.bos_id, ids)

    def loss(self, model: Decoder, batch: Batch) -> Losses:
        """Cross-entropy wherever there is text; the head is one matrix product."""
        tensors = batch.tensors
        hidden_BTD = model.last(Inputs.of(tensors))
        hidden_ND, labels_N = hidden_BTD.flatten(0, 1), tensors["labels"]
        if "read" in tensors:
            hidden_ND = hidden_ND[tensors["read"]]
        table_VD = model.head_VD
        if self.training:
            return Losses({LOSS: cross_entropy_sum(hidden_ND, table_VD, None, labels_N)})
        log_probs, _, hits = judge_labels(hidden_ND, table_VD, None, labels_N)
        return Losses({LOSS: -log_probs.sum()}, {"accuracy": (float(hits.sum()), float(len(labels_N)))})


def _lay_out(
    rows: DocumentRows, first: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Places in the stream, blocks and positions, all [B, T], no wider than the fullest row."""
    packed = rows.packed
    numbers, _ = packed.numbers(first, count)
    places, blocks, positions = np.zeros((3, count, rows.seq_len), np.int64)
    used = 0
    for row, number in enumerate(numbers.tolist()):
        at = 0
        for block, sequence in enumerate(packed.sequences(number).tolist(), 1):
            start, end = int(packed.starts[sequence]), at + int(packed.lens[sequence])
            positions[row, at:end] = np.arange(end - at)
            places[row, at:end] = start + positions[row, at:end]
            blocks[row, at:end] = block
            at = end
        used = max(used, at)
    return places[:, :used], blocks[:, :used], positions[:, :used]


class GptPretraining(Pretraining):
    """A decoder that predicts each next token."""

    uses = ('generate {name} "How a text begins"', "encode {name} texts.txt --out vectors.npy")
    model: Decoder
    objective: NextToken

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, DecoderConfig)
        assert isinstance(config.objective, NextTokenConfig)
        eos_id = corpus.pieces.eos_id
        if eos_id is None:
            raise FirthError(
                f"{corpus.folder}: its tokenizer has no token that ends a text, which this recipe needs; prepare the corpus with --tokens bpe"
            )
        return Decoder(config.model), NextToken(config.objective, eos_id, config.model.bos_id)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        config = self.model.config
        self.model.shrink_residuals()
        if config.table_std is not None:
            with torch.no_grad():
                self.model.tokens.weight.mul_(config.table_std / config.init_std)
        if config.local_start:
            attentions = [block.attention for block in self.model.blocks if isinstance(block, Block)]
            look_near(self.model.tokens.weight, attentions, _OFFSETS, config.rotary_base, generator)

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> DecoderConfig:
        config, _ = load_decoder(base)
        require_same_tokens(Pieces.load(base), corpus, base)
        return config

    def start_from(self, base: Path) -> None:
        _, weights = load_decoder(base)
        self.model.load_state_dict(weights)

    def export(self, folder: Path) -> None:
        """A GPT-2 directory, or one of Llama's shape."""
        save_decoder(folder, self.model.config, dict(self.model.state_dict()), self.objective.eos_id)
        self.corpus.pieces.save(folder)

    def extra_scores(self, folder: Path, num_texts: int) -> Scores:
        """Perplexities over whole held-out documents, their ends included."""
        model = DecoderModel.from_weights(*load_decoder(folder), Pieces.load(folder), folder)
        split, starts = self.corpus.heldout, self.corpus.heldout.document_starts
        loss, counts = 0.0, np.zeros(3)
        for document in range(min(num_texts, split.num_documents)):
            start, end = int(starts[document]), int(starts[document + 1])
            ids = np.asarray(split.tokens[start:end], np.int64)
            loss -= float(model.score_ids(np.append(ids, model.eos_id)).sum())
            num_words = int(split.word_starts(start, end).sum())
            counts += len(ids) + 1, num_words + 1, len(model.pieces.decode(ids.tolist())) + 1
        return Scores(name_perplexities(loss, *counts.tolist()))
