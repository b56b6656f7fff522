"""Corrupted spans: short stretches of text are taken out and written by the decoder (Raffel et al. 2020, 3.1.4).

15 % of the tokens are taken out in spans of 3 tokens on average. In the input a sentinel stands for each span; the
target is every sentinel with its span. How many tokens and spans are taken out depends on the length alone; where,
is drawn: kept and taken tokens are each cut into as many parts as there are spans, every way to cut them equally
likely, and the parts take turns, a kept one first. So all rows of a batch have the same lengths, nothing is padded,
and a row of text is as long as makes its input fill ``seq_len`` (512: 568 tokens, 114 in the target).

Rows are cut from one stream of all documents with the token that ends a text between them.

B rows, T tokens of text, S tokens of the input, N labels, P parts.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, processors
from torch import nn

from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.types import Batch, Losses, Objective, uniform
from firth.corpus.format import Corpus, Split, need_text, same_tokens
from firth.corpus.streams import StreamRows, TokenStream
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.shared.pretraining import Pretraining
from firth.models.shared.translation import rate_factors, scaled, target_losses
from firth.models.shared.translator_format import load_translator, save_translator
from firth.models.t5.config import CorruptedSpansConfig
from firth.tokenizers.pieces import Pieces, sentinel, sentinel_ids

LOSS = "spans"
_TAKEN, _KEPT = 51, 52  # what the random numbers here are for
Key = tuple[Any, ...]


def count_taken(num_tokens: int, config: CorruptedSpansConfig) -> tuple[int, int]:
    """How many tokens of a text are taken out, and in how many spans."""
    taken = min(max(round(num_tokens * config.noise_density), 1), num_tokens - 1)
    spans = max(round(taken / config.mean_span_len), 1)
    return taken, min(spans, num_tokens - taken)  # between two spans something stays


def corrupted_lens(num_tokens: int, config: CorruptedSpansConfig) -> tuple[int, int]:
    """Tokens of the input and of the target, with sentinels and ends."""
    taken, spans = count_taken(num_tokens, config)
    return num_tokens - taken + spans + 1, taken + spans + 1


def text_len(config: CorruptedSpansConfig) -> int:
    """The longest text whose input fits into a row."""
    num_tokens = 2
    while corrupted_lens(num_tokens + 1, config)[0] <= config.seq_len:
        num_tokens += 1
    return num_tokens


def cut(num_items: int, num_parts: int, key: Key) -> NDArray[np.int64]:
    """Lengths [B, P] of parts of at least one item, every way to cut equally likely; ``key`` ends in [B, 1]."""
    order = np.argsort(uniform(*key, np.arange(num_items - 1)), axis=1, kind="stable")
    borders = np.sort(order[:, : num_parts - 1] + 1, axis=1)
    num_rows = len(borders)
    edges = np.concatenate(
        (np.zeros((num_rows, 1), np.int64), borders, np.full((num_rows, 1), num_items, np.int64)), axis=1
    )
    return np.diff(edges, axis=1)


def choose_spans(
    num_tokens: int, config: CorruptedSpansConfig, seed: int, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which tokens are taken out of the rows of these numbers, [B, T]."""
    taken, spans = count_taken(num_tokens, config)
    kept_lens = cut(num_tokens - taken, spans, (seed, rows[:, None], _KEPT))
    taken_lens = cut(taken, spans, (seed, rows[:, None], _TAKEN))
    turns = np.stack((kept_lens, taken_lens), axis=2).reshape(len(rows), -1)
    borders = np.zeros((len(rows), num_tokens + 1), np.int64)
    np.put_along_axis(borders, np.cumsum(turns, axis=1), 1, axis=1)
    return np.cumsum(borders[:, :num_tokens], axis=1) % 2 == 1


