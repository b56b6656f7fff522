"""A recurrent network over tokens: ids to layers.

B batch, T tokens, E embedding size, D width of a layer, L layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.types import Batch, Inputs, Layers, Losses
from firth.corpus.format import Split, need_text
from firth.corpus.streams import RandomStreams, Streams, TokenStream, TokenView, cut_equally
from firth.models.recurrent.config import NextTokenStreamsConfig, RecurrentConfig
from firth.nn.layers import TokenNetwork, dropout
from firth.nn.recurrent import Projection, RecurrentStack, StackDropout, drop_steps
from firth.nn.softmax import (
    AdaptiveOutput,
    NCEOutput,
    Noise,
    SampledOutput,
    TokenOutput,
    frequency_ranks,
    log_unigram,
    noise_shares,
)


@dataclass(frozen=True)
class Reading:
    """What a pass gives to a language model: the last layer, time first, and the state behind it."""

    hidden_TBD: torch.Tensor  # with dropout while training
    raw_TBD: torch.Tensor  # without
    state: list[torch.Tensor]


class Recurrent(TokenNetwork):
    """Token vectors and a stack of recurrent layers, in one direction (a language model) or both (an encoder). Padding
    stands at the end of rows; positions and segments mean nothing to it."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.embed_dim)
        self.stack = RecurrentStack(
            config.cell,
            config.embed_dim,
            config.hidden_dims,
            config.bidirectional,
            config.residual,
            StackDropout(config.dropout_prob, config.weight_drop_prob, config.variational),
            Projection(config.num_cells, config.cell_clip, config.projection_clip),
        )

    @property
    def width(self) -> int:
        """Of the widest layer, which all are filled up to."""
        return max(self.config.embed_dim, *self.stack.widths)

    def start(self, generator: torch.Generator) -> None:
        nn.init.uniform_(self.tokens.weight, -self.config.init_range, self.config.init_range, generator=generator)
        self.stack.start(generator)

    def zero_state(self, num_rows: int) -> list[torch.Tensor]:
        return self.stack.zero_state(num_rows)

    def embed(self, ids_BT: torch.Tensor) -> torch.Tensor:
        """Token vectors, time first [T, B, E]; whole words are dropped, the same in all the batch (Gal and
        Ghahramani 2016), then single numbers."""
        config = self.config
        ids_TB = ids_BT.t()
        found = self.tokens(ids_TB)
        if self.training and config.embedding_dropout_prob:
            kept_V = dropout(self.tokens.weight.new_ones(config.vocab_size), config.embedding_dropout_prob)
            found = found * kept_V[ids_TB][:, :, None]
        return drop_steps(found, config.input_dropout_prob, config.variational, self.training)

    def read(self, ids_BT: torch.Tensor, state: Sequence[torch.Tensor] | None = None) -> Reading:
        """The last layer with the state that it leaves, for training and decoding."""
        outputs, after = self.stack(self.embed(ids_BT), None, state)
        raw = outputs[-1]
        hidden = drop_steps(raw, self.config.output_dropout_prob, self.config.variational, self.training)
        return Reading(hidden, raw, after)

    def forward(self, inputs: Inputs) -> Layers:
        """Every layer, [L+1, B, T, D]; narrower ones are filled up with zeros, which changes neither products
        nor norms."""
        mask_BT = inputs.mask
        lens_B = None if inputs.doc_ids is None or bool(mask_BT.all()) else mask_BT.sum(1)
        embedded = self.embed(inputs.ids)
        outputs, _ = self.stack(embedded, lens_B)
        layers = [functional.pad(layer, (0, self.width - layer.shape[-1])) for layer in (embedded, *outputs)]
        return Layers(torch.stack(layers).transpose(1, 2), mask_BT)


LOSS = "next_token"


def _counts(config: NextTokenStreamsConfig, view: TokenView, vocab_size: int) -> NDArray[np.int64]:
    counts = np.zeros(vocab_size, np.int64)
    counts[: view.tokens.vocab_size] = view.counts(config.unit)[:vocab_size]
    return counts


def build_output(
    config: NextTokenStreamsConfig, hidden_dim: int, tied: bool, vocab_size: int, view: TokenView
) -> TokenOutput:
    """The output layer by name; a vocabulary may have spare rows."""
    if config.output == "full":
        return TokenOutput(hidden_dim, vocab_size, tied)
    counts = _counts(config, view, vocab_size)
    if config.output == "adaptive":
        return AdaptiveOutput(hidden_dim, torch.from_numpy(frequency_ranks(counts)))
    noise = Noise(noise_shares(config.noise, counts))
    kind = NCEOutput if config.output == "nce" else SampledOutput
    return kind(hidden_dim, vocab_size, tied, noise, config.num_noise)


