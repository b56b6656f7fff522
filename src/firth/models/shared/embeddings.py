"""A token table that begins with static vectors of the same tokens: a contextual model inherits what the generation before it
learns in seconds (``embeddings=auto``: skip-gram on the text of the corpus; ``embeddings=PATH``: a run or file of vectors).
A model whose tokens are no table says itself how it begins with them (``TakesVectors``).

Vectors are brought to mean 0 and one common scale, twice that with which the table was drawn (of the scales that were tried the one
that learned fastest). Rows of tokens without a vector keep their random start, and the mean of the table stays what it was.

V rows of the table, D width.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.config import parse_duration, usable_cores
from firth.core.errors import FirthError, Interrupted
from firth.core.run import EmbeddingsRecord, Run
from firth.core.types import Progress, generator
from firth.corpus.format import Corpus, Split
from firth.models.shared.pretraining import Pretraining
from firth.training.checkpoints import stop_signals
from firth.training.loop import Loop
from firth.vectors.configs import Word2VecConfig
from firth.vectors.formats import load_vectors
from firth.vectors.learners import WordLearner
from firth.vectors.trainer import load_run
from firth.vectors.vocabulary import Vocabulary, number_types, view_vocabulary
from firth.vectors.word_vectors import WordVectors

AUTO, NONE = "auto", "none"
_SCALE = 2.0  # of the deviation with which the table was drawn
_MOST_EPOCHS = 10  # of the text; rare words go on gaining
_FEWEST_TOKENS = 10_000
_TIMED_S = 0.5
_REPORT_S = 1.0
_SAMPLE = 0x5A3E  # what the random numbers here are for


def token_tables(model: nn.Module) -> list[nn.Embedding]:
    """The tables of a model that have a row for each token: every network calls its own ``tokens``."""
    found = [
        part
        for name, part in model.named_modules()
        if name.rpartition(".")[2] == "tokens" and isinstance(part, nn.Embedding)
    ]
    return [table for number, table in enumerate(found) if all(table is not other for other in found[:number])]


@runtime_checkable
class TakesVectors(Protocol):
    """A pre-training whose model begins with the vectors of its tokens without having a table of them."""

    @property
    def vectors_dim(self) -> int: ...

    def take_vectors(self, vectors: WordVectors) -> int:
        """How many of its tokens have one."""
        ...


@dataclass(frozen=True)
class Documents:
    """Some documents of a split, one after another."""

    tokens: NDArray[np.integer]
    document_starts: NDArray[np.int64]

    @property
    def sentences(self) -> NDArray[np.int64]:
        return self.document_starts


def sample_documents(split: Split, num_tokens: int, seed: int) -> Documents:
    """Random documents, in the order of the text, until there are so many tokens; all where there are no more."""
    starts = np.asarray(split.document_starts, np.int64)
    sizes = np.diff(starts)
    order = generator(seed, _SAMPLE).permutation(len(sizes))
    count = int(np.searchsorted(np.cumsum(sizes[order]), num_tokens)) + 1
    if count >= len(sizes):
        return Documents(split.tokens, starts)
    chosen = np.sort(order[:count])
    tokens = np.concatenate([split.tokens[starts[one] : starts[one + 1]] for one in chosen])
    return Documents(tokens, np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[chosen]))))


class PieceVectors:
    """Skip-gram over the tokens of a corpus, whatever they are: a pure function of the corpus, the settings, the number of
    tokens read and the number of threads."""

    def __init__(self, corpus: Corpus, dim: int, seed: int, threads: int) -> None:
        self.corpus, self.seed, self.threads = corpus, seed, threads
        self.config = Word2VecConfig(
            architecture="skipgram", dim=dim, min_count=1, sample=1e-4, seed=seed % 2**32, threads=threads
        )
        self.vocabulary: Vocabulary = view_vocabulary(corpus, 1, None)
        self.remap = number_types(corpus, self.vocabulary)

    def _learner(self, num_tokens: int) -> WordLearner:
        """Reads whole epochs of the text, or one of a sample of it."""
        size = self.corpus.info.train.tokens
        epochs = max(1, round(num_tokens / max(size, 1)))
        text = self.corpus.train if num_tokens >= size else sample_documents(self.corpus.train, num_tokens, self.seed)
        return WordLearner(text, self.vocabulary, self.config.replace(epochs=epochs), self.threads, self.remap)

    def tokens_within(self, seconds: float) -> int:
        """How many tokens fit into the time, from the speed of a training that is thrown away."""
        learner = self._learner(min(self.corpus.info.train.tokens, 2_000_000))
        with ThreadPoolExecutor(self.threads) as pool:
            learner.run_step(0, pool)  # the first one waits for the compiler
            begun, step = time.perf_counter(), 1
            while step < learner.num_steps and (step == 1 or time.perf_counter() - begun < min(_TIMED_S, seconds)):
                learner.run_step(step, pool)
                step += 1
            spent = time.perf_counter() - begun
        read = learner.tokens_before(step) - learner.tokens_before(1)
        most = _MOST_EPOCHS * self.corpus.info.train.tokens
        return max(_FEWEST_TOKENS, min(most, int(read / max(spent, 1e-9) * seconds)))

    def train(self, num_tokens: int, progress: Progress | None = None, stop: Sequence[int] = ()) -> WordVectors:
        """Ends as soon as there is a signal in ``stop``."""
        learner = self._learner(num_tokens)
        begun = reported = time.perf_counter()
        loss, count = 0.0, 0
        with ThreadPoolExecutor(self.threads) as pool:
            for step in range(learner.num_steps):
                some_loss, some_count = learner.run_step(step, pool)
                loss, count, now = loss + some_loss, count + some_count, time.perf_counter()
                if progress and (now - reported > _REPORT_S or step == learner.num_steps - 1):
                    tokens = learner.tokens_before(step + 1)
                    progress(
                        {
                            "event": "train",
                            "step": step + 1,
                            "steps": learner.num_steps,
                            "loss": loss / max(count, 1),
                            "learning_rate": learner.learning_rate(step),
                            "tokens": tokens,
                            "tokens_per_s": tokens / max(now - begun, 1e-9),
                            "seconds": now - begun,
                        }
                    )
                    loss, count, reported = 0.0, 0, now
                if stop:
                    raise Interrupted("stopped before the first step")
        return WordVectors(self.vocabulary.words, learner.arrays()["input"].copy())


def plan_vectors(vectors: PieceVectors, budget_s: float | None, share: float) -> EmbeddingsRecord:
    """How much of the text is read: ten epochs, or as much as fits into the share of the budget. Decided once and kept in the
    run, so that a run that is begun again begins with the same table."""
    tokens = (
        _MOST_EPOCHS * vectors.corpus.info.train.tokens if budget_s is None else vectors.tokens_within(share * budget_s)
    )
    return EmbeddingsRecord(tokens=tokens, threads=vectors.threads)


def read_vectors(path: Path) -> WordVectors:
    """A run of static vectors, or a file of vectors."""
    if not path.exists():
        raise FirthError(f"embeddings={path}: no such run or file of vectors; write auto, none, or a path")
    return load_run(path) if path.is_dir() else load_vectors(path)


def require_fit(names: Sequence[str], vectors: WordVectors, dim: int) -> list[tuple[int, int]]:
    """Which of the tokens begins with which vector."""
    if vectors.dim != dim:
        raise FirthError(
            f"embeddings: the vectors have {vectors.dim} dimensions, the token table {dim}; train vectors with dim={dim}"
        )
    place = {word: number for number, word in enumerate(vectors.words)}
    known = [(row, place[name]) for row, name in enumerate(names) if name in place]
    if len(known) < 2:
        raise FirthError("embeddings: none of the model's tokens is among the vectors; train them on the same corpus")
    return known


@torch.no_grad()
def fill_table(table: nn.Embedding, names: Sequence[str], vectors: WordVectors) -> int:
    """Rows of the tokens that have a vector; how many those are."""
    known = require_fit(names[: table.num_embeddings], vectors, table.embedding_dim)
    rows, numbers = (torch.tensor(some) for some in zip(*known, strict=True))
    found_VD = torch.from_numpy(np.asarray(vectors.rows(0, len(vectors)), np.float32))[numbers]
    found_VD = found_VD - found_VD.mean(0)
    weight = table.weight
    mean_D, deviation = weight.mean(0), float((weight - weight.mean(0)).std())
    scaled_VD = found_VD * (_SCALE * deviation / float(found_VD.std().clamp(min=1e-12)))
    weight[rows.to(weight.device)] = scaled_VD.to(weight.device) + mean_D
    return len(known)


def check_start(trainable: Pretraining) -> None:
    """Refuses a start that cannot be, before anything is written."""
    config = trainable.config.training
    if trainable.reads_pairs:
        raise FirthError(f"embeddings={config.embeddings}: this recipe learns from pairs; write embeddings=none")
    tables = token_tables(trainable.model)
    if not tables and not isinstance(trainable, TakesVectors):
        raise FirthError(f"embeddings={config.embeddings}: this recipe has no token table; write embeddings=none")
    if config.embeddings != AUTO:
        vectors, names = read_vectors(Path(config.embeddings)), trainable.token_names()
        if isinstance(trainable, TakesVectors):
            require_fit(names, vectors, trainable.vectors_dim)
        for table in tables:
            require_fit(names[: table.num_embeddings], vectors, table.embedding_dim)


def start_table(run: Run, trainable: Pretraining, loop: Loop) -> None:
    """Before the first step: the vectors that the settings ask for become the token tables, on every rank the same."""
    config = trainable.config.training
    tables, begun = token_tables(trainable.model), time.perf_counter()
    if loop.ranks.first:
        dim = trainable.vectors_dim if isinstance(trainable, TakesVectors) else tables[0].embedding_dim
        if config.embeddings == AUTO:
            # What is counted first is not the training that was asked for, and the display says so.
            found = _train_vectors(run, trainable, dim, lambda event: loop.progress({**event, "stage": "word vectors"}))
        else:
            found = read_vectors(Path(config.embeddings))
        if isinstance(trainable, TakesVectors):
            rows = trainable.take_vectors(found)
        for table in tables:
            rows = fill_table(table, trainable.token_names(), found)
        known = run.record.embeddings
        if known is not None:  # what is left for the rest is decided once
            run.save(embeddings=known.replace(rows=rows, seconds=known.seconds or time.perf_counter() - begun))
    for table in tables:
        loop.ranks.share(table.weight.data)
    seconds = run.record.embeddings.seconds if run.record.embeddings else 0.0
    spent = loop.ranks.sum_values({"seconds": seconds})["seconds"]
    if not loop.ranks.first and config.embeddings == AUTO:  # all ranks must know how much of the budget is left
        run.change(embeddings=EmbeddingsRecord(tokens=0, threads=1, seconds=spent))


def _train_vectors(run: Run, trainable: Pretraining, dim: int, progress: Progress) -> WordVectors:
    """As much text as was decided when the run began, with as many threads."""
    config = trainable.config.training
    known = run.record.embeddings
    threads = known.threads if known else usable_cores()
    vectors = PieceVectors(trainable.corpus, dim, config.seed, threads)
    if known is None:
        budget_s = None if config.budget is None else parse_duration(config.budget)
        known = plan_vectors(vectors, budget_s, config.embeddings_ratio)
        run.save(embeddings=known)
    with stop_signals() as stop:
        return vectors.train(known.tokens, progress, stop)
