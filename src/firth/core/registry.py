"""The registry of models: every model is one ``ModelSpec``, which says all that the rest of the package asks about
it.

To add a model to the package: a folder in ``firth/models`` whose ``__init__.py`` has ``SPEC``, and its name in
``MODELS``. A model from outside the package joins by ``register(SPEC)``, or by an entry point of the group
``firth.models`` that names its ``ModelSpec``.

Below it are the settings of tokens, of training with its precision, and of a whole run. They are plain data without torch, so
that listing recipes is fast.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

from pydantic import Field, SerializeAsAny, model_validator

from firth.core.config import Config, Positive, Probability, parse_duration
from firth.core.errors import FirthError, nearest
from firth.core.files import read_json

if TYPE_CHECKING:
    from firth.models.shared.encoder_decoder import TranslationNetwork
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.published import EncoderFormat
    from firth.models.shared.translator_format import TranslatorFormat
    from firth.tokenizers.published import SentencePieceRules
    from firth.vectors.configs import VectorsConfig
    from firth.vectors.learners import BuildLearner


MODELS = (
    "word2vec",
    "fasttext",
    "glove",
    "model2vec",
    "scratch",
    "counts",
    "recurrent",
    "elmo",
    "seq2seq",
    "transformer",
    "gpt",
    "bert",
    "modernbert",
    "roberta",
    "distilbert",
    "albert",
    "mpnet",
    "deberta",
    "ernie",
    "unilm",
    "xlnet",
    "t5",
    "electra",
    "vit",
    "swin",
)
"""The folders of ``firth.models``, one line per model."""


def config_facts(path: Path) -> Mapping[str, object]:
    """What a published directory says of itself: the type and the sizes in its ``config.json``, as its model calls them."""
    where = path / "config.json"
    data = read_json(where, dict) if where.is_file() else {}
    sizes = {name: value for name, value in data.items() if type(value) is int and not name.endswith("_id")}
    return ({"model_type": data["model_type"]} if "model_type" in data else {}) | sizes


@dataclass(frozen=True)
class ModelSpec:
    """One model: its settings, recipes, training, files and traits. Nothing in it imports torch before it is called."""

    name: str
    load: Callable[[Path], Model]  # from a finished run or a published directory
    recipes: Mapping[str, Callable[[], Config]] = field(default_factory=dict)
    suggested: Mapping[str, str] = field(default_factory=dict)  # kind of corpus: the recipe to begin with
    in_transformers: bool = False  # whose AutoModel reads its runs
    network: type[Config] | None = None  # the settings of the network; none: nothing is pre-trained by the loop
    objectives: tuple[type[ObjectiveConfig], ...] = ()  # what it can be trained with, by ``kind``
    pretraining: Callable[[ObjectiveConfig], type[Pretraining]] | None = None
    vectors: type[VectorsConfig] | None = None  # the settings of static vectors, which have a training of their own
    vectors_learner: Callable[[], BuildLearner] | None = None  # what that training drives
    tokens: tuple[
        str, ...
    ] = ()  # kinds of corpus that it trains on, the usual one first; "pairs": sentence pairs, "images"
    model_types: tuple[str, ...] = ()  # ``model_type`` in the config.json of directories that ``load`` reads
    encoder_format: Callable[[], EncoderFormat] | None = None  # what those of a BERT-shaped encoder call its parts
    translator: Callable[[Config], TranslationNetwork] | None = None  # its network, if not the shared encoder-decoder
    translator_format: Callable[[], TranslatorFormat] | None = None  # how a translator's are written and read
    recognizes: Callable[[Path], bool] = lambda path: False  # a file or folder without config.json that ``load`` reads
    files: Callable[[Path], Mapping[str, Path]] | None = None  # of those, by the names that they have in a copy
    facts: Callable[[Path], Mapping[str, object]] = config_facts  # what is shown of what ``load`` reads
    sentencepiece: Callable[[], Mapping[str, SentencePieceRules]] | None = None
    """By ``model_type``: the tokenizer of directories that hold no other file of one than a SentencePiece model."""
    continues: str | None = None  # the recipe with which a published directory is trained further

    # traits
    tuned_whole: bool = False  # tasks tune all of it unless they say otherwise; else a BiLSTM reads its vectors
    is_table: bool = False  # one vector per word, whatever its context
    has_task_heads: bool = False  # its published directories may hold a task (transformers' ...For classes)
    reads_images: bool = False  # not text: tasks, comparisons and probes of text pass it over
    mixes_layers: bool = False  # tasks use a learned mix of its layers unless they say otherwise
    abilities: tuple[str, ...] = ()  # besides those of every model, where it was trained so (``Model.abilities``)

    def learner(self) -> BuildLearner:
        """Of static vectors."""
        assert self.vectors_learner is not None, self.name
        return self.vectors_learner()

    def objective(self, kind: str) -> type[ObjectiveConfig] | None:
        return next((one for one in self.objectives if one.model_fields["kind"].default == kind), None)


_added: dict[str, ModelSpec] = {}


def register(spec: ModelSpec) -> None:
    """Adds a model from outside the package; a name that is taken is refused."""
    if spec.name in specs():
        raise FirthError(f"there is a model '{spec.name}' already: choose another name")
    taken = [name for name in spec.recipes if any(name in other.recipes for other in specs().values())]
    if taken:
        raise FirthError(f"there is a recipe '{taken[0]}' already: choose another name")
    _added[spec.name] = spec


@cache
def _installed() -> dict[str, ModelSpec]:
    own = [import_module(f"firth.models.{name}").SPEC for name in MODELS]
    found = {spec.name: spec for spec in own}
    for entry in metadata.entry_points(group="firth.models"):
        spec = entry.load()
        if isinstance(spec, ModelSpec) and spec.name not in found:
            found[spec.name] = spec
    return found


def specs() -> dict[str, ModelSpec]:
    """Every model by name."""
    return {**_installed(), **_added}


def find_spec(name: str) -> ModelSpec:
    known = specs()
    if name not in known:
        raise FirthError(f"unknown model '{name}': {nearest(name, list(known))}")
    return known[name]


def recipes_with(ability: str, most: int = 4) -> str:
    """The first recipe of each model that has an ability, for people; a few where there are many."""
    names = [next(iter(spec.recipes)) for spec in specs().values() if ability in spec.abilities and spec.recipes]
    assert names, f"no model can {ability}"
    few = names[:most]
    listed = few[0] if len(few) == 1 else f"{', '.join(few[:-1])} or {few[-1]}"
    return listed if few == names else f"a model such as {listed}"


def recipes() -> dict[str, ModelSpec]:
    """Every recipe by name, with the model that it trains."""
    return {recipe: spec for spec in specs().values() for recipe in spec.recipes}


def find_recipe(name: str, budget: str | None = None) -> Config:
    """The settings of a recipe. A name without its size, such as ``modernbert``, is the recipe whose time is nearest to the
    budget, by their ratio."""
    known = recipes()
    if name not in known:
        sizes = _sizes(name, known)
        if not sizes:
            raise FirthError(f"unknown recipe '{name}': {nearest(name, list(known))}")
        if budget is None:
            raise FirthError(
                f"{name} has a size for each length of training: give it a budget, or choose {' or '.join(sizes)}"
            )
        seconds = parse_duration(budget)
        name = min(sizes, key=lambda one: abs(math.log(sizes[one] / seconds)))
    return known[name].recipes[name]()


def _sizes(name: str, known: Iterable[str]) -> dict[str, float]:
    """The recipes of this name that say for how many seconds they are made."""
    ends = {one: one.removeprefix(f"{name}-") for one in known}
    return {one: parse_duration(end) for one, end in ends.items() if re.fullmatch(r"\d+[smhd]", end)}


def spec_of_model_type(model_type: str) -> ModelSpec | None:
    """The model whose published directories have this ``model_type`` in config.json."""
    return next((spec for spec in specs().values() if model_type in spec.model_types), None)


def suggested_recipe(kind: str) -> tuple[str, ModelSpec]:
    """A recipe to begin with for a corpus of this kind, and its model."""
    return next((spec.suggested[kind], spec) for spec in specs().values() if kind in spec.suggested)


def model_types() -> list[str]:
    return [kind for spec in specs().values() for kind in spec.model_types]


_BPE_SAMPLE_BYTES = 10_000_000


class TokensConfig(Config):
    """What a token is (prepare)."""

    kind: Literal["wordpiece", "bpe", "unigram", "words", "characters"] = "wordpiece"
    vocab_size: Annotated[int, Field(ge=300, le=1_000_000)] = 8000
    lowercase: bool = True
    strip_accents: bool = False
    byte_fallback: bool = False
    word_split: Literal["words", "whitespace"] = "words"
    sample_bytes: Positive = 48_000_000

    @property
    def vocabulary_bytes(self) -> int:
        """Of text by which a vocabulary is learned. The trainer of BPE holds every sequence of letters, which in Chinese is
        half a sentence, so it is given less."""
        return min(self.sample_bytes, _BPE_SAMPLE_BYTES) if self.kind == "bpe" else self.sample_bytes

    @model_validator(mode="after")
    def _bytes_have_pieces(self) -> TokensConfig:
        if self.byte_fallback and self.kind in ("words", "characters"):
            raise ValueError(f"byte_fallback is for pieces, not for {self.kind}: leave it out")
        if self.strip_accents and self.kind != "wordpiece":
            raise ValueError(f"strip_accents is what BERT does to WordPiece, not for {self.kind}: leave it out")
        return self


Precision: TypeAlias = Literal["float32", "bfloat16", "float16", "auto"]
"""Of matrix products; auto is bfloat16 where the machine has units for it."""


def choose_precision(precision: Precision, device: str) -> Precision:
    """``auto`` is bfloat16 where the machine has units for it, which are several times as fast; the weights and the optimizer
    are float32 in any case. Chosen once, when a run begins."""
    if precision != "auto":
        return precision
    import torch

    device = device.partition(":")[0]
    fast = device == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    fast = fast or (device == "cuda" and torch.cuda.is_available() and torch.cuda.is_bf16_supported())
    return "bfloat16" if fast else "float32"


def precision_context(precision: Precision, device: str) -> AbstractContextManager[object]:
    """Autocast where asked for; bfloat16 on a CPU without units for it is far slower, so it is refused."""
    precision = choose_precision(precision, device)
    if precision == "float32":
        return nullcontext()
    import torch

    device = device.partition(":")[0]
    if device == "cpu":
        if precision == "float16":
            raise FirthError("precision float16 needs a GPU: use float32 on a CPU")
        if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            raise FirthError("this CPU has no bfloat16 units, it would be many times slower: use precision=float32")
    return torch.autocast(device, torch.bfloat16 if precision == "bfloat16" else torch.float16)


class TrainingConfig(Config):
    """The one loop: how long, how fast, what is kept."""

    batch_size: Annotated[int, Field(gt=0, le=1 << 20)] = 32  # rows of a batch
    gradient_accumulation: Annotated[int, Field(gt=0, le=1 << 16)] = 1  # batches of a step
    steps: Annotated[int, Field(gt=0, le=10**9)] | None = None  # number of updates; or epochs, or budget
    epochs: Annotated[float, Field(gt=0, le=1e6)] | None = None  # passes over the corpus
    budget: str | None = None  # how long to train, such as 20m
    optimizer: Literal["adamw", "muon", "averaged_sgd"] = "adamw"  # how weights are updated
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4  # the highest, after warm-up
    schedule: Literal["linear", "cosine", "inverse_sqrt", "constant"] = "linear"  # of the learning rate after warm-up
    warmup_ratio: Annotated[float, Field(ge=0, le=1)] = 0.06  # share of the steps in which the rate rises
    weight_decay: Annotated[float, Field(ge=0)] = 0.01  # of the weights, at each step
    beta1: Probability = 0.9  # of Adam: decay of the mean of gradients
    beta2: Probability = 0.98  # of Adam: decay of the mean of squares
    adam_eps: Annotated[float, Field(gt=0)] = 1e-6  # of Adam: added to the root of the mean of squares
    embeddings: str = (
        "none"  # what the token table begins with; auto: skip-gram vectors of the corpus, or a run or file of vectors
    )
    embeddings_ratio: Annotated[float, Field(gt=0, lt=1)] = 0.15  # of the budget, for embeddings=auto
    momentum: Probability = 0.95  # of muon
    muon_rate: Annotated[float, Field(gt=0)] = 4.0  # of muon: its matrices learn so much faster than everything else
    clip_norm: Annotated[float, Field(ge=0)] = 1.0  # longest gradient; 0: no limit
    evaluations: Annotated[int, Field(ge=0)] = 8  # on held-out text, while it trains
    evaluation_batches: Positive = 16  # batches of an evaluation
    checkpoints: Annotated[int, Field(ge=0)] = 8  # how many are written in all
    keep: Positive = 2  # how many checkpoints stay
    average_patience: Positive = 5  # of averaged_sgd: evaluations without a better score before averaging begins
    average: Positive = 1  # the finished model is the mean of so many last checkpoints
    finish: Literal["last", "best"] = (
        "last"  # the finished model; best: the one with the best evaluation on held-out text
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # same seed, same result
    device: str = "cpu"  # cpu, cuda, cuda:1
    parallel: Literal["ddp", "fsdp"] = "ddp"  # under torchrun: the whole model on each process, or in shards
    rank_timeout_s: Annotated[float, Field(gt=0)] = 1800.0  # how long a process waits for the others
    precision: Precision = "float32"  # of matrix products; auto: bfloat16 where the machine has units for it

    @model_validator(mode="after")
    def _one_length(self) -> TrainingConfig:
        given = [name for name in ("steps", "epochs", "budget") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} were given: say how long to train in one way only")
        if self.optimizer == "averaged_sgd" and not self.evaluations:
            raise ValueError("optimizer=averaged_sgd waits for evaluations on held-out text: set evaluations above 0")
        if self.optimizer == "averaged_sgd" and self.average > 1:
            raise ValueError("optimizer=averaged_sgd averages by itself: leave out average")
        if self.finish == "best" and (self.average > 1 or self.optimizer == "averaged_sgd"):
            raise ValueError("finish=best takes one checkpoint, an average several: leave out one of them")
        if self.finish == "best" and not self.evaluations:
            raise ValueError(
                "finish=best waits for evaluations on held-out text: set evaluations above 0, or finish=last"
            )
        if self.budget is not None:
            try:
                parse_duration(self.budget)
            except FirthError as error:
                raise ValueError(str(error)) from None
        return self


class ObjectiveConfig(Config):
    """What is predicted from what; ``kind`` says which."""

    kind: str = ""  # what is learned

    def check(self, model: Config) -> None:
        """A ValueError where a network of these settings cannot be trained with it."""


class RunConfig(Config):
    """Everything a pre-training run is made of; stored whole in the run. ``spec`` names the ``ModelSpec`` whose settings
    ``model`` and ``objective`` are."""

    recipe: str  # its name
    spec: str  # the model it trains
    tokens: tuple[str, ...] = ()  # kinds of corpus that it is made for; none: all those of its model
    needs_base: bool = False  # trains a finished model further
    model: SerializeAsAny[Config]
    objective: SerializeAsAny[ObjectiveConfig]
    training: TrainingConfig = TrainingConfig()

    @classmethod
    def build(cls, data: object, where: str | Path, section: str = "") -> Self:
        """From plain data, the sections by the classes that the spec names."""
        if isinstance(data, Mapping):
            data = {**data, **_sections(data, where)}
        return super().build(data, where, section)

    @model_validator(mode="after")
    def _positions_reach(self) -> RunConfig:
        most, needed = getattr(self.model, "max_positions", None), getattr(self.objective, "seq_len", None)
        if most is not None and needed is not None and needed > most:
            raise ValueError(
                f"objective.seq_len ({needed}) is longer than model.max_positions ({most}): lower one or raise the other"
            )
        return self

    @model_validator(mode="after")
    def _objective_fits(self) -> RunConfig:
        self.objective.check(self.model)
        return self


def _sections(data: Mapping[str, object], where: str | Path) -> dict[str, Config]:
    """``model`` and ``objective`` of a run's settings, checked by the classes of its spec."""
    spec = find_spec(str(data.get("spec")))
    found: dict[str, Config] = {}
    if isinstance(data.get("model"), Mapping) and spec.network is not None:
        found["model"] = spec.network.build(data["model"], where, "model")
    objective = data.get("objective")
    if isinstance(objective, Mapping):
        kinds = [one.model_fields["kind"].default for one in spec.objectives]
        kind = str(objective.get("kind", kinds[0] if len(kinds) == 1 else None))
        chosen = spec.objective(kind)
        if chosen is None:
            raise FirthError(
                f"{where}: {spec.name} is not trained with objective.kind={kind}: choose {' or '.join(kinds)}"
            )
        found["objective"] = chosen.build(objective, where, "objective")
    return found


def find_run_recipe(name: str) -> RunConfig:
    """A recipe that the training loop runs; static vectors have a training of their own."""
    config = find_recipe(name)
    if not isinstance(config, RunConfig):
        raise FirthError(
            f"{name}: a recipe of static vectors, which the training loop does not run: choose another one"
        )
    return config
