"""What every trained model answers, and how a model is found and loaded from a path.

What a model cannot do is said in a sentence.

L layers, H heads, T tokens, S source tokens, D width, N texts.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from firth.core.config import Config, show_count
from firth.core.errors import FirthError
from firth.core.files import foreign_errors, read_json
from firth.core.registry import (
    ModelSpec,
    RunConfig,
    TokensConfig,
    find_spec,
    model_types,
    recipes_with,
    spec_of_model_type,
    specs,
)
from firth.core.run import Run, is_run
from firth.core.types import Prediction, TextReader
from firth.models.shared.scoring import Attention as Attention
from firth.models.shared.scoring import AttentionMaps as AttentionMaps
from firth.models.shared.scoring import Guess as Guess
from firth.models.shared.scoring import PromptedLabel as PromptedLabel
from firth.models.shared.scoring import ScoredText
from firth.models.shared.scoring import TextLayers as TextLayers
from firth.models.shared.scoring import Translated as Translated
from firth.models.shared.sentences import (
    MODULES,
    SentenceEncoder,
    SentenceModules,
    pool_by_reader,
    read_sentence_modules,
    similarities,
)
from firth.tokenizers.pieces import UNKNOWN_PIECES, Pieces, unknown_warning
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.word_tokens import AnyTokens, WordTokens
from firth.tokenizers.words import scripts_of

if TYPE_CHECKING:
    from torch import nn

    from firth.decoding.steps import Trace
    from firth.models.shared.generation import Continuation

Found = tuple[str, float]
_SAMPLED = 2000  # tokens, to see its scripts

ABILITIES = (
    "encode",
    "nearest",
    "analogy",
    "fill",
    "follows",
    "generate",
    "translate",
    "predict",
    "layers",
    "map",
    "context",
    "attention",
    "alignment",
    "tokens",
    "look",
    "search",
    "group",
)
"""All that can be asked of some model."""


# -- what a loaded model says of itself: ``Model.describe()``, and with what a server adds its list of models.


class Facts(Config):
    """A weight or score may be no number, where a training failed."""

    model_config = ConfigDict(allow_inf_nan=True)


class LayerWeights(Facts):
    """A learned mix of layers: where it enters, the weight of each layer, and their scale."""

    place: str
    weights: tuple[float, ...]
    scale: float


class ModelFacts(Facts):
    """Kind, sizes and abilities; of a task its labels and mixes of layers, of a masked model its mask."""

    kind: str
    abilities: tuple[str, ...]
    dim: int
    parameters: int
    task: str | None = None
    pair: bool = False  # the task reads two texts
    labels: tuple[str, ...] = ()
    several: bool = False  # a text may have several labels
    layer_weights: LayerWeights | None = None  # the first of ``mixes``
    mixes: tuple[LayerWeights, ...] = ()
    mask: str | None = None
    languages: tuple[str, ...] = ()
    images: bool = False  # what it reads, instead of text
    documents: int | None = None  # of a search index
    passages: int | None = None
    vectors: bool | None = None  # whether it has these besides the words


class Model:
    """``encode`` and ``layers`` are for all; the rest is for those that can, as their ``abilities`` say."""

    kind = "model"  # for people
    spec_name: str = ""  # of its ``ModelSpec``
    dim: int = 0
    num_layers: int = 0  # above the token layer
    languages: Sequence[str] = ()  # of source and target, where it translates
    path: Path | None = None  # where it was loaded from
    engine: str | None = None  # what computes an exported model; none: torch or NumPy
    _segmentation: Segmentation = PLAIN  # of a model without a tokenizer
    source_len: int | None = None  # tokens of a source that are read, where it was taught so
    pools: tuple[str, ...] = ("mean", "max")  # how ``encode`` may make one vector of a text's tokens
    sentence: SentenceEncoder | None = None  # of a sentence model: how its modules make a vector of a text
    score_methods: tuple[str, ...] = ()  # how ``score_texts`` may score, the usual way first

    @property
    def spec(self) -> ModelSpec:
        return find_spec(self.spec_name)

    @property
    def num_parameters(self) -> int:
        """Numbers that were learned."""
        return 0

    @property
    def subword_parameters(self) -> int:
        """Those of n-grams (fastText), which are only looked up."""
        return 0

    @property
    def vocab_size(self) -> int | None:
        """Tokens or words that it knows; none: it reads characters, or does not say."""
        return None

    def count_tokens(self, text: str) -> int:
        """Of a text, without special ones; 0 for a model that has no pieces."""
        pieces = getattr(self, "pieces", None)
        return len(pieces.batch_ids([text])[0]) if isinstance(pieces, Pieces) else 0

    @property
    def title(self) -> str:
        """What it is, for people."""
        return self.kind

    @property
    def mask_token(self) -> str:
        """What stands for a word that ``fill`` is to guess."""
        return "[MASK]"

    @property
    def text_rules(self) -> TokensConfig:
        """How ``prepare`` cuts text for it to be trained further; pieces are cut by its own tokenizer."""
        return TokensConfig()

    @property
    def segmentation(self) -> Segmentation:
        """How words are found that no space parts, as in the corpus that it was trained on."""
        return self._segmentation if self.tokenizer is None else self.tokenizer.segmentation

    @property
    def tokenizer(self) -> AnyTokens | None:
        """What cuts texts into tokens; none for a model that spells words or counts them."""
        found = getattr(self, "pieces", None) or getattr(self, "tokens", None)
        return found if isinstance(found, Pieces | WordTokens) else None

    unknown_limit: float = UNKNOWN_PIECES  # the share of unknown tokens from which on a warning is given

    def unknown_share(self, texts: Sequence[str]) -> float:
        """How much of a sample of these texts is unknown to its tokenizer; 0 for a model that spells every word."""
        return 0.0 if self.tokenizer is None else self.tokenizer.unknown_share(texts)

    def unknown_warning(self, texts: Sequence[str]) -> str | None:
        """A sentence where more than ``unknown_limit`` of these texts is unknown."""
        return unknown_warning(self.unknown_share(texts), self.unknown_limit)

    # -- what there is to know

    @property
    def abilities(self) -> list[str]:
        """What can be asked of it, in the order of ``ABILITIES``."""
        mine = self._abilities() | ({"tokens"} if self.tokenizer is not None else set())
        return [ability for ability in ABILITIES if ability in mine]

    def _abilities(self) -> set[str]:
        """Those of any model; each kind of model adds its own."""
        return {"encode", "layers", "map", "context"}

    def describe(self) -> ModelFacts:
        """Each kind of model adds what it knows besides."""
        abilities = tuple(self.abilities)
        return ModelFacts(
            kind=self.title,
            abilities=abilities,
            dim=self.dim,
            parameters=self.num_parameters,
            mask=self.mask_token if "fill" in abilities else None,
            languages=tuple(self.languages),
        )

    def __repr__(self) -> str:
        parts = [f"{self.num_layers} layers x {self.dim}" if self.num_layers else f"{self.dim} dimensions"]
        parts.append(f"{show_count(self.num_parameters)} parameters")
        parts += [f"vocabulary of {self.vocab_size:,}"] if self.vocab_size is not None else []
        parts += ["-".join(self.languages)] if any(self.languages) else self._scripts()
        parts += [f"from {self.path}"] if self.path is not None else []
        name = f"{self.spec_name}: {self.title}" if self.spec_name else self.title
        return f"<{name}, {', '.join(parts)}>"

    def _scripts(self) -> list[str]:
        """Those of its tokens, as one part of the line above."""
        known = self.tokenizer
        if known is None:
            return []
        numbers = range(0, known.vocab_size, 1 + known.vocab_size // _SAMPLED)
        return [" and ".join(scripts_of(known.decode([number]) for number in numbers))]

    # -- what can be asked

    def encode(
        self, texts: str | Sequence[str], layer: int = -1, pool: str | None = None, prompt: str | None = None
    ) -> NDArray[np.float32]:
        """One vector per text, float32 [N, D]: as the modules of a sentence model say, of any other by the mean of a layer.
        ``pool`` or a ``layer`` overrules the modules. ``prompt`` is written before each text: one of the modules' by its
        name, or these very words."""
        given = [texts] if isinstance(texts, str) else list(texts)
        if self.sentence is not None and self.uses_modules(layer, pool):
            return self.sentence.encode(given, prompt)
        said = "" if prompt is None else prompt if self.sentence is None else self.sentence.config.prompt(prompt)
        return self._encode_texts([said + text for text in given] if said else given, layer, pool or "mean")

    def uses_modules(self, layer: int = -1, pool: str | None = None) -> bool:
        """Whether ``encode`` with these arguments does what the modules of a sentence model say."""
        return self.sentence is not None and pool is None and layer in (-1, self.num_layers)

    def vector_dim(self, layer: int = -1, pool: str | None = None) -> int:
        """The width of what ``encode`` gives."""
        if self.sentence is not None and self.uses_modules(layer, pool):
            return self.sentence.modules.width(self.dim)
        return self.dim

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        """The vectors of one layer, pooled."""
        self._cannot("encode texts", "a model that has learned from text")

    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer for every token; a list is taken as words."""
        self._cannot("show layers", "a model that has learned from text")

    def layers_of(self, texts: Sequence[str | list[str]]) -> list[TextLayers]:
        """The same of many texts."""
        return [self.layers(text) for text in texts]

    def attention(self, text: str, second: str | None = None) -> Attention:
        """What each token looks at, in every layer and head."""
        self._lacks("attention", "show attention")

    def align(self, text: str, target: str | None = None) -> AttentionMaps:
        """What is looked at while a text becomes its target (by default the model's own translation)."""
        self._lacks("alignment", "align two texts")

    def reader(self) -> TextReader:
        """How a task reads texts through this model."""
        self._cannot("be the base of a task", "any other model")

    def predict(self, texts: str | Sequence[str | Sequence[str]]) -> list[Prediction]:
        """What a task says about each text."""
        self._cannot("predict", "a run that firth finetune made")

    def fill(self, text: str, top: int = 5) -> list[list[Guess]]:
        """Guesses for each mask in the text."""
        self._lacks("fill", "fill in masked words")

    def fill_many(self, texts: Sequence[str], top: int = 5) -> list[list[list[Guess]]]:
        """The same of many texts."""
        return [self.fill(text, top) for text in texts]

    def follows(self, first: str, second: str) -> float:
        """The probability that the second text follows the first."""
        self._cannot("judge pairs of texts", "a model trained with pairs=next_sentence")

    def score_texts(self, texts: Sequence[str], method: str | None = None) -> list[ScoredText]:
        """log p of every token of each text, by the first of ``score_methods`` unless one is named."""
        self._cannot("score texts", "a language model (gpt, lstm-lm, elmo) or a masked model (bert, xlnet)")

    def score(self, text: str) -> float:
        """The (pseudo-)log-likelihood of a text; where the model predicts the ends of texts, with its end."""
        (found,) = self.score_texts([text])
        return found.log_likelihood + (found.end or 0.0)

    def generate(self, text: str, trace: "Trace | None" = None, **settings: object) -> "list[Continuation]":
        """The text continued; the settings are those of ``Generation``."""
        return self.generate_many([text], trace, **settings)[0]

    def generate_many(
        self, texts: Sequence[str], trace: "Trace | None" = None, **settings: object
    ) -> "list[list[Continuation]]":
        """Each text continued, in one batch."""
        self._lacks("generate", "continue texts")

    def translate(self, texts: str | Sequence[str], beams: int = 5, **settings: Any) -> list[str]:
        """Each text in the other language."""
        self._lacks("translate", "translate")

    def translations(
        self, texts: str | Sequence[str], beams: int = 5, nbest: int = 1, **settings: Any
    ) -> list[list[Translated]]:
        """The best few translations of each text."""
        self._lacks("translate", "translate")

    def writing_recipe(self, max_source_len: int, max_target_len: int) -> RunConfig:
        """The recipe that teaches it to write targets of at most so many tokens."""
        self._cannot("write", "a run of t5-tiny, t5-mini or unilm-mini")

    def classify_by_prompt(
        self, examples: Sequence[tuple[str, str]], texts: Sequence[str], template: str | None = None
    ) -> list[PromptedLabel]:
        """The label of each text after ``examples`` (text, label), sought among theirs."""
        self._cannot("classify by prompt", "a decoder such as gpt-mini")

    def nearest(self, word: str, top: int = 10) -> list[Found]:
        """The words nearest to a word."""
        self._lacks("nearest", "look up single words")

    def similarity(self, first: str, second: str) -> float:
        """Of two words or texts: the cosine, or what the modules of a sentence model say."""
        rows = self.encode([first, second])
        kind = "cosine" if self.sentence is None else self.sentence.config.similarity
        return float(similarities(rows[:1], rows[1:], kind)[0, 0])

    def analogy(self, first: str, second: str, third: str, top: int = 10, method: Any = "add") -> list[Found]:
        """What is to the third word as the second is to the first."""
        self._lacks("analogy", "solve analogies")

    # -- as the base of sentence vectors

    text_loss: str = "simcse"  # by which they are usually learned from raw text
    sentence_rate: float | None = None  # the usual learning rate; none: by its width

    def sentence_base(self, texts: Callable[[], list[str]], normalize: bool) -> "Model":
        """What learns sentence vectors from these texts: most often the model itself."""
        self._cannot("learn sentence vectors", "an encoder such as BERT, or word vectors")

    def weigh_words(self, texts: Sequence[str], a: float, components: int) -> None:
        """SIF (Arora et al. 2017): weighs words by how rare they are in these texts, and takes out common directions."""
        self._cannot("weigh words by sif", "word vectors, or another loss")

    def token_embedding(self) -> "nn.Embedding":
        """The table that a decoder of texts shares (tsdae)."""
        self._cannot("share a table of tokens with tsdae's decoder", "an encoder such as BERT, or another loss")

    def save_sentences(self, folder: Path, modules: SentenceModules) -> None:
        """Writes it as its ecosystem reads it, and the modules that make vectors of texts."""
        self._cannot("be written as a sentence model", "an encoder such as BERT, or word vectors")

    def _check_choice(self, layer: int, pool: str) -> None:
        """That ``encode`` can give this layer in this way."""
        require_pool(pool, self.pools)
        require_layer(layer, self.num_layers + 1)

    def _lacks(self, ability: str, what: str) -> NoReturn:
        self._cannot(what, recipes_with(ability))

    def _cannot(self, what: str, who: str) -> NoReturn:
        raise FirthError(f"this model ({self.kind}) cannot {what}: use {who}")


