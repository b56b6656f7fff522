"""A task that was learned: base, network and settings; how it predicts, is written and is read again.

A task on a plain BERT with its usual head is a Hugging Face directory; any other is the base (copied
whole into ``base/``) with the task's own weights in addition.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from firth.core.config import Config
from firth.core.errors import FirthError, Later
from firth.core.files import foreign_errors, load_tensors, read_json, save_tensors, write_json
from firth.core.registry import spec_of_model_type, specs
from firth.core.run import RECORD, LayerMix
from firth.core.types import Prediction, TextReader
from firth.data.labelled import AnswerExample, TagExample, TextExample
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.model import Attention, LayerWeights, Model, ModelFacts, TextLayers, load_model
from firth.models.shared.static import ExtraVectors, ScratchModel, StaticModel, read_with_vectors
from firth.tasks.answer import AnswerApart, AnswerQuestions
from firth.tasks.checking import AnyExample
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.scores import added
from firth.tasks.several import ClassifySeveral
from firth.tasks.tag import Tag
from firth.tasks.training import OneExample, Task, predict_items, predict_stream
from firth.tokenizers.pieces import READ, Pieces
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.word_tokens import AnyTokens
from firth.tokenizers.words import has_han, is_border

if TYPE_CHECKING:
    import torch

    from firth.models.shared import encoder_model, published
    from firth.models.shared.encoder_model import EncoderModel
    from firth.models.shared.published import EncoderFormat
    from firth.tasks import network as networks
    from firth.tasks.network import TaskNetwork
else:
    torch, published = Later("torch"), Later("firth.models.shared.published")
    encoder_model, networks = Later("firth.models.shared.encoder_model"), Later("firth.tasks.network")

_TASKS: dict[str, Callable[[TaskConfig, TextReader], Task]] = {
    "classify": Classify,
    "score": Classify,
    "tag": Tag,
    "answer": AnswerQuestions,
}
_TAGGER = "TokenClassification"
_SEVERAL = "multi_label_classification"
_OF_BASE = {"encode", "layers", "map", "context", "attention"}  # what a task passes on to its base
SETTINGS, _WEIGHTS, _BASE, _EXTRA = "task.json", "task.safetensors", "base", "extra_vectors"
ADDED = "counts"
_CHUNK = 256  # examples at a time
_NOT_COPIED = shutil.ignore_patterns(
    ".served*",
    "checkpoints",
    "metrics.jsonl",
    "report.html",
    "seeds",
    "state.safetensors",
    "predictions.json",
    "dev.jsonl",
    "folds.jsonl",
    "suspects.tsv",
)


class TaskSettings(Config):
    """``task.json``: what was learned, and in which form it is kept."""

    config: TaskConfig
    pairs: bool = False
    extra_vectors: bool = False
    form: Literal["network", "counts"] = "network"
    adds_counts: bool = False  # a model of the form "counts" is in a folder of its own; scores are added

    @classmethod
    def read(cls, folder: Path) -> TaskSettings:
        return cls.build(read_json(folder / SETTINGS), folder / SETTINGS)

    def write(self, folder: Path) -> None:
        write_json(folder / SETTINGS, self.model_dump())


def build_task(config: TaskConfig, reader: TextReader) -> Task:
    if config.several:
        return ClassifySeveral(config, reader)
    apart = not reader.joins_pairs or reader.summary == "mean"  # "no answer" is for the token to say that sums up
    kind = AnswerApart if config.task == "answer" and apart else _TASKS[config.task]
    return kind(config, reader)


class TaskModel(Model):
    """What ``firth.load`` gives for a run of ``firth finetune``."""

    kind = "task"

    def __init__(
        self,
        config: TaskConfig,
        base: Model,
        task: Task,
        network: TaskNetwork,
        pairs: bool,
        extra_vectors: ExtraVectors | None = None,
    ) -> None:
        self.config, self.base, self.task, self.network, self.pairs = config, base, task, network, pairs
        self.extra_vectors = extra_vectors
        self.dim, self.num_layers, self.spec_name = base.dim, base.num_layers, base.spec_name
        self.sentence = base.sentence
        self.either = False  # texts or pairs: a published directory does not say which
        self.counts: TaskModel | None = None  # a model over n-grams whose scores are added to those of the network

    @property
    def num_parameters(self) -> int:
        """Of the network, of the n-grams that its base makes vectors of unknown words from, and of counts beside it."""
        own = sum(parameter.numel() for parameter in self.network.parameters()) + self.subword_parameters
        return own + (self.counts.num_parameters if self.counts is not None else 0)

    @property
    def subword_parameters(self) -> int:
        return self.base.subword_parameters

    @property
    def num_trained(self) -> int:
        """Numbers that the task has changed."""
        return sum(parameter.numel() for parameter in self.network.parameters() if parameter.requires_grad)

    def mixes(self) -> dict[str, LayerMix]:
        """By place: the share of each layer, and γ."""
        return self.network.learned_mixes()

    @property
    def vocab_size(self) -> int | None:
        return self.base.vocab_size

    @property
    def segmentation(self) -> Segmentation:
        return self.base.segmentation

    @property
    def tokenizer(self) -> AnyTokens | None:
        return self.base.tokenizer

    @property
    def title(self) -> str:
        return f"{self.config.task} on {self.base.kind}"

    def _abilities(self) -> set[str]:
        return self.base._abilities() & _OF_BASE | {"predict"}

    def describe(self) -> ModelFacts:
        mixes = tuple(
            LayerWeights(place=place, weights=mix.weights, scale=mix.gamma) for place, mix in self.mixes().items()
        )
        return (
            super()
            .describe()
            .replace(
                task=self.config.task,
                pair=self.pairs,
                labels=self.config.labels or (),
                several=self.config.several,
                layer_weights=mixes[0] if mixes else None,
                mixes=mixes,
            )
        )

    def encode(
        self, texts: str | Sequence[str], layer: int = -1, pool: str | None = None, prompt: str | None = None
    ) -> NDArray[np.float32]:
        return self.base.encode(texts, layer, pool, prompt)

    def layers(self, text: str | list[str]) -> TextLayers:
        return self.base.layers(text)

    def layers_of(self, texts: Sequence[str | list[str]]) -> list[TextLayers]:
        return self.base.layers_of(texts)

    def attention(self, text: str, second: str | None = None) -> Attention:
        return self.base.attention(text, second)

    def rescale(self, factor: float) -> None:
        """The scores of all classes times a factor, in the last layer itself: every format keeps it."""
        with torch.no_grad():
            for parameter in self.network.out.parameters():
                parameter.mul_(factor)
        if self.counts is not None:
            self.counts.rescale(factor)

    def set_thresholds(self, thresholds: Sequence[float]) -> None:
        """Of several labels; they are kept with the settings."""
        assert isinstance(self.task, ClassifySeveral)
        self.config = self.task.config = self.config.replace(thresholds=tuple(thresholds))

    # -- predicting

    @property
    def unknown_limit(self) -> float:  # type: ignore[override]
        return self.base.unknown_limit

    def unknown_share(self, texts: Sequence[str]) -> float:
        return self.base.unknown_share(texts)

    def tally_unknown(self, text: str, share: float | None = None) -> float:
        """The share of a text that is unknown, counted for the warning of a command as well."""
        share = self.unknown_share([text]) if share is None else share
        words = max(len(text.split()), 1)
        READ.tokens, READ.unknown = READ.tokens + words, READ.unknown + round(share * words)
        READ.limit = self.unknown_limit
        return round(share, 4)

    def predict(self, texts: str | Sequence[str | Sequence[str]]) -> list[Prediction]:
        """A dictionary for each text: label and probabilities; words, tags and entities; or answer, place and best.

        Texts are strings, pairs of strings (text and second; question and passage) or, for tags, lists of words.
        """
        examples = [self.example(text) for text in ([texts] if isinstance(texts, str) else texts)]
        return self.predict_examples(examples)

    def predict_examples(self, examples: Sequence[AnyExample]) -> list[Prediction]:
        items = [self.task.item(example, number) for number, example in enumerate(examples)]
        found = predict_items(self.task, self.network, examples, items, self.config.device)
        return found if self.counts is None else added((found, self.counts.predict_examples(examples)), (1.0, 1.0))

    def stream(self, examples: Iterable[OneExample]) -> Iterator[tuple[OneExample, Prediction]]:
        """Pairs of example and prediction, in constant memory."""
        if self.counts is None:
            yield from predict_stream(self.task, self.network, examples, self.config.device)
            return
        rest = iter(examples)
        while some := list(islice(rest, _CHUNK)):
            yield from zip(some, self.predict_examples(some), strict=True)

    def example(self, text: str | Sequence[str]) -> AnyExample:
        """What a user gives as an example of this task."""
        if self.config.task == "tag":
            return tag_example(text, self.config.characters, self.segmentation, self.config.letters)
        pair = list(text) if not isinstance(text, str) else [text]
        wrong = len(pair) not in (1, 2) if self.either else len(pair) != (1 if self._single else 2)
        if wrong or not all(isinstance(part, str) for part in pair):
            wanted = (
                "a string"
                if self._single
                else "two strings, "
                + ("question and passage" if self.config.task == "answer" else "text and second text")
            )
            raise FirthError(f"this task reads {wanted} for each example, not {str(text)[:40]!r}")
        if self.config.task == "answer":
            return AnswerExample("", pair[0], pair[1])
        return TextExample(pair[0], pair[1] if len(pair) == 2 else None)

    @property
    def _single(self) -> bool:
        return self.config.task != "answer" and not self.pairs

    # -- on disk

    def save(self, folder: Path, base_path: Path | None) -> None:
        """The model as its ecosystem reads it where that knows such a model, else Firth's own."""
        heads = self._heads()
        kind = self._published_format(set(heads))
        if kind is not None:
            assert isinstance(self.base, encoder_model.EncoderModel)
            self._save_published(folder, self.base, kind, heads)
        else:
            if isinstance(self.base, ScratchModel):
                self.base.save(folder)
            else:
                assert base_path is not None
                _copy(base_path, folder / _BASE)
            if self.extra_vectors is not None:
                _copy(self.extra_vectors.path, folder / _EXTRA)
            state = self.network.state_dict()
            save_tensors(
                folder / _WEIGHTS, {name: tensor for name, tensor in state.items() if self.network.keeps(name)}
            )
        settings = TaskSettings(config=self.config, pairs=self.pairs, extra_vectors=self.extra_vectors is not None)
        settings.replace(adds_counts=self.counts is not None).write(folder)
        if self.counts is not None:
            (folder / ADDED).mkdir(exist_ok=True)
            self.counts.save(folder / ADDED, None)

    def _heads(self) -> dict[str, dict[str, torch.Tensor]]:
        """The task's own weights, by the names of published parts."""
        heads = {"spans" if self.config.task == "answer" else "classifier": dict(self.network.out.state_dict())}
        if self.network.pooler is not None:
            heads["pooler"] = dict(self.network.pooler.state_dict())
        return heads

    def _published_format(self, heads: set[str]) -> EncoderFormat | None:
        """The published directory whose class is exactly this network; None where there is none."""
        usual = self.config.tune and self.config.layers == "last" and self.config.body == "none" and not self.config.crf
        usual = usual and self.extra_vectors is None and not isinstance(self.network, networks.ComparingNetwork)
        if self.config.task in ("classify", "score"):
            usual = usual and self.network.pool == "cls" and self.network.pooler is not None
        if (
            not usual
            or not isinstance(self.base, encoder_model.EncoderModel)
            or not isinstance(self.base.config, EncoderConfig)
        ):
            return None
        return published.task_format(self.base.config, heads)

    def _save_published(
        self, folder: Path, base: EncoderModel, kind: EncoderFormat, heads: dict[str, dict[str, torch.Tensor]]
    ) -> None:
        more: dict[str, object] = {}
        if self.config.labels:
            more["id2label"] = {str(place): label for place, label in enumerate(self.config.labels)}
            more["label2id"] = {label: place for place, label in enumerate(self.config.labels)}
        if self.config.task == "score":
            more |= {"problem_type": "regression", "id2label": {"0": "score"}, "label2id": {"score": 0}}
        if self.config.several:
            more["problem_type"] = _SEVERAL
        more["classifier_dropout"] = self.config.dropout_prob
        assert isinstance(base.config, EncoderConfig)
        weights = dict(self.network.reader_module.state_dict())
        config = base.config
        published.save_published(folder, config, weights, heads, base.pieces.pad_id or 0, kind, more)
        base.pieces.save(folder, segments=config.num_segments > 1, max_len=config.max_positions)

    @classmethod
    def load(cls, folder: Path) -> TaskModel:
        """A run of ``firth finetune``."""
        settings = TaskSettings.read(folder)
        config, pairs = settings.config, settings.pairs
        if not (folder / _WEIGHTS).is_file():
            return load_published(folder, config, pairs)
        base = load_base_model(_only(folder / _BASE)) if (folder / _BASE).is_dir() else ScratchModel.load(folder)
        extra_vectors = load_extra_vectors(_only(folder / _EXTRA)) if settings.extra_vectors else None
        model = build_model(config, base, pairs, extra_vectors)
        tensors = load_tensors(folder / _WEIGHTS)
        try:
            missing, left = model.network.load_state_dict(tensors, strict=False)
        except RuntimeError as error:
            raise _misfit(folder, str(error).splitlines()[-1].strip()) from None
        lacking = [name for name in missing if model.network.keeps(name)]
        if left or lacking:
            raise _misfit(folder, f"{(lacking or left)[0]} is missing or left over")
        model.network.eval()
        return model


