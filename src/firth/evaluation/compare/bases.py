"""The bases of a comparison: corpora prepared once each, every recipe pre-trained within its share of the budget."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import fingerprint
from firth.core.registry import RunConfig, TokensConfig, find_recipe, find_spec
from firth.core.run import Run
from firth.core.types import Event, Progress
from firth.corpus.format import Corpus
from firth.corpus.prepare import prepare
from firth.data.readers import ReadingConfig
from firth.data.sources import find_sources
from firth.evaluation.compare.tasks import Cache, Cell
from firth.models.pretrain import resume_run, resume_vectors, start_run, start_vectors
from firth.models.shared.pretraining import find_pretraining
from firth.tasks.finetune import MADE
from firth.vectors.configs import VectorsConfig
from firth.vectors.trainer import train_vectors
from firth.vectors.vocabulary import view_vocabulary

_MEASURED_S = 4.0
_BRIEF = ("training.evaluations=2", "training.evaluation_batches=4", "training.checkpoints=2")
_LONG_S = 300.0  # shorter trainings evaluate and save less often
_LENGTHS = ("steps", "epochs", "budget")


@dataclass(frozen=True)
class Base:
    """What is compared: a recipe with its settings, a model that exists, or none (``scratch``, ``counts``)."""

    name: str
    config: RunConfig | VectorsConfig | None = None  # to be pre-trained
    path: Path | None = None  # exists already
    has_length: bool = False  # the user said how long

    @property
    def static(self) -> bool:
        return self.config is not None and not isinstance(self.config, RunConfig)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Kinds of tokens that it can learn from; the first is prepared if no corpus has one of them."""
        if not isinstance(self.config, RunConfig):
            return ("words",)
        return self.config.tokens or find_spec(self.config.spec).tokens


def find_base(word: str) -> Base:
    """The base for an entry of ``--recipes``: a recipe (settings may follow it), a path, ``scratch`` or ``counts``."""
    name, *settings = word.split()
    if word in MADE:
        return Base(word)
    if Path(word).exists():
        return Base(Path(word).name or word, path=Path(word))
    config = _recipe(name, word)
    has_length = any(setting.partition("=")[0].rpartition(".")[2] in _LENGTHS for setting in settings)
    return Base(word, config.override(settings), has_length=has_length)


def _recipe(name: str, word: str) -> RunConfig | VectorsConfig:
    if "/" in name:
        raise FirthError(f"{word}: no such model; name a recipe, a run, a Hugging Face directory or a file of vectors")
    config = find_recipe(name)
    if not isinstance(config, RunConfig):
        assert isinstance(config, VectorsConfig)
        return config
    if find_pretraining(config).reads_pairs:
        raise FirthError(f"{name}: a recipe for pairs of sentences, which a comparison does not train; leave it out")
    if config.needs_base:
        raise FirthError(f"{name}: goes on with a model that exists; name that model's folder instead")
    find_pretraining(config).require()  # before anything is trained
    return config