class NextTokenStreams(nn.Module):
    """The objective: windows of streams, the output layer, the carried state, the loss at every token."""

    def __init__(
        self,
        config: NextTokenStreamsConfig,
        head: TokenOutput,
        view: TokenView,
        start: Sequence[torch.Tensor],
    ) -> None:
        """``start`` is the state that a model begins with, one tensor [S, B, H] a layer."""
        super().__init__()
        self.config, self.view = config, view
        self.num_streams = start[0].shape[1]
        self.head = head
        self.weights = {LOSS: 1.0}
        self.state_names = [f"state_{number}" for number in range(len(start))]
        for name, part in zip(self.state_names, start, strict=True):
            self.register_buffer(name, part.detach().clone())
        self._heldout_state: list[torch.Tensor] = []

    def start(self, std: float, generator: torch.Generator) -> None:
        counts = _counts(self.config, self.view, self.head.vocab_size)
        self.head.start(std, generator, log_unigram(counts))

    def rows(self, split: Split, seed: int) -> Streams:
        text = TokenStream(split, (self.view.eos_id,), self.config.unit, lookup=self.view.lookup)
        need_text(split, len(text))
        borders = cut_equally(len(text), self.num_streams)
        if self.config.random_windows:
            return RandomStreams(text, borders, self.config.seq_len, seed)
        return Streams(text, borders, self.config.seq_len)

    def batch(self, split: Split, rows: Streams, seed: int, first: int, count: int) -> Batch:
        """Window ``first / B`` of the endless sequence; a pure function of its arguments. Labels are -1 beyond the end of
        the text."""
        assert first % self.num_streams == 0
        assert count == self.num_streams, "streams are read all together"
        window = rows.window(first // self.num_streams)
        width = int(window.inside[0].sum())  # no stream is longer than the first
        positions, inside = window.positions[:, :width], window.inside[:, :width]
        arrays = {
            "ids": rows.text.read(positions - 1),
            "labels": np.where(inside, rows.text.read(positions), -1),
            "opens": np.asarray([window.number == 0]),
        }
        num_tokens = int(inside.sum())
        # every token weighs the same however long its window is (Merity et al. 2018, §5)
        rate = width / self.config.seq_len if self.config.random_windows else 1.0
        return Batch(arrays, {LOSS: num_tokens}, num_tokens, rate=rate)

    def loss(self, model: Recurrent, batch: Batch) -> Losses:
        """While training what the output layer learns from; else the loss by full normalisation, with log Z."""
        reading = self._read(model, batch)
        hidden_ND, labels_N = reading.hidden_TBD.flatten(0, 1), batch.tensors["labels"].t().flatten()
        if (batch.arrays["labels"] < 0).any():
            hidden_ND, labels_N = hidden_ND[labels_N >= 0], labels_N[labels_N >= 0]
        table_VD = model.tokens.weight
        if self.training:
            loss = self.head.loss(hidden_ND, labels_N, table_VD)
            return Losses({LOSS: loss + self._penalties(reading.hidden_TBD, reading.raw_TBD)})
        log_probs, log_z, hits = self.head.judge(hidden_ND, labels_N, table_VD)
        count = float(len(labels_N))
        metrics = {"accuracy": (float(hits.sum()), count)}
        if self.config.output == "nce":
            metrics["log_z"] = (float(log_z.double().sum()), count)
            metrics["log_z_square"] = (float(log_z.double().square().sum()), count)
        return Losses({LOSS: -log_probs.double().sum()}, metrics)

    def _read(self, model: Recurrent, batch: Batch) -> Reading:
        """A pass that goes on from the state of the batch before; held-out text has a state of its own."""
        own = [getattr(self, name) for name in self.state_names]
        before = own if self.training else self._heldout_state
        if not before or not self.config.carry_state or bool(batch.arrays["opens"][0]):
            before = [torch.zeros_like(part) for part in own]
        reading = model.read(batch.tensors["ids"], [part.clone() for part in before])
        after = [part.detach() for part in reading.state]
        if self.training:
            for part, new in zip(own, after, strict=True):
                part.copy_(new)
        else:
            self._heldout_state = after
        return reading

    def _penalties(self, hidden_TBD: torch.Tensor, raw_TBD: torch.Tensor) -> torch.Tensor | float:
        """Activation and temporal activation regularisation (Merity et al. 2017), a token's share times the
        number of tokens, as the loss is a sum over tokens."""
        num_tokens = raw_TBD[:, :, 0].numel()
        total: torch.Tensor | float = 0.0
        if self.config.activation_penalty:
            total = total + self.config.activation_penalty * num_tokens * hidden_TBD.square().mean()
        if self.config.temporal_activation_penalty and len(raw_TBD) > 1:
            changes = raw_TBD[1:] - raw_TBD[:-1]
            total = total + self.config.temporal_activation_penalty * num_tokens * changes.square().mean()
        return total