def _misfit(folder: Path, reason: str) -> FirthError:
    return FirthError(f"{folder / _WEIGHTS}: does not fit its settings ({reason}); fine-tune again")


def load_extra_vectors(path: Path) -> ExtraVectors:
    """Word vectors that a task reads in addition to its base."""
    found = load_model(path)
    if not isinstance(found, StaticModel):
        raise FirthError(f"{path}: no word vectors ({found.kind}); --extra-vectors takes a table of word vectors")
    return ExtraVectors(found, path)


def load_base_model(path: Path) -> Model:
    """The model at a path as the base of a task; of a task, what it was learned on."""
    if not (path / SETTINGS).is_file():
        return load_model(path)
    if TaskSettings.read(path).form == "counts":
        raise FirthError(
            f"{path}: counts of n-grams, made of the texts of one task; name --base counts to make them anew"
        )
    with foreign_errors(path, "a task that can be read"):
        return TaskModel.load(path).base


def build_model(config: TaskConfig, base: Model, pairs: bool, extra_vectors: ExtraVectors | None = None) -> TaskModel:
    """Everything in place, the new parts not trained yet."""
    reader = base.reader()
    if config.pair_reading == "apart":
        reader = replace(reader, joins_pairs=False)
    if extra_vectors is not None:
        reader = read_with_vectors(reader, extra_vectors.vectors)
    task = build_task(config, reader)
    return TaskModel(config, base, task, task.build(pairs), pairs, extra_vectors)


