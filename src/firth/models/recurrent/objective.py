"""Each token from all before it, in streams whose state is carried from batch to batch (Mikolov et al. 2010).

The objective has the output layer: a softmax, or one that is adaptive, sampled or contrastive. Its report shows how
gradients vanish with the distance.

B streams, T tokens, N predicted tokens, D hidden size, H state size, S states of a layer, V vocabulary.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.run import Chart, Scores
from firth.core.types import Batch, Losses, Objective
from firth.corpus.format import Corpus, Split, need_text, require_same_tokens
from firth.corpus.streams import (
    RandomStreams,
    Streams,
    TokenStream,
    TokenView,
    cut_equally,
    read_types,
    view_as,
    view_tokens,
)
from firth.models.recurrent.cache import Cache, CachedScore
from firth.models.recurrent.config import NextTokenStreamsConfig, RecurrentConfig
from firth.models.recurrent.network import Reading, Recurrent, RecurrentFolder, load_recurrent, save_recurrent
from firth.models.shared.pretraining import HELDOUT_SEED, Pretraining
from firth.nn.softmax import (
    AdaptiveOutput,
    NCEOutput,
    Noise,
    SampledOutput,
    TokenOutput,
    frequency_ranks,
    log_unigram,
    noise_probs,
)
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.word_tokens import WordTokens, join_words, load_tokens
from firth.training.ranks import own_share

LOSS = "next_token"
_CACHED_LEN = 128  # tokens that are compared with the cache together
_ALL = slice(None)


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
    noise = Noise(noise_probs(config.noise, counts))
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
        self.own = (
            own_share(self.num_streams) if config.carry_state else slice(None)
        )  # lanes of this process in training

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

    def batch(self, split: Split, rows: Streams, seed: int, first: int, count: int, own: slice = _ALL) -> Batch:
        """Window ``first / B`` of the endless sequence; a pure function of its arguments. Labels are -1 beyond the end of
        the text. ``own`` are the streams that are read."""
        assert first % self.num_streams == 0
        assert count == self.num_streams, "streams are read all together"
        window = rows.window(first // self.num_streams)
        width = int(window.inside[0].sum())  # no stream is longer than the first
        positions, inside = window.positions[own, :width], window.inside[own, :width]
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
        if self.training:
            own = [part[:, self.own] for part in own]
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


class RecurrentPretraining(Pretraining):
    """A recurrent network and its output layer, on words or on pieces."""

    published = (*Pretraining.published, "words.txt")
    batch_is_fixed = True
    uses = ('generate {name} "How a text begins"', "encode {name} texts.txt --out vectors.npy")
    model: Recurrent
    objective: NextTokenStreams
    rows: Streams
    heldout_rows: Streams | None

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, RecurrentConfig)
        assert isinstance(config.objective, NextTokenStreamsConfig)
        view = _view(config, corpus)
        model = Recurrent(config.model)
        head = build_output(
            config.objective, config.model.hidden_dims[-1], config.model.tied_output, config.model.vocab_size, view
        )
        objective = NextTokenStreams(config.objective, head, view, model.zero_state(self.rows_per_batch))
        if self.divides_batches:
            self.lanes = {f"objective.{name}": 1 for name in objective.state_names}
        return model, objective

    @classmethod
    def divides_lanes(cls, config: RunConfig) -> bool:
        assert isinstance(config.objective, NextTokenStreamsConfig)
        return config.objective.carry_state

    def batch(self, number: int) -> Batch:
        size, seed = self.rows_per_batch, self.config.training.seed
        return self.objective.batch(self.corpus.train, self.rows, seed, number * size, size, self.objective.own)

    def initialize(self, generator: torch.Generator) -> None:
        self.model.start(generator)
        self.objective.start(self.model.config.init_range / math.sqrt(3), generator)

    @classmethod
    def configure(cls, config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
        assert isinstance(config.model, RecurrentConfig)
        if from_base and corpus.info.tokens.kind == "words":
            return config  # a text is read with the words of the model
        size = _view(config, corpus).tokens.vocab_size
        size = max(config.model.vocab_size if from_base else 0, size)
        return config.replace(model=config.model.replace(vocab_size=size).model_dump())

    # -- weights

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> RecurrentConfig:
        folder, _, _ = load_recurrent(base)
        tokens = load_tokens(base)
        words = corpus.info.tokens.kind == "words"
        if isinstance(tokens, WordTokens) != words:
            found = "words" if words else "pieces"
            raise FirthError(f"{corpus.folder}: a corpus of {found}, which {base} does not read; prepare another one")
        if isinstance(tokens, Pieces):
            require_same_tokens(tokens, corpus, base)
        return folder.model

    def start_from(self, base: Path) -> None:
        _, model, head = load_recurrent(base)
        self.resume_from(base)
        self.model.load_state_dict(model)
        self.objective.head.load_state_dict(head)

    def resume_from(self, base: Path) -> None:
        if self.corpus.info.tokens.kind != "words":
            return
        tokens = load_tokens(base)
        assert isinstance(tokens, WordTokens)
        if tokens.tokens != self.objective.view.tokens.tokens:  # type: ignore[union-attr]
            self._read_as(tokens)

    def token_names(self) -> list[str]:
        tokens = self.objective.view.tokens
        return list(tokens.tokens) if isinstance(tokens, WordTokens) else super().token_names()

    def _read_as(self, tokens: WordTokens) -> None:
        """Another text with the words of the model; how often they occur there is what noise is drawn by."""
        config = self.config
        assert isinstance(config.model, RecurrentConfig)
        assert isinstance(config.objective, NextTokenStreamsConfig)
        view = view_as(self.corpus, tokens)
        self.objective.view = view
        self.objective.head = build_output(
            config.objective, config.model.hidden_dims[-1], config.model.tied_output, config.model.vocab_size, view
        )
        self.rows = self.objective.rows(self.corpus.train, config.training.seed)
        if self.heldout_rows is not None:
            self.heldout_rows = self.objective.rows(self.corpus.heldout, HELDOUT_SEED)

    def export(self, folder: Path) -> None:
        output = "adaptive" if self.objective.config.output == "adaptive" else "softmax"
        described = RecurrentFolder.build({"model": self.model.config.model_dump(), "output": output}, folder)
        save_recurrent(folder, described, dict(self.model.state_dict()), dict(self.objective.head.state_dict()))
        self.objective.view.tokens.save(folder)

    # -- measures

    def evaluate(self) -> dict[str, float]:
        found = super().evaluate()
        return _named(found) if found else found

    def extra_scores(self, folder: Path, num_texts: int) -> Scores:
        """The whole held-out text, in one go: perplexities by their names, and log Z where it is not 0."""
        assert self.heldout_rows is not None
        size, totals = self.objective.num_streams, dict.fromkeys(("loss", "accuracy", "log_z", "log_z_square"), 0.0)
        count = 0
        self.module.eval()
        with torch.inference_mode():
            for first in range(0, len(self.heldout_rows), size):
                batch = self.objective.batch(self.corpus.heldout, self.heldout_rows, HELDOUT_SEED, first, size)
                losses = self.objective.loss(self.model, batch.to(self.config.training.device))
                count += batch.counts[LOSS]
                totals["loss"] += float(losses.sums[LOSS])
                for name, (value, _) in losses.metrics.items():
                    totals[name] += value
        wanted = ("loss", "accuracy") if self.objective.config.output != "nce" else tuple(totals)
        found = _named({name: totals[name] / count for name in wanted})
        for name, size in (("word", self._num_words()), ("character", self._num_characters())):
            found[f"perplexity_{name}"] = math.exp(totals["loss"] / size)
        return Scores(found)

    def cached_scores(self, size: int) -> dict[str, float]:
        """The whole held-out text in one stream, with a cache of its last ``size`` tokens and without."""
        split, model, head = self.corpus.heldout, self.model, self.objective.head
        text = self.objective.rows(split, HELDOUT_SEED).text
        found, state = CachedScore(Cache(size)), model.zero_state(1)
        self.module.eval()
        with torch.inference_mode():
            for first in range(0, len(text), _CACHED_LEN):
                places = np.arange(first, min(first + _CACHED_LEN, len(text)))
                labels_T = torch.from_numpy(text.read(places))
                reading = model.read(torch.from_numpy(text.read(places - 1))[None], state)
                hidden_TD, state = reading.hidden_TBD[:, 0], reading.state
                found.read(hidden_TD, labels_T, head.judge(hidden_TD, labels_T, model.tokens.weight)[0])
        return found.scores()

    def _num_ends(self) -> int:
        split = self.corpus.heldout
        return split.num_documents if self.objective.config.unit == "document" else len(split.sentences) - 1

    def _num_words(self) -> int:
        """An end counts as a word, as in word language models."""
        split = self.corpus.heldout
        return int(split.word_starts(0, len(split.tokens)).sum()) + self._num_ends()

    def _num_characters(self) -> int:
        """Of the held-out text as its tokens give it back; an end counts as one."""
        split, tokens = self.corpus.heldout, self.objective.view.tokens
        types = read_types(self.corpus) if isinstance(tokens, WordTokens) else []
        total, starts = 0, split.document_starts
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            ids = split.tokens[start:end].tolist()
            text = tokens.decode(ids) if isinstance(tokens, Pieces) else join_words([types[one] for one in ids])
            total += len(text)
        return total + self._num_ends()

    def charts(self) -> list[Chart]:
        """How far gradients reach back, on the first window of the training text."""
        window = self.objective.batch(self.corpus.train, self.rows, 0, 0, self.objective.num_streams)
        whole = (window.arrays["labels"] >= 0).all(1)
        if not whole.any():
            return []
        ids, labels = (torch.from_numpy(window.arrays[name][whole][:8]) for name in ("ids", "labels"))
        return [gradient_chart(self.model, self.objective.head, ids, labels[:, -1])]


def _view(config: RunConfig, corpus: Corpus) -> TokenView:
    assert isinstance(config.objective, NextTokenStreamsConfig)
    return view_tokens(corpus, config.objective.min_count, config.objective.max_vocab)


def _named(found: dict[str, float]) -> dict[str, float]:
    """Means with what follows from them: the perplexity of a token, the spread of log Z."""
    named = {**found, "perplexity_token": math.exp(min(found["loss"], 700.0))}
    if "log_z" in named:
        mean, square = named.pop("log_z"), named.pop("log_z_square")
        named |= {"log_z_mean": mean, "log_z_spread": float(np.sqrt(max(square - mean**2, 0.0)))}
    return named


def gradient_norms(
    model: Recurrent, head: TokenOutput, ids_BT: torch.Tensor, labels_B: torch.Tensor
) -> NDArray[np.float64]:
    """|dL_T/dh_t| [L, T]: L_T is the loss at the last step alone, h_t all that a layer hands on at step t; the
    mean over rows. It goes through the plain cells, whose every state is a tensor of its own."""
    assert not model.config.bidirectional
    was_training = model.training
    model.eval()
    with torch.enable_grad():
        below = list(model.embed(ids_BT.to(model.tokens.weight.device)).detach().unbind(0))
        states: list[list[torch.Tensor]] = []
        for layer in model.stack.directions():
            above = layer.steps(below, layer.zero_state(len(ids_BT)))
            states.append(above)
            fits = model.stack.residual and above[0].shape == below[0].shape
            below = [one + two for one, two in zip(above, below, strict=True)] if fits else above
        log_probs = head.log_probs(below[-1], model.tokens.weight)
        loss = -log_probs.gather(1, labels_B.to(log_probs.device)[:, None]).sum()  # rows do not touch one another
        flat = [state for layer in states for state in layer]
        found = torch.autograd.grad(loss, flat, allow_unused=True)
    model.train(was_training)
    norms = [0.0 if part is None else float(part.norm(dim=-1).mean()) for part in found]
    return np.asarray(norms).reshape(len(states), -1)


def gradient_chart(model: Recurrent, head: TokenOutput, ids_BT: torch.Tensor, labels_B: torch.Tensor) -> Chart:
    """The same as a chart: by steps back from the loss, in powers of ten."""
    norms = gradient_norms(model, head, ids_BT, labels_B)
    back = np.arange(norms.shape[1])[::-1]
    series = {
        f"layer {number}": tuple((float(x), float(np.log10(max(y, 1e-12)))) for x, y in zip(back, line, strict=True))[
            ::-1
        ]
        for number, line in enumerate(norms, 1)
    }
    return Chart(
        title="How far gradients reach back",
        note="The size of the gradient of the last step's loss at the state of each step before it. A line that falls means that distant words are not learned from.",
        x="steps back",
        y="log10 |dL/dh|",
        series=series,
    )