def corrupt(
    tokens: NDArray[np.int64], taken: NDArray[np.bool_], sentinels: NDArray[np.int64], eos_id: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Inputs and targets of texts [B, T], each with its end. Every text begins with a token that is kept, and all
    have equally many tokens and spans taken out."""
    assert not taken[:, 0].any()
    end = np.full((len(tokens), 1), eos_id, np.int64)
    inputs, targets = (np.concatenate((_replaced(tokens, out, sentinels), end), axis=1) for out in (taken, ~taken))
    return inputs, targets


def _replaced(tokens: NDArray[np.int64], out: NDArray[np.bool_], sentinels: NDArray[np.int64]) -> NDArray[np.int64]:
    """A sentinel for every run of tokens that is out."""
    first = out.copy()
    first[:, 1:] &= ~out[:, :-1]
    numbers = np.cumsum(first, axis=1) - 1
    found = np.where(first, sentinels[np.maximum(numbers, 0)], tokens)
    return found[~out | first].reshape(len(tokens), -1)


class CorruptedSpans(nn.Module):
    """The objective; it has no weights of its own: the model scores its vocabulary."""

    def __init__(self, config: CorruptedSpansConfig, start_id: int, eos_id: int, sentinels: list[int]) -> None:
        super().__init__()
        self.config = config
        self.start_id, self.eos_id = start_id, eos_id
        self.sentinels = np.asarray(sentinels, np.int64)
        self.text_len = text_len(config)
        spans = count_taken(self.text_len, config)[1]
        if spans > len(sentinels):
            raise FirthError(
                f"a row of {config.seq_len} tokens has {spans} spans but there are {len(sentinels)} sentinels: raise num_sentinels or mean_span_len, or lower seq_len"
            )
        self.weights = {LOSS: 1.0}

    def rows(self, split: Split, seed: int) -> StreamRows:
        """Rows of text, cut at other places in every epoch."""
        rows = StreamRows(TokenStream(split, (self.eos_id,)), self.text_len, seed)
        need_text(split, len(rows.text), 2)
        return rows

    def batch(self, split: Split, rows: StreamRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        tokens = rows.text.read(rows.positions(first, count))
        taken = choose_spans(rows.seq_len, self.config, seed, np.arange(first, first + count))
        inputs, targets = corrupt(tokens, taken, self.sentinels, self.eos_id)
        begun = np.concatenate((np.full((count, 1), self.start_id, np.int64), targets[:, :-1]), axis=1)
        arrays = {"source": inputs, "target": begun, "labels": targets.reshape(-1)}
        return Batch(arrays, {LOSS: targets.size}, tokens.size)

    def loss(self, model: Any, batch: Batch) -> Losses:
        """Cross-entropy of every token of the targets; sentinels and ends, a good quarter of them, are soon known, so a
        test tells of the text by itself."""
        tensors = batch.tensors
        hidden_BTD, labels_N = model.hidden(tensors["source"], None, tensors["target"]), tensors["labels"]
        known = torch.as_tensor([*self.sentinels.tolist(), self.eos_id], device=labels_N.device)
        text_N = None if self.training else ~torch.isin(labels_N, known)
        return target_losses(LOSS, model, hidden_BTD.flatten(0, 1), labels_N, self.training, text_N=text_N)


def pieces_of(corpus: Corpus, config: CorruptedSpansConfig) -> Pieces:
    """The tokenizer of the corpus with sentinels behind it, or a word about what is missing."""
    pieces = corpus.pieces
    missing = [
        name for name, number in (("padding", pieces.pad_id), ("the end of a text", pieces.eos_id)) if number is None
    ]
    if missing:
        raise FirthError(
            f"{corpus.folder}: its tokenizer has no token for {' and '.join(missing)}, which this recipe needs; prepare the corpus with --tokens unigram"
        )
    return with_sentinels(pieces, config.num_sentinels)


class T5Pretraining(Pretraining):
    """Plain text in, a model out that fills in and can be taught to write."""

    uses = (
        'fill {name} "A sentence with <extra_id_0> in it."',
        "finetune write --base {name} --train pairs.tsv --out NEW_RUN",
    )
    model: EncoderDecoder
    objective: CorruptedSpans

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, EncoderDecoderConfig)
        assert isinstance(config.objective, CorruptedSpansConfig)
        self.pieces = pieces = pieces_of(corpus, config.objective)
        assert pieces.pad_id is not None
        assert pieces.eos_id is not None
        self.rate_factors = rate_factors(config.model)
        sentinels = sentinel_ids(pieces)[: config.objective.num_sentinels]
        return EncoderDecoder(config.model), CorruptedSpans(config.objective, pieces.pad_id, pieces.eos_id, sentinels)

    def initialize(self, generator: torch.Generator) -> None:
        self.model.initialize(generator)

    @classmethod
    def configure(cls, config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
        """The size of the vocabulary with its sentinels; scores are made smaller by the root of the width, whatever it is."""
        assert isinstance(config.model, EncoderDecoderConfig)
        assert isinstance(config.objective, CorruptedSpansConfig)
        if from_base:
            return config
        if config.model.gated and config.model.activation == "gelu":
            raise FirthError("activation=gelu with gated=true: the gated GELU of a T5 is the tanh one; set gelu_tanh")
        model = config.model.replace(vocab_size=pieces_of(corpus, config.objective).vocab_size)
        return config.replace(model=model.replace(**scaled(model)).model_dump())

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> EncoderDecoderConfig:
        config, _, _, pieces, _, _ = load_translator(base)
        if not isinstance(config, EncoderDecoderConfig) or config.target_vocab_size is not None:
            raise FirthError(
                f"{base}: not a T5, whose encoder and decoder share one vocabulary; name a run of t5-tiny or a T5 directory"
            )
        if not same_tokens(pieces, corpus.pieces):
            raise FirthError(
                f"{corpus.folder}: made with another tokenizer than {base}; prepare it again with --tokenizer {base}"
            )
        if not sentinel_ids(pieces):
            raise FirthError(
                f"{base}: its tokenizer has no sentinels (<extra_id_0> and so on); name a run of t5-tiny or a T5 directory"
            )
        return config

    def start_from(self, base: Path) -> None:
        self.model.load_state_dict(load_translator(base)[1])

    def export(self, folder: Path) -> None:
        """A T5 directory wherever the model is one."""
        save_translator(folder, self.model.config, dict(self.model.state_dict()), self.pieces, None, ["", ""])


def with_sentinels(pieces: Pieces, count: int) -> Pieces:
    """The same pieces with ``count`` sentinels behind them, and texts that end with the token that ends texts.
    Pieces that have sentinels already are left as they are."""
    there = len(sentinel_ids(pieces))
    if there:
        if there < count:
            raise FirthError(f"the tokenizer has {there} sentinels, not {count}: set num_sentinels={there}")
        return pieces
    assert pieces.eos_id is not None
    backend = Tokenizer.from_str(pieces.backend.to_str())
    # White space before one belongs to what it stands for, as in the pieces of a running text.
    backend.add_special_tokens(
        [AddedToken(sentinel(number), special=True, normalized=False, lstrip=True) for number in reversed(range(count))]
    )
    end = pieces.token(pieces.eos_id)
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A:0 {end}:0", pair=f"$A:0 {end}:0 $B:1 {end}:1", special_tokens=[(end, pieces.eos_id)]
    )
    found = Pieces(backend, pieces.segmentation)
    assert sentinel_ids(found) == list(range(pieces.vocab_size + count - 1, pieces.vocab_size - 1, -1))
    return found
