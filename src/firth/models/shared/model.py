"""What every trained model answers, and how one is found and loaded from a path.

What a model cannot do is said in a sentence.

L layers, H heads, T tokens, S source tokens, D width, N texts.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from firth.core.config import show_count
from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.core.registry import ModelSpec, find_spec, model_types, spec_of_model_type, specs
from firth.core.run import Run
from firth.core.types import Prediction, TextReader
from firth.models.shared.scoring import ScoredText

_SHOWN = 8  # tokens of a text in a repr


@dataclass(frozen=True)
class TextLayers:
    """Every layer for every token of one text."""

    tokens: list[str]
    offsets: NDArray[np.int64]  # [T, 2], characters of the text
    words: NDArray[np.int64]  # [T]
    hidden: NDArray[np.float32]  # [L+1, T, D]

    def __repr__(self) -> str:
        layers, _, dim = self.hidden.shape
        return f"<layers of {_shown(self.tokens)}: {layers} x {len(self.tokens)} x {dim}>"


@dataclass(frozen=True)
class Attention:
    """Where every token of a text, or of two read together, looks: each row of ``weights`` sums to one."""

    tokens: list[str]
    offsets: NDArray[np.int64]  # [T, 2], characters of the text that the token is of
    weights: NDArray[np.float32]  # [L, H, T, T], from (row) to (column)

    def __repr__(self) -> str:
        layers, heads, size, _ = self.weights.shape
        return f"<attention of {_shown(self.tokens)}: {layers} layers, {heads} heads, {size} x {size}>"


@dataclass(frozen=True, repr=False)
class AttentionMaps(Attention):
    """That of the source (a recurrent model has none: no layers), of the target, and between them: row t of
    ``between`` is what was looked at to write target token t."""

    target_tokens: list[str]
    between: NDArray[np.float32]  # [L, H, T, S]
    target: NDArray[np.float32] | None  # [L, H, T, T]; a recurrent model has none

    def __repr__(self) -> str:
        both = f"{_shown(self.tokens)} by {_shown(self.target_tokens)}"
        layers, heads, rows, columns = self.between.shape
        return f"<attention of {both}: {layers} layers, {heads} heads, {rows} x {columns}>"

    @property
    def source_tokens(self) -> list[str]:
        return self.tokens

    @property
    def source(self) -> NDArray[np.float32] | None:
        """[L, H, S, S]; a recurrent model has none."""
        return self.weights if len(self.weights) else None

    @property
    def alignment(self) -> NDArray[np.float32]:
        """[T, S]: the mean of all layers and heads between target and source."""
        found: NDArray[np.float32] = self.between.mean((0, 1))
        return found


def _shown(tokens: Sequence[str]) -> str:
    """Some tokens, for people."""
    return f"{len(tokens)} tokens [{' '.join(tokens[:_SHOWN])}{' ...' if len(tokens) > _SHOWN else ''}]"


@dataclass(frozen=True)
class Guess:
    """A token for a masked place."""

    token: str
    probability: float
    text: str  # the whole text with the guess in its place


@dataclass(frozen=True)
class Translated:
    """A translation; ``score`` is log p, ``normalised`` what candidates are ranked by."""

    text: str
    score: float
    normalised: float


Found = tuple[str, float]

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
)
"""All that can be asked of some model."""


class Model:
    """``encode`` and ``layers`` are for all; the rest is for those that can, as their ``abilities`` say."""

    kind = "model"  # for people
    spec_name: str = ""  # of its ``ModelSpec``
    dim: int = 0
    num_layers: int = 0  # above the token layer
    languages: Sequence[str] = ()  # of source and target, where it translates
    path: Path | None = None  # where it was loaded from
    pools: tuple[str, ...] = ("mean", "max")  # how ``encode`` may make one vector of a text's tokens
    score_methods: tuple[str, ...] = ()  # how ``score_texts`` may score, the usual way first

    @property
    def spec(self) -> ModelSpec:
        return find_spec(self.spec_name)

    @property
    def num_parameters(self) -> int:
        """Numbers that were learned."""
        return 0

    @property
    def vocab_size(self) -> int | None:
        """Tokens or words that it knows; none: it reads characters, or does not say."""
        return None

    @property
    def title(self) -> str:
        """What it is, for people."""
        return self.kind

    @property
    def mask_token(self) -> str:
        """What stands for a word that ``fill`` is to guess."""
        return "[MASK]"

    # -- what there is to know

    @property
    def abilities(self) -> list[str]:
        """What can be asked of it, in the order of ``ABILITIES``."""
        mine = self._abilities()
        return [ability for ability in ABILITIES if ability in mine]

    def _abilities(self) -> set[str]:
        """Those of any model; each kind of model adds its own."""
        return {"encode", "layers", "map", "context"}

    def describe(self) -> dict[str, Any]:
        """Kind, sizes, abilities; of a task its labels and mix of layers, of a masked model its mask."""
        abilities = self.abilities
        return {
            "kind": self.title,
            "abilities": abilities,
            "dim": self.dim,
            "parameters": self.num_parameters,
            "task": None,
            "pair": False,
            "labels": [],
            "layer_weights": None,
            "mixes": [],
            "mask": self.mask_token if "fill" in abilities else None,
            "languages": list(self.languages),
        }

    def __repr__(self) -> str:
        parts = [f"{self.num_layers} layers x {self.dim}" if self.num_layers else f"{self.dim} dimensions"]
        parts.append(f"{show_count(self.num_parameters)} parameters")
        parts += [f"vocabulary of {self.vocab_size:,}"] if self.vocab_size is not None else []
        parts += ["-".join(self.languages)] if any(self.languages) else []
        parts += [f"from {self.path}"] if self.path is not None else []
        name = f"{self.spec_name}: {self.title}" if self.spec_name else self.title
        return f"<{name}, {', '.join(parts)}>"

    # -- what can be asked

    def encode(self, texts: str | Sequence[str], layer: int = -1, pool: str = "mean") -> NDArray[np.float32]:
        """A vector a text, float32 [N, D]."""
        self._cannot("encode texts", "any model")

    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer for every token; a list is taken as words."""
        self._cannot("show layers", "any model")

    def layers_of(self, texts: Sequence[str | list[str]]) -> list[TextLayers]:
        """The same of many texts."""
        return [self.layers(text) for text in texts]

    def attention(self, text: str, second: str | None = None) -> Attention:
        """What each token looks at, in every layer and head."""
        self._cannot("show attention", "a Transformer such as bert-tiny or gpt-tiny")

    def align(self, text: str, target: str | None = None) -> AttentionMaps:
        """What is looked at while a text becomes its target (by default the model's own translation)."""
        self._cannot("align two texts", "a translator")

    def reader(self) -> TextReader:
        """How a task reads texts through this model."""
        self._cannot("be the base of a task", "any other model")

    def predict(self, texts: str | Sequence[str | Sequence[str]]) -> list[Prediction]:
        """What a task says about each text."""
        self._cannot("predict", "a run that firth finetune made")

    def fill(self, text: str, top: int = 5) -> list[list[Guess]]:
        """Guesses for each mask in the text."""
        self._cannot("fill in masked words", "a masked model such as bert-tiny")

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

    def generate(self, text: str, **settings: Any) -> list[Any]:
        """The text continued."""
        found: list[Any] = self.generate_many([text], **settings)[0]
        return found

    def generate_many(self, texts: Sequence[str], **settings: Any) -> list[list[Any]]:
        """Each text continued, in one batch."""
        self._cannot("continue texts", "a language model such as gpt-tiny")

    def translate(self, texts: str | Sequence[str], beams: int = 5, **settings: Any) -> list[str]:
        """Each text in the other language."""
        self._cannot("translate", "a translator such as transformer-tiny")

    def translations(
        self, texts: str | Sequence[str], beams: int = 5, nbest: int = 1, **settings: Any
    ) -> list[list[Translated]]:
        """The best few translations of each text."""
        self._cannot("translate", "a translator such as transformer-tiny")

    def nearest(self, word: str, top: int = 10) -> list[Found]:
        """The words nearest to a word."""
        self._cannot("look up single words", "static vectors such as word2vec")

    def similarity(self, first: str, second: str) -> float:
        """The cosine of two words or texts."""
        units = [row / max(float(np.linalg.norm(row)), 1e-12) for row in self.encode([first, second])]
        return float(units[0] @ units[1])

    def analogy(self, first: str, second: str, third: str, top: int = 10, method: Any = "add") -> list[Found]:
        """What is to the third word as the second is to the first."""
        self._cannot("solve analogies", "static vectors such as word2vec")

    def _check_choice(self, layer: int, pool: str) -> None:
        """That ``encode`` can give this layer in this way."""
        require_pool(pool, self.pools)
        require_layer(layer, self.num_layers + 1)

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
        if run.record.task is not None:
            raise FirthError(f"{path}: a task, where a pre-trained model is needed; name another run")
        if not run.record.finished:
            raise FirthError(f"{path}: this run is not finished; go on with: firth pretrain --resume {path}")
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
    """The model at a path, with its tokenizer."""
    spec = find_model(path)
    model = spec.load(path)
    model.spec_name, model.path = spec.name, path
    return model