@contextmanager
def loading(where: Path) -> Iterator[None]:
    """Around ``load_state_dict``: weights of other shapes or names are said in a sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise FirthError(f"{where}: weights and config do not fit ({reason}); are the files of one model?") from None


def require_room(num_tokens: int, vocab_size: int, where: Path) -> None:
    """For every token of the tokenizer the model has a row."""
    if num_tokens > vocab_size:
        raise FirthError(
            f"{where}: the tokenizer has {num_tokens} tokens but the model only {vocab_size}; the files belong to different models"
        )


def require_layer(layer: int, num_layers: int) -> None:
    if not -num_layers <= layer < num_layers:
        raise FirthError(
            f"layer {layer} does not exist: this model has layers 0 to {num_layers - 1} (0 is the token layer)"
        )


def require_pool(pool: str, pools: Sequence[str]) -> None:
    if pool not in pools:
        raise FirthError(f"unknown pool '{pool}' for this model: choose {', '.join(pools[:-1])} or {pools[-1]}")


def find_model(path: Path) -> ModelSpec:
    """The spec of the model at a path: a run names it, a published directory has its ``model_type``."""
    if not path.exists():
        raise FirthError(f"{path}: no such run or model; check the path")
    run = Run.find(path)
    if run is not None:
        if run.record.export is not None:
            raise FirthError(f"{path}: an exported model, which does not learn; name {run.record.export.source}")
        if run.record.task is not None and not find_spec(run.record.model).reads_images:
            raise FirthError(f"{path}: a task, where a pre-trained model is needed; name another run")
        if not run.record.finished:
            again = "the same command" if run.record.task is not None else f"firth pretrain --resume {path}"
            raise FirthError(f"{path}: this run is not finished; go on with: {again}")
        return find_spec(run.record.model)
    if (path / "config.json").is_file():
        data = read_json(path / "config.json")
        if not isinstance(data, dict):
            raise FirthError(f"{path / 'config.json'}: not the description of a model; copy it again")
        kind = str(data.get("model_type"))
        found = spec_of_model_type(kind)
        if found is None:
            raise FirthError(
                f"{path / 'config.json'}: a model of type '{kind}', which Firth does not read; it reads {', '.join(model_types())}"
            )
        return found
    for spec in specs().values():
        if spec.recognizes(path):
            return spec
    raise FirthError(f"{path}: no model here (no config.json); name a run of Firth or a Hugging Face directory")


def load_model(path: Path) -> Model:
    """The model at a path, with its tokenizer; of a directory of sentence-transformers with its modules."""
    with foreign_errors(path, "a model that can be read"):
        return _load_model(path)


def _load_model(path: Path) -> Model:
    modules = read_sentence_modules(path) if (path / MODULES).is_file() else None
    where = path if modules is None else path / modules.config.network
    spec = find_model(path if is_run(path) else where)
    model = spec.load(where)
    model.spec_name, model.path = spec.name, path
    if modules is not None and model.sentence is None:
        modules.check(model.dim, path)
        model.sentence = SentenceEncoder(modules, pool_by_reader(model.reader()))
    return model
