"""Pre-training: recipe, corpus, model, objective and loop put together into a run."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from firth.assembly.report import write_report
from firth.core.configs import EncoderConfig, RunConfig
from firth.core.errors import FirthError
from firth.core.files import checksum
from firth.core.runs import Run
from firth.core.types import Batch, Losses, Progress
from firth.core.units import parse_duration
from firth.corpus.format import Corpus, Split
from firth.interop.encoders import load_encoder, save_encoder
from firth.models.encoder import Encoder
from firth.nn.start import initialize
from firth.objectives.masked_tokens import MaskedTokens
from firth.objectives.rows import Specials
from firth.text.pieces import Pieces
from firth.training.loop import Loop

_HELDOUT_SEED = 1_000_003
_PUBLISHED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


def specials_of(pieces: Pieces, where: Path) -> Specials:
    """The special ids that masking needs, or a word about what is missing."""
    wanted = {"cls_id": pieces.cls_id, "sep_id": pieces.sep_id, "mask_id": pieces.mask_id, "pad_id": pieces.pad_id}
    missing = [name.removesuffix("_id") for name, number in wanted.items() if number is None]
    if missing:
        raise FirthError(
            f"{where}: its tokenizer has no token for {', '.join(missing)}, which this recipe needs; prepare the corpus with --tokens wordpiece"
        )
    ordinary = np.setdiff1d(np.arange(pieces.vocab_size), np.asarray(pieces.special_ids, np.int64))
    return Specials(ordinary=ordinary, **{name: int(number) for name, number in wanted.items() if number is not None})


class Pretraining:
    """A model under an objective on a corpus: what the loop trains."""

    def __init__(self, config: RunConfig, corpus: Corpus) -> None:
        self.config = config
        self.corpus = corpus
        self.encoder = Encoder(config.model)
        self.objective = MaskedTokens(config.objective, config.model, specials_of(corpus.pieces, corpus.folder))
        self.module: nn.Module = nn.ModuleDict({"encoder": self.encoder, "objective": self.objective})
        initialize(self.module, config.model.init_std, torch.Generator().manual_seed(config.training.seed))
        self.weights: Mapping[str, float] = self.objective.weights
        self.rows = self.objective.rows(corpus.train, config.training.seed)
        enough = corpus.info.heldout.documents >= (1 if config.objective.pairs == "none" else 2)
        self.heldout_rows = self.objective.rows(corpus.heldout, _HELDOUT_SEED) if enough else None

    @property
    def rows_per_step(self) -> int:
        return self.config.training.batch_rows * self.config.training.accumulation

    def batch(self, number: int) -> Batch:
        size = self.config.training.batch_rows
        return self.objective.batch(self.corpus.train, self.rows, self.config.training.seed, number * size, size)

    def loss(self, batch: Batch) -> Losses:
        return self.objective.loss(self.encoder, batch)

    def evaluate(self) -> dict[str, float]:
        """Mean loss and accuracy on held-out rows, always the same rows with the same masks."""
        if self.heldout_rows is None:
            return {}
        return self._score(self.corpus.heldout)

    def _score(self, split: Split) -> dict[str, float]:
        assert self.heldout_rows is not None
        size = self.config.training.batch_rows
        left = min(len(self.heldout_rows), self.config.training.evaluation_batches * size)
        totals: dict[str, float] = {}
        counts: dict[str, float] = {}
        self.module.eval()
        with torch.inference_mode():
            for first in range(0, left, size):
                batch = self.objective.batch(split, self.heldout_rows, _HELDOUT_SEED, first, min(size, left - first))
                losses = self.objective.loss(self.encoder, batch.to(self.config.training.device))
                found = {name: (float(value), float(batch.counts[name])) for name, value in losses.sums.items()} | dict(
                    losses.metrics
                )
                for name, (value, count) in found.items():
                    totals[name] = totals.get(name, 0.0) + value
                    counts[name] = counts.get(name, 0.0) + count
        means = {name: totals[name] / max(counts[name], 1) for name in totals}
        loss = sum(self.weights.get(name, 1.0) * means[name] for name in batch.counts)
        return {
            "loss": loss,
            **{name: value for name, value in means.items() if name not in batch.counts or len(batch.counts) > 1},
        }

    def start_from(self, base: Path) -> None:
        """The weights of a trained model; heads that it lacks keep their random start."""
        _, encoder, heads = load_encoder(base)
        self.encoder.load_state_dict(encoder)
        if "token_head" in heads:
            self.objective.head.load_state_dict(heads["token_head"])
        if self.objective.pair_head is not None and "pooler" in heads:
            self.objective.pair_head.pooler.load_state_dict(heads["pooler"])
        if self.objective.pair_head is not None and "pair_head" in heads:
            self.objective.pair_head.out.load_state_dict(heads["pair_head"])

    def export(self, folder: Path) -> None:
        """The finished model, as a directory that transformers reads where it knows such a model."""
        heads = {"token_head": dict(self.objective.head.state_dict())}
        if self.objective.pair_head is not None:
            heads["pooler"] = dict(self.objective.pair_head.pooler.state_dict())
            heads["pair_head"] = dict(self.objective.pair_head.out.state_dict())
        save_encoder(folder, self.config.model, dict(self.encoder.state_dict()), heads, self.objective.specials.pad_id)
        self.corpus.pieces.save(folder)


def base_config(base: Path, corpus: Corpus) -> EncoderConfig:
    """The shape of a trained model, once it is sure that the corpus was made with its tokenizer."""
    config, _, _ = load_encoder(base)
    if not same_tokens(Pieces.load(base), corpus.pieces):
        raise FirthError(
            f"{corpus.folder}: made with another tokenizer than {base}; prepare it again with --tokenizer {base}"
        )
    return config


def same_tokens(first: Pieces, second: Pieces) -> bool:
    """Whether two tokenizers number the same tokens alike."""
    return first.backend.get_vocab(with_added_tokens=True) == second.backend.get_vocab(with_added_tokens=True)


def configure(config: RunConfig, corpus: Corpus, base: Path | None = None) -> RunConfig:
    """The recipe fitted to the corpus: its vocabulary, and a length of training if none was named."""
    size = corpus.info.vocab_size if base is None else max(config.model.vocab_size, corpus.info.vocab_size)
    model = config.model.replace(vocab_size=size)
    training = config.training
    if training.steps is None and training.epochs is None and training.budget is None:
        training = training.replace(epochs=1.0)
    return RunConfig.build(
        {**config.model_dump(), "model": model.model_dump(), "training": training.model_dump()}, "settings"
    )


def start_run(
    config: RunConfig,
    corpus_path: Path,
    out: Path,
    base: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Run:
    """A new run, trained to its end; with ``base`` it begins with the weights of that model."""
    corpus = Corpus.open(corpus_path)
    if base is not None:
        config = config.replace(model=base_config(base, corpus).model_dump())
    config = configure(config, corpus, base)
    facts: dict[str, Any] = {
        "kind": "pretrain",
        "recipe": config.recipe,
        "config": config.model_dump(),
        "corpus": {
            "path": str(corpus_path.absolute()),
            "fingerprint": corpus.fingerprint,
            "tokenizer": corpus.info.tokenizer,
        },
    }
    if base is not None:
        facts["base"] = str(base.absolute())
    trainee = Pretraining(config, corpus)
    if base is not None:
        trainee.start_from(base)
    loop = Loop(trainee, config.training, out, progress)  # refuses what cannot be before anything is written
    facts["processes"] = loop.ranks.size
    run = Run.create(out, facts, overwrite) if loop.ranks.first else Run(out, facts)
    return _train(run, trainee, loop)


def resume_run(folder: Path, progress: Progress | None = None) -> Run:
    """Goes on with a run from its latest checkpoint; a finished one is left as it is."""
    run = Run.open(folder)
    if run.facts.get("kind") != "pretrain":
        raise FirthError(f"{folder}: not a pre-training run; name a folder that firth pretrain made")
    if run.facts["status"] == "finished":
        return run
    known = run.facts["corpus"]
    corpus = Corpus.open(known["path"])
    if corpus.fingerprint != known["fingerprint"]:
        raise FirthError(
            f"{known['path']}: not the corpus this run was begun with (its content has changed); put the old one back or start a new run"
        )
    trainee = Pretraining(RunConfig.build(run.facts["config"], folder / "firth.json"), corpus)
    loop = Loop(trainee, trainee.config.training, folder, progress)
    if run.facts.get("processes", 1) != loop.ranks.size:
        raise FirthError(
            f"{folder}: begun with {run.facts.get('processes', 1)} processes, not {loop.ranks.size}; go on with as many"
        )
    return _train(run, trainee, loop)


def _train(run: Run, trainee: Pretraining, loop: Loop) -> Run:
    config = trainee.config.training
    with run.lock() if loop.ranks.first else nullcontext():
        loop.ranks.wait()
        loop.resume()
        if "steps" not in run.facts:
            if config.budget is not None:
                steps = loop.measure(parse_duration(config.budget))
            elif config.epochs is not None:
                steps = max(1, round(config.epochs * len(trainee.rows) / (trainee.rows_per_step * loop.ranks.size)))
            else:
                assert config.steps is not None
                steps = config.steps
            if loop.ranks.first:
                run.save(steps=steps)
            else:
                run.facts["steps"] = steps
        metrics = loop.run(run.facts["steps"], f"firth pretrain --resume {run.folder}")
        if loop.ranks.first:
            _finish(run, trainee, loop, metrics)
        loop.ranks.wait()
    return run


def _finish(run: Run, trainee: Pretraining, loop: Loop, metrics: dict[str, float]) -> None:
    trainee.export(run.folder)
    parameters = sum(parameter.numel() for parameter in trainee.module.parameters())
    rows = loop.step * trainee.rows_per_step * loop.ranks.size
    facts: dict[str, Any] = {
        "metrics": metrics,
        "parameters": parameters,
        "seconds": loop.seconds,
        "tokens": loop.tokens,
        "epochs": rows / len(trainee.rows),
    }
    facts["checksums"] = {name: checksum(path) for name in _PUBLISHED if (path := run.folder / name).is_file()}
    write_report(run, facts)
    run.save(status="finished", **facts)