def load_published(folder: Path, config: TaskConfig | None = None, pairs: bool = False) -> TaskModel:
    """A directory of a BERT-shaped model of transformers for sequence or token classification or question answering."""
    encoder_config, weights, heads = published.load_encoder(folder)
    pieces = Pieces.load(folder)
    found = config is None
    if config is None:
        config = _published_config(folder, heads)
    if config.task in ("tag", "answer"):
        heads.pop("pooler", None)  # older taggers were saved with one that they do not use
    base = encoder_model.EncoderModel.from_weights(encoder_config, weights, heads, pieces, folder)
    spec = spec_of_model_type(str(read_json(folder / "config.json").get("model_type")))
    base.spec_name = base.spec_name if spec is None else spec.name
    model = build_model(config.replace(pool="cls") if "pooler" in heads else config, base, pairs)
    head = heads["spans" if config.task == "answer" else "classifier"]
    if tuple(head["weight"].shape) != tuple(model.network.out.weight.shape):
        raise FirthError(
            f"{folder}: the head has {len(head['weight'])} outputs, the settings {model.network.out.out_features}"
        )
    model.network.out.load_state_dict(head)
    model.network.eval()
    model.either = found and config.task in ("classify", "score")
    return model


def _published_config(folder: Path, heads: Mapping[str, Mapping[str, torch.Tensor]]) -> TaskConfig:
    """The task of a directory: by the class that wrote it, or where it does not say, by its heads."""
    data = read_json(folder / "config.json")
    written_by = next(iter(data.get("architectures") or ()), "")
    usual = "QuestionAnswering" if "spans" in heads else "SequenceClassification" if "pooler" in heads else _TAGGER
    kind = str(written_by).rpartition("For")[2] or usual
    if kind == "QuestionAnswering" and "spans" in heads:
        return TaskConfig(task="answer")
    needed = {"QuestionAnswering": "spans", "SequenceClassification": "classifier", _TAGGER: "classifier"}.get(kind)
    if needed is not None and needed not in heads:
        raise FirthError(
            f"{folder}: a {written_by} whose head is missing from its weights; copy them again, or learn one with firth finetune --base {folder}"
        )
    if needed is None:
        raise FirthError(
            f"{folder / 'config.json'}: a {written_by}, a task that Firth does not know; it reads sequence and token classification and question answering"
        )
    names = {int(place): str(label) for place, label in (data.get("id2label") or {}).items()}
    count = len(heads["classifier"]["weight"])
    labels = tuple(names.get(place, f"LABEL_{place}") for place in range(count))
    if kind == _TAGGER:
        from firth.tasks.tag_schemes import detect_scheme

        return TaskConfig(task="tag", labels=labels, scheme=detect_scheme([labels]) and "bio")
    if data.get("problem_type") == _SEVERAL:
        return TaskConfig(task="classify", labels=labels, several=True)
    if data.get("problem_type") == "regression" and count > 1:
        raise FirthError(
            f"{folder / 'config.json'}: {count} scores per text (problem_type), which Firth does not know; it gives a text one score"
        )
    if count == 1:
        return TaskConfig(task="score")
    return TaskConfig(task="classify", labels=labels)


