"""A model under its objective: how both are built, evaluated, written and read again, and what the loop asks for.

``EncoderPretraining`` is that of BERT-shaped encoders with heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.config import require_memory
from firth.core.errors import FirthError
from firth.core.registry import find_spec
from firth.core.run import Chart, Scores
from firth.core.types import Batch, Inputs, Losses, Objective, SizedRows
from firth.corpus.format import Corpus, Split, require_same_tokens
from firth.corpus.pairs import PairSplit
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, TokenHead, look_around
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.published import load_encoder, save_encoder
from firth.models.shared.rows import Specials, specials_of
from firth.nn.blocks import initialize
from firth.tokenizers.pieces import Pieces
from firth.training.ranks import process_count

if TYPE_CHECKING:
    from firth.core.registry import RunConfig


HELDOUT_SEED = 1_000_003
_NUM_SAMPLES = 3
PairScorer = Callable[[Path, PairSplit, int], Scores]
"""(folder of the model, held-out pairs, at most so many) to scores."""


def least_memory(config: RunConfig) -> int:
    """Bytes that a training takes at the very least: weights, gradients and two moments of the token table and of one
    matrix a layer, and the hidden states of a batch in all layers."""

    def size(name: str, otherwise: int = 1) -> int:
        found: int | None = getattr(config.model, name, None)
        return found or otherwise

    width, layers = size("hidden_dim"), size("num_layers")
    table = size("vocab_size") * size("embedding_dim", width)
    parameters = table + layers * width * max(width, size("ffn_dim"))
    tokens = config.training.batch_size * (getattr(config.objective, "seq_len", None) or 1)
    return 16 * parameters + 4 * tokens * width * layers


def find_pretraining(config: RunConfig) -> type[Pretraining]:
    """How the model of these settings is pre-trained."""
    found = find_spec(config.spec).pretraining
    assert found is not None
    return found(config.objective)


class Pretraining:
    """What the loop trains (``Trainable``): a model, its objective and a corpus.

    A model says how its model and objective are built (``build``), how the finished model is written
    (``export``) and how weights come back (``start_from``); the rest is the same for all.
    """

    model: nn.Module
    objective: Objective
    weights: Mapping[str, float]
    rate_factors: Mapping[str, float] = {}
    lanes: Mapping[
        str, int
    ] = {}  # buffers that keep a state of each lane of text, and which of their dimensions counts lanes
    batch_is_fixed: bool = False  # other batch sizes read the text in other places
    reads_pairs: bool = False  # a corpus of sentence pairs, not one of text
    base: Path | None = None  # the model that a run began with
    score_pairs: PairScorer | None = None  # scores of a task on held-out pairs, in place of BLEU
    published: tuple[str, ...] = (  # the finished model's files, for checksums; not all need be there
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
        "segmentation.json",
    )
    uses: tuple[str, ...] = (  # the next commands, for the report
        'fill {name} "A sentence with a [MASK] in it."',
        "encode {name} texts.txt --out vectors.npy",
    )

    def __init__(self, config: RunConfig, corpus: Corpus) -> None:
        self.config = config
        self.corpus = corpus
        require_memory(least_memory(config), f"recipe {config.recipe} with these settings", "take smaller ones")
        self.model, self.objective = self.build(config, corpus)
        assert isinstance(self.objective, nn.Module)
        self.module: nn.Module = nn.ModuleDict({"model": self.model, "objective": self.objective})
        self.initialize(torch.Generator().manual_seed(config.training.seed))
        self.weights = self.objective.weights
        self.rows: SizedRows = self.objective.rows(corpus.train, config.training.seed)
        self.heldout_rows: SizedRows | None = (
            self.objective.rows(corpus.heldout, HELDOUT_SEED)
            if corpus.info.heldout.documents >= self.fewest_documents(config)
            else None
        )

    # -- what a model says

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        """The model and the objective."""
        raise NotImplementedError

    def export(self, folder: Path) -> None:
        """The finished model in the run's folder, in the format of its ecosystem."""
        raise NotImplementedError

    def start_from(self, base: Path) -> None:
        """The weights of a finished model; heads that it lacks keep their random start."""
        raise NotImplementedError

    def resume_from(self, base: Path) -> None:
        """What a run that goes on takes from the model it began with; its weights come from the checkpoint."""

    def restore(self, folder: Path) -> None:
        """The weights of a finished run, for a test on this corpus."""
        self.start_from(folder)

    @classmethod
    def require(cls) -> None:
        """Refuses to begin where a package that the finished model needs is missing."""

    @classmethod
    def open_corpus(cls, path: Path) -> Any:
        """The kind of corpus that this model trains on."""
        return Corpus.open(path)

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> Any:
        """The shape of a trained model, once it is sure that the corpus was made with its tokenizer."""
        raise FirthError(f"{base}: this recipe cannot begin with the weights of another model; leave out --base")

    @classmethod
    def configure(cls, config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
        """The recipe fitted to the corpus: the size of its vocabulary. A trained table may have spare rows."""
        size = max(getattr(config.model, "vocab_size", 0) if from_base else 0, corpus.info.vocab_size)
        return config.replace(model=config.model.replace(vocab_size=size).model_dump())

    @classmethod
    def fewest_documents(cls, config: RunConfig) -> int:
        """How many held-out documents a test needs."""
        return 1

    def initialize(self, generator: torch.Generator) -> None:
        """Random weights before training."""
        initialize(self.module, getattr(self.config.model, "init_std", 0.02), generator)

    def token_names(self) -> list[str]:
        """The tokens of the rows of the token table, as a vocabulary writes them."""
        return [self.corpus.pieces.token(number) for number in range(self.corpus.info.vocab_size)]

    def extra_scores(self, folder: Path, num_texts: int) -> Scores:
        """More than ``evaluate`` gives during training, for ``firth evaluate``."""
        return Scores()

    def cached_scores(self, size: int) -> dict[str, float]:
        """Scores of held-out text with a cache of the tokens before, for language models that carry a state."""
        raise FirthError(
            f"--cache is for recurrent language models, whose states it remembers, not for {self.config.recipe}: leave it out"
        )

    def charts(self) -> list[Chart]:
        """Further charts for the report."""
        return []

    def final_scores(self, folder: Path) -> Scores:
        """Measured once, with the finished model in its folder."""
        return Scores()

    def samples(self) -> list[str]:
        """What the model says now of some held-out text, for those who watch a training."""
        return []

    def report_parts(self, folder: Path) -> list[str]:
        """HTML for the report about the finished model."""
        return []

    # -- what the loop asks

    @property
    def rows_per_step(self) -> int:
        return self.config.training.batch_size * self.config.training.gradient_accumulation

    @classmethod
    def divides_lanes(cls, config: RunConfig) -> bool:
        """Whether each process reads its own lanes of one batch, which carry a state, and not batches of its own."""
        return False

    @property
    def divides_batches(self) -> bool:
        return self.divides_lanes(self.config)

    @property
    def rows_per_batch(self) -> int:
        """Rows of a batch; one whose lanes are shared out is as large as those of all processes."""
        return self.config.training.batch_size * (process_count() if self.divides_batches else 1)

    def batch(self, number: int) -> Batch:
        size = self.rows_per_batch
        return self.objective.batch(self.corpus.train, self.rows, self.config.training.seed, number * size, size)

    def loss(self, batch: Batch) -> Losses:
        return self.objective.loss(self.model, batch)

    def enough(self) -> bool:
        return False

    def evaluate(self) -> dict[str, float]:
        """Mean loss and accuracy on held-out rows, always the same rows with the same masks."""
        if self.heldout_rows is None:
            return {}
        return self._score(self.corpus.heldout, self.heldout_rows)

    def _score(self, split: Split, rows: SizedRows) -> dict[str, float]:
        size = self.rows_per_batch
        left = min(len(rows), self.config.training.evaluation_batches * size)
        totals: dict[str, float] = {}
        counts: dict[str, float] = {}
        self.module.eval()
        with torch.inference_mode():
            for first in range(0, left, size):
                batch = self.objective.batch(split, rows, HELDOUT_SEED, first, min(size, left - first))
                losses = self.objective.loss(self.model, batch.to(self.config.training.device))
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


def _first_sentences(split: Split, count: int) -> Iterator[NDArray[np.int64]]:
    """The first sentence of some documents, if it is neither short nor long."""
    documents = split.documents[: 20 * count].tolist()
    spans = ((int(split.sentences[first]), int(split.sentences[first + 1])) for first in documents[:-1])
    fitting = (np.asarray(split.tokens[start:end], np.int64) for start, end in spans if 6 <= end - start <= 40)
    return islice(fitting, count)


class EncoderObjective(Objective, Protocol):
    """What writing an encoder asks of its objective."""

    @property
    def specials(self) -> Specials: ...

    def heads(self) -> Mapping[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        ...


class EncoderPretraining(Pretraining):
    """An encoder with heads. A model says its objective (``build_objective``)."""

    published = (*Pretraining.published, "heads.safetensors")
    model: Encoder
    objective: EncoderObjective

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, EncoderConfig)
        encoder = Encoder(config.model)
        return encoder, self.build_objective(config, corpus, encoder, specials_of(corpus.pieces, corpus.folder))

    def build_objective(
        self, config: RunConfig, corpus: Corpus, encoder: Encoder, specials: Specials
    ) -> EncoderObjective:
        raise NotImplementedError

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> EncoderConfig:
        config, _, _ = load_encoder(base)
        require_same_tokens(Pieces.load(base), corpus, base)
        return config

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        config = self.model.config
        if config.table_std is not None:
            with torch.no_grad():
                self.model.embeddings.tokens.weight.mul_(config.table_std / config.init_std)
        if config.local_start:
            look_around(self.model, generator)

    def start_from(self, base: Path) -> None:
        _, encoder, heads = load_encoder(base)
        self.model.load_state_dict(encoder)
        for name, head in self.objective.heads().items():
            if name in heads:
                head.load_state_dict(heads[name])

    def export(self, folder: Path) -> None:
        """A directory that transformers reads where it knows such a model."""
        heads = {name: dict(head.state_dict()) for name, head in self.objective.heads().items()}
        save_encoder(folder, self.model.config, dict(self.model.state_dict()), heads, self.objective.specials.pad_id)
        config = self.model.config
        self.corpus.pieces.save(folder, segments=config.num_segments > 1, max_len=config.max_positions)

    def samples(self) -> list[str]:
        """Held-out sentences with a word hidden, and what is guessed in its place."""
        pieces = self.corpus.pieces
        head = next((one for one in self.objective.heads().values() if isinstance(one, TokenHead)), None)
        if head is None or pieces.cls_id is None or pieces.mask_id is None or pieces.sep_id is None:
            return []
        if not hasattr(self.corpus.heldout, "documents"):  # pairs have none
            return []
        said = []
        for row in _first_sentences(self.corpus.heldout, _NUM_SAMPLES):
            place = len(row) // 2
            hidden = np.asarray([pieces.cls_id, *row, pieces.sep_id], np.int64)
            hidden[place + 1] = pieces.mask_id
            inputs = Inputs(torch.from_numpy(hidden)[None].to(self.config.training.device))
            with torch.inference_mode():
                found_D = self.model.last(inputs)[0, place + 1]
                scores_V = head(found_D, self.model.embeddings.tokens.weight)
            guess = pieces.token(int(scores_V[: pieces.vocab_size].argmax()))
            true = pieces.token(int(row[place]))
            before, after = (pieces.decode(part.tolist()) for part in (row[:place], row[place + 1 :]))
            said.append(f"{before} [{guess}] {after}  ({true})")
        return said

    def extra_scores(self, folder: Path, num_texts: int) -> Scores:
        """Pseudo-perplexity over the first sentences of held-out documents, each token hidden in turn."""
        model = EncoderModel.load(folder)
        split, pieces = self.corpus.heldout, model.pieces
        assert pieces.cls_id is not None
        assert pieces.sep_id is not None
        scores = []
        for document in range(min(num_texts, split.num_documents)):
            first = int(split.documents[document])
            start, end = int(split.sentences[first]), int(split.sentences[first + 1])
            inner = np.asarray(split.tokens[start:end], np.int64)[: model.config.max_positions - 2]
            ids = np.pad(inner, 1)
            ids[0], ids[-1] = pieces.cls_id, pieces.sep_id
            scores.append(model.score_ids(ids, np.arange(1, len(ids) - 1)))
        return Scores({"pseudo_perplexity": float(np.exp(-np.concatenate(scores).mean()))})
