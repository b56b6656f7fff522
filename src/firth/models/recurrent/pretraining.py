"""Recurrent networks that predict the next token: the family of the recurrent language models."""

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import load_tensors, read_json, save_tensors, write_json
from firth.core.registry import RunConfig
from firth.core.types import Objective
from firth.corpus.format import Corpus, require_same_tokens
from firth.corpus.streams import Streams, TokenView, read_types, view_as, view_tokens
from firth.models.recurrent.config import NextTokenStreamsConfig, RecurrentConfig
from firth.models.recurrent.network import LOSS, NextTokenStreams, Recurrent, build_output
from firth.models.shared.pretraining import HELDOUT_SEED, Pretraining, require_one_process
from firth.models.shared.published import Weights, join_parts, split_parts
from firth.nn.softmax import TokenOutput
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.word_tokens import WordTokens, join_words, load_tokens


class RecurrentFolder(Config):
    """The content of ``config.json``."""

    model_type: Literal["firth-recurrent"] = "firth-recurrent"
    model: RecurrentConfig
    output: Literal["softmax", "adaptive"] = "softmax"  # sampled and NCE layers are softmax layers once trained


def save_recurrent(folder: Path, config: RecurrentFolder, model: Weights, head: Weights) -> None:
    save_tensors(folder / "model.safetensors", join_parts({"model": model, "output": head}))
    write_json(folder / "config.json", config.model_dump())


def load_recurrent(folder: Path) -> tuple[RecurrentFolder, Weights, Weights]:
    """Config, the weights of the model, those of the output layer."""
    config = RecurrentFolder.build(read_json(folder / "config.json"), folder / "config.json")
    parts = split_parts(load_tensors(folder / "model.safetensors"))
    strange = sorted(set(parts) - {"model", "output"})
    if strange:
        raise FirthError(
            f"{folder / 'model.safetensors'}: holds '{strange[0]}', which no such model has; copy it again"
        )
    return config, parts.get("model", {}), parts.get("output", {})


class RecurrentPretraining(Pretraining):
    """A recurrent network and its output layer, on words or on pieces."""

    published = (*Pretraining.published, "words.txt")
    uses = ('generate {name} "How a text begins"', "encode {name} texts.txt --out vectors.npy")
    model: Recurrent
    objective: NextTokenStreams
    rows: Streams
    heldout_rows: Streams | None

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, RecurrentConfig)
        assert isinstance(config.objective, NextTokenStreamsConfig)
        if config.objective.carry_state:
            require_one_process(
                "a state that is carried from batch to batch cannot be shared out: train in one process, or with objective.carry_state=false"
            )
        view = _view(config, corpus)
        model = Recurrent(config.model)
        head = build_output(
            config.objective, config.model.hidden_dims[-1], config.model.tied, config.model.vocab_size, view
        )
        return model, NextTokenStreams(config.objective, head, view, model.zero_state(config.training.batch_size))

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

    def _read_as(self, tokens: WordTokens) -> None:
        """Another text with the words of the model; how often they occur there is what noise is drawn by."""
        config = self.config
        assert isinstance(config.model, RecurrentConfig)
        assert isinstance(config.objective, NextTokenStreamsConfig)
        view = view_as(self.corpus, tokens)
        self.objective.view = view
        self.objective.head = build_output(
            config.objective, config.model.hidden_dims[-1], config.model.tied, config.model.vocab_size, view
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

    def extra_scores(self, folder: Path, num_texts: int) -> dict[str, float]:
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
        return found

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

    def charts(self) -> list[dict[str, Any]]:
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


def gradient_chart(model: Recurrent, head: TokenOutput, ids_BT: torch.Tensor, labels_B: torch.Tensor) -> dict[str, Any]:
    """The same as a chart: by steps back from the loss, in powers of ten."""
    norms = gradient_norms(model, head, ids_BT, labels_B)
    back = np.arange(norms.shape[1])[::-1]
    series = {
        f"layer {number}": [[int(x), float(np.log10(max(y, 1e-12)))] for x, y in zip(back, line, strict=True)][::-1]
        for number, line in enumerate(norms, 1)
    }
    return {
        "title": "How far gradients reach back",
        "note": "The size of the gradient of the last step's loss at the state of each step before it. A line that falls means that distant words are not learned from.",
        "x": "steps back",
        "y": "log10 |dL/dh|",
        "series": series,
    }