def _copy(base: Path, goal: Path) -> None:
    named = []
    if not any((base / name).is_file() for name in ("config.json", RECORD)):
        named = [spec.files for spec in specs().values() if spec.files is not None and spec.recognizes(base)]
    if named:
        goal.mkdir(parents=True, exist_ok=True)
        for name, path in named[0](base).items():
            shutil.copy2(path, goal / name)
    elif base.is_dir():
        shutil.copytree(base, goal, ignore=_NOT_COPIED, dirs_exist_ok=True)
    else:
        goal.mkdir(parents=True, exist_ok=True)
        shutil.copy2(base, goal / base.name)


def _only(folder: Path) -> Path:
    """The folder itself, or the one file of vectors in it."""
    if (folder / "config.json").is_file() or (folder / "firth.json").is_file() or (folder / "options.json").is_file():
        return folder
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return files[0] if files else folder


def tag_example(
    text: str | Sequence[str], characters: bool = False, segmentation: Segmentation = PLAIN, letters: bool = False
) -> TagExample:
    """Words as given, or those found in a text, with their characters in it; Chinese ones singly if so learned, and with
    ``letters`` digits and letters, too."""
    if not isinstance(text, str):
        return TagExample(list(text))
    spans: list[tuple[int, int]] = []
    for start, end in segmentation.split(text):
        singly = characters and (letters or has_han(text[start:end]))
        for first, last in [(place, place + 1) for place in range(start, end)] if singly else [(start, end)]:
            if spans and spans[-1][1] == first and not is_border(text, first):
                spans[-1] = spans[-1][0], last  # a mark or a joined emoji is no word of its own
            else:
                spans.append((first, last))
    return TagExample([text[start:end] for start, end in spans], None, "", text, spans)