def split_recipes(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


# -- corpora


class Corpora:
    """The given corpora and raw text; raw text is prepared once for each kind of tokens."""

    def __init__(self, given: Sequence[str], reading: ReadingConfig, vocab_size: int, lowercase: bool) -> None:
        self.reading, self.vocab_size, self.lowercase = reading, vocab_size, lowercase
        self.prepared = [Path(word) for word in given if (Path(word) / "corpus.json").is_file()]
        self.raw = [word for word in given if not (Path(word) / "corpus.json").is_file()]
        self.kinds = {path: Corpus.open(path, verify=False).info.tokens.kind for path in self.prepared}
        if self.raw:
            find_sources(self.raw, reading.format)

    def serves(self, base: Base) -> bool:
        return bool(self.raw) or base.config is None or self._ready(base.tokens) is not None

    def refusal(self, base: Base) -> str:
        """Why a recipe has nothing to learn from."""
        held = ", ".join(f"{path} holds {kind}" for path, kind in self.kinds.items())
        if not held:
            return f"{base.name} learns from raw text: name it with --corpus"
        return f"{base.name} learns from {' or '.join(base.tokens)}, but {held}; name the raw text with --corpus too"

    def _ready(self, tokens: tuple[str, ...]) -> Path | None:
        return next((path for path in self.prepared if self.kinds[path] in tokens), None)

    def find(self, base: Base, cache: Cache, progress: Progress | None) -> Path:
        """The corpus of a base; prepared if need be."""
        found = self._ready(base.tokens)
        if found is not None:
            return found
        kind = base.tokens[0]
        tokens = TokensConfig.build(
            {"kind": kind, "vocab_size": self.vocab_size, "lowercase": self.lowercase}, "tokens"
        )
        cell = cache.cell("corpora", kind, self._inputs(tokens))
        if not (cell.folder / "corpus.json").is_file():
            cache.choose(cell)
            cell.folder.parent.mkdir(parents=True, exist_ok=True)
            prepare(self.raw, cell.folder, tokens, self.reading, progress=progress)
        return cell.folder

    def _inputs(self, tokens: TokensConfig) -> dict[str, object]:
        files = {source.name: fingerprint(source.path) for source in find_sources(self.raw, self.reading.format)}
        return {"files": files, "tokens": tokens.model_dump(mode="json"), "reading": self.reading.model_dump()}


# -- pre-training


def base_inputs(base: Base, corpus: Path, budget: str) -> dict[str, object]:
    """Everything that determines the result of a pre-training."""
    assert base.config is not None
    entities = getattr(getattr(base.config, "objective", None), "entities", None)
    return {
        **({"entities": fingerprint(Path(entities))} if entities else {}),
        "recipe": base.config.model_dump(mode="json"),
        "corpus": Corpus.open(corpus, verify=False).fingerprint,
        "budget": None if base.has_length else budget,
    }


def is_finished(cell: Cell) -> bool:
    run = Run.find(cell.folder)
    return run is not None and run.record.finished


def pretrain_base(base: Base, cell: Cell, corpus: Path, seconds: float, progress: Progress | None) -> Run:
    """The run in the cell's folder: started, resumed, or returned as it is if finished. The cache knows its seconds."""
    begun = Run.find(cell.folder)
    if begun is not None:
        run = begun
        if not run.record.finished:
            run = resume_vectors(run, progress) if base.static else resume_run(cell.folder, progress)
    elif isinstance(base.config, RunConfig):
        config = base.config
        if not base.has_length:
            brief = seconds < _LONG_S and config.training.optimizer != "averaged_sgd"  # which needs its evaluations
            config = config.override([f"training.budget={max(seconds, 1):.0f}s", *(_BRIEF if brief else ())])
        run = start_run(config, corpus, cell.folder, progress=progress)
    else:
        assert base.config is not None
        vectors = fitted_vectors(base.config, corpus, None if base.has_length else seconds)
        run = start_vectors(base.name.split()[0], vectors, corpus, cell.folder, progress=progress)
    shutil.rmtree(cell.folder / "checkpoints", ignore_errors=True)  # the run is finished
    return run


def fitted_vectors(config: VectorsConfig, corpus: Path, seconds: float | None) -> VectorsConfig:
    """The settings of static vectors for this corpus: a lower ``min_count`` for small texts, as many n-gram buckets as needed,
    and as many epochs as the seconds allow (none: as in the recipe)."""
    opened = Corpus.open(corpus, verify=False)
    if opened.info.train.tokens < 100_000:
        config = config.replace(min_count=min(config.min_count, 2))
    config = config.fitted(lambda: len(view_vocabulary(opened, config.min_count, config.max_vocab)))
    if seconds is None:
        return config
    epoch_s = _epoch_seconds(opened, config, min(_MEASURED_S, 0.2 * seconds))
    return config.replace(epochs=max(1, min(config.most_epochs, int(0.9 * seconds / max(epoch_s, 1e-9)))))


class _Enough(Exception):
    """Ends a measurement."""


def _epoch_seconds(corpus: Corpus, config: VectorsConfig, limit_s: float) -> float:
    """How long an epoch takes, measured on the first seconds of a training that is discarded."""
    events: list[tuple[float, float]] = []
    begun = time.perf_counter()

    def watch(event: Event) -> None:
        events.append((event["tokens"], event["seconds"]))
        if len(events) > 2 and time.perf_counter() - begun > limit_s:
            raise _Enough

    with tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(_Enough):
            train_vectors(corpus, config, Path(folder) / "run", watch)
        whole = time.perf_counter() - begun
    if len(events) < 2:
        return whole / config.epochs
    (first_tokens, first_s), (last_tokens, last_s) = events[0], events[-1]
    rate = (last_tokens - first_tokens) / max(last_s - first_s, 1e-9)
    return corpus.info.train.tokens / max(rate, 1e-9)
