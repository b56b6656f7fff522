"""Tags by logistic regression, word by word: over what is seen of a word and its neighbours (``counts``), and over the vectors that
a frozen base gives the first piece of a word (``linear``): the head that a tagger begins with.

The strength is chosen by cross-validation over sentences; of many words by a sample of them, and then one fold judges in the
place of all.

N sentences, W words, D features, K tags.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, Later
from firth.core.files import save_tensors
from firth.core.types import NO_READER, Prediction, generator, hashed, softmax
from firth.data.labelled import TagExample
from firth.models.counts.model import WordCounts
from firth.models.shared.model import Model
from firth.nn.arrays import ArrayCRF, load_arrays
from firth.tasks.checking import all_of
from firth.tasks.config import TaskConfig
from firth.tasks.counts import LinearTask
from firth.tasks.data import TaskData
from firth.tasks.linear import Floats, Head, Ints, fit_logistic, refit_logistic
from firth.tasks.model import TaskModel, TaskSettings, build_model
from firth.tasks.tag import Tag
from firth.tasks.tag_schemes import transitions
from firth.tasks.training import Item, OneExample, item_batches
from firth.tokenizers.pieces import READ

if TYPE_CHECKING:
    import torch
    from scipy.sparse import csr_matrix

    from firth.tasks import network as networks
else:
    torch, networks = Later("torch"), Later("firth.tasks.network")

_WEIGHTS = "counts.safetensors"
_CHUNK = 256  # sentences that are read at a time
_NO_ITEM = Item((), None, 0)
_STRENGTHS = (1.0, 10.0, 30.0, 100.0, 300.0)
_SAMPLE = 5000  # words by which the strength is chosen
_ALL_FOLDS = 20_000  # words: of more, one fold is judged
_MOST_NUMBERS = 40_000_000  # in the features of a frozen base; of more words a part is learned from
_STREAM = 0x7A65

Outside = dict[int, NDArray[np.float32]]
"""By the number of a sentence, as ``Tag.outputs`` has it, by a model that has not learned from it."""


@dataclass(frozen=True)
class _Words:
    """The words of sentences, the number of each in its sentence, and the number of its tag."""

    owner_W: Ints
    place_W: Ints
    target_W: Ints

    def taken(self, chosen_W: NDArray[np.bool_]) -> _Words:
        return _Words(self.owner_W[chosen_W], self.place_W[chosen_W], self.target_W[chosen_W])


@dataclass(frozen=True)
class _Fit:
    head: Head
    strength: float
    goodness: float
    outside_WK: Floats
    judged_W: NDArray[np.bool_]  # of which words ``outside_WK`` says something


def _fit(
    config: TaskConfig, features: Floats | csr_matrix, words: _Words, folds_N: Ints, judge: bool, seed: int
) -> _Fit:
    """The strength, the model of all words, and if ``judge`` what it says outside of folds."""
    if isinstance(features, np.ndarray):
        return _fit_columns(config, features, words, folds_N, judge, seed)
    joined, back = join_equal(features)
    found = _fit_columns(config, joined, words, folds_N, judge, seed)
    return replace(found, head=Head(np.ascontiguousarray((back @ found.head.weights.T).T), found.head.bias))


def join_equal(features: csr_matrix) -> tuple[csr_matrix, csr_matrix]:
    """Columns [W, G] in the place of equal ones [W, D], and the way back for weights [D, G]. Of rare words all n-grams and
    neighbours stand at the same places; k equal columns get equal weights, so one that is √k times as large with √k times
    their weight is the same model under the same penalty, and takes a fraction of the time."""
    from scipy.sparse import csr_matrix

    num = features.shape[1]
    mixed_D2 = np.asarray(features.T @ generator(0, _STREAM).random((features.shape[0], 2)))
    _, group_D = np.unique(mixed_D2, axis=0, return_inverse=True)
    group_D = group_D.reshape(-1)
    sizes_G = np.bincount(group_D)
    back = csr_matrix((sizes_G[group_D] ** -0.5, (np.arange(num), group_D)), shape=(num, len(sizes_G)))
    return (features @ back).tocsr(), back


def _fit_columns(
    config: TaskConfig, features: Floats | csr_matrix, words: _Words, folds_N: Ints, judge: bool, seed: int
) -> _Fit:
    num_tags, balanced, folds_W = len(config.labels), bool(config.class_weights), folds_N[words.owner_W]
    sample_W = _sample(words.owner_W, _SAMPLE, seed)
    found = fit_logistic(
        features[sample_W], words.target_W[sample_W], num_tags, folds_W[sample_W], balanced, _STRENGTHS, turned=False
    )
    if sample_W.all():
        return _Fit(Head(found.weights, found.bias), found.strength, found.goodness, found.outside, sample_W)
    outside_WK, judged_W = np.zeros((len(folds_W), num_tags)), np.zeros(len(folds_W), bool)
    folds = np.unique(folds_W) if len(folds_W) <= _ALL_FOLDS else np.unique(folds_W)[:1]
    for fold in folds.tolist() if judge else []:
        inside_W, own_W = folds_W != fold, folds_W == fold
        weights, bias = refit_logistic(features[inside_W], words.target_W[inside_W], num_tags, found.strength, balanced)
        outside_WK[own_W], judged_W = softmax(features[own_W] @ weights.T + bias), judged_W | own_W
    head = Head(*refit_logistic(features, words.target_W, num_tags, found.strength, balanced))
    return _Fit(head, found.strength, found.goodness, outside_WK, judged_W)


def _sample(owner_W: Ints, most: int, seed: int) -> NDArray[np.bool_]:
    """The words of so many random sentences that there are at most ``most``, at least of one."""
    if len(owner_W) <= most:
        return np.ones(len(owner_W), bool)
    lens_N = np.bincount(owner_W)
    order_N = np.argsort(hashed(seed, _STREAM, np.arange(len(lens_N))), kind="stable")
    kept_N = np.zeros(len(lens_N), bool)
    kept_N[order_N[: max(1, int(np.searchsorted(np.cumsum(lens_N[order_N]), most, "right")))]] = True
    return np.asarray(kept_N[owner_W])


def _outside(config: TaskConfig, fit: _Fit, words: _Words) -> Outside:
    """Sentence by sentence, the best tags that the scheme allows where the model keeps to it."""
    chances_WK, words = fit.outside_WK[fit.judged_W], words.taken(fit.judged_W)
    crf = tag_rules(config)
    found: Outside = {}
    for number in np.unique(words.owner_W).tolist():
        own_W = words.owner_W == number
        found[number] = _as_outputs(chances_WK[own_W], words.place_W[own_W], crf)
    return found


def tag_rules(config: TaskConfig) -> ArrayCRF | None:
    """What the scheme allows, nothing learned."""
    if not config.scheme:
        return None
    return ArrayCRF(None, transitions(config.labels, config.scheme))


def _as_outputs(chances_WK: Floats, place_W: Ints, crf: ArrayCRF | None) -> NDArray[np.float32]:
    """[word, tag, probability] of each word of a sentence, as ``Tag.outputs`` gives them."""
    if not len(place_W):
        return np.zeros((0, 3), np.float32)
    tags_W = chances_WK.argmax(1)
    if crf is not None:
        scores = np.log(np.maximum(chances_WK, 1e-12))[None].astype(np.float32)
        tags_W = crf.decode(scores, np.ones((1, len(place_W)), np.bool_))[0]
    return np.stack((place_W, tags_W, chances_WK[np.arange(len(tags_W)), tags_W]), 1).astype(np.float32)


# -- counts


class _WordsTag(Tag):
    """Nothing is cut into pieces."""

    def item(self, example: TagExample, number: int) -> Item:
        return Item((), None, number)


class CountsTagger(LinearTask):
    """What ``firth.load`` gives for a run of ``firth finetune tag --base counts``."""

    base: WordCounts
    task: Tag

    def __init__(self, config: TaskConfig, base: WordCounts, weights_KF: Floats, bias_K: Floats) -> None:
        self.config, self.base, self.pairs, self.either = config, base, False, False
        self.task = _WordsTag(config, NO_READER)  # how predictions are made and scored
        self.weights, self.bias, self.rules = weights_KF, bias_K, tag_rules(config)
        self.extra_vectors = self.counts = None
        self.dim, self.num_layers, self.spec_name = base.dim, 0, base.spec_name

    def unknown_share(self, texts: Sequence[str]) -> float:
        """Of words."""
        words = [text[start:end] for text in texts for start, end in self.segmentation.split(text)]
        return sum(not self.base.knows(word) for word in words) / max(len(words), 1)

    def _tally_words(self, words: Sequence[str]) -> float:
        """The share of words that are unknown, counted for the warning of a command as well."""
        unknown = sum(not self.base.knows(word) for word in words)
        READ.tokens, READ.unknown, READ.limit = READ.tokens + len(words), READ.unknown + unknown, self.unknown_limit
        return round(unknown / max(len(words), 1), 4)

    def stream(self, examples: Iterable[OneExample]) -> Iterator[tuple[OneExample, Prediction]]:
        """Pairs of example and prediction, in constant memory."""
        rest = iter(examples)
        while some := list(islice(rest, _CHUNK)):
            tagged = all_of(TagExample, some)
            scores_WK = self.base.count([one.words for one in tagged]).scores(self.weights, self.bias)
            borders = np.cumsum([0, *(len(one.words) for one in tagged)])
            for number, (given, example) in enumerate(zip(some, tagged, strict=True)):
                chances_WK = softmax(scores_WK[borders[number] : borders[number + 1]])
                output = _as_outputs(chances_WK, np.arange(len(example.words)), self.rules)
                found = self.task.prediction(example, _NO_ITEM, output)
                found["unknown"] = self._tally_words(example.words)
                yield given, found

    # -- on disk

    def save(self, folder: Path, base_path: Path | None) -> None:
        tensors = {"weight": self.weights.astype(np.float32), "bias": self.bias.astype(np.float32)}
        tensors_all = {**tensors, "keys": self.base.keys}
        save_tensors(folder / _WEIGHTS, {name: torch.from_numpy(array) for name, array in tensors_all.items()})
        TaskSettings(config=self.config, form="counts").write(folder)

    @classmethod
    def load(cls, folder: Path) -> CountsTagger:
        config = TaskSettings.read(folder).config
        tensors = load_arrays(folder / _WEIGHTS)
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        num_tags, size = len(config.labels), shapes.get("keys", (0,))[:1]
        if shapes != {"weight": (num_tags, *size), "bias": (num_tags,), "keys": size}:
            raise FirthError(f"{folder / _WEIGHTS}: does not fit its settings; fine-tune again")
        weights, bias = (tensors[name].astype(np.float64) for name in ("weight", "bias"))
        return cls(config, WordCounts(tensors["keys"].astype(np.int64)), weights, bias)


def fit_tag_counts(config: TaskConfig, data: TaskData, folds_N: Ints, judge: bool) -> tuple[CountsTagger, FrozenTags]:
    """The tagger, and its features; if ``judge`` with what it says of sentences outside of their folds."""
    examples = all_of(TagExample, data.train)
    base = WordCounts.of_sentences([example.words for example in examples])
    number = {label: place for place, label in enumerate(config.labels)}
    lens = [len(example.words) for example in examples]
    words = _Words(
        np.repeat(np.arange(len(examples)), lens),
        np.concatenate([np.arange(size) for size in lens]),
        np.asarray([number[tag] for example in examples for tag in example.tags or ()], np.int64),
    )
    matrix = base.matrix([example.words for example in examples])
    fit = _fit(config, matrix, words, folds_N, judge, config.seed)
    outside = _outside(config, fit, words) if judge else {}
    tagger = CountsTagger(config, base, fit.head.weights, fit.head.bias)
    return tagger, FrozenTags(config, fit.head, fit.strength, fit.goodness, matrix, words, outside, 0.0)


# -- a frozen base


@dataclass(frozen=True)
class FrozenTags:
    """The linear model over a frozen base, the settings of a tagger that is nothing else, and the features of the training
    words."""

    config: TaskConfig
    head: Head
    strength: float
    goodness: float
    features: Floats | csr_matrix  # [W, D]
    words: _Words
    outside: Outside
    read_s: float  # for all sentences

    def outputs_of(self, head: Head, numbers: Ints) -> Outside:
        """What a head says of some of the sentences."""
        chosen_W = np.isin(self.words.owner_W, numbers)
        chances_WK = np.zeros((len(chosen_W), len(head.bias)))
        chances_WK[chosen_W] = softmax(np.asarray(self.features[chosen_W] @ head.weights.T) + head.bias)
        return _outside(self.config, _Fit(head, self.strength, self.goodness, chances_WK, chosen_W), self.words)

    def head_of(self, inside_N: NDArray[np.bool_]) -> Head:
        """Fitted on some of the sentences, as strongly as on all."""
        inside_W = inside_N[self.words.owner_W]
        rows, targets, num_tags = self.features[inside_W], self.words.target_W[inside_W], len(self.config.labels)
        return Head(*refit_logistic(rows, targets, num_tags, self.strength, bool(self.config.class_weights)))


def fit_frozen_tags(config: TaskConfig, base: Model, data: TaskData, folds_N: Ints, judge: bool) -> FrozenTags:
    """Of the last layer, or of all side by side, whichever is better; all only where few words are read."""
    reader, examples = base.reader(), all_of(TagExample, data.train)
    lens_N = np.asarray([len(example.words) for example in examples])
    many = reader.num_layers > 1 and lens_N.sum() * reader.dim * reader.num_layers <= _MOST_NUMBERS
    whole = _frozen_config(config, "all" if many else "last")
    owner_W = np.repeat(np.arange(len(examples)), lens_N)
    read = np.unique(owner_W[_sample(owner_W, _MOST_NUMBERS // reader.dim, config.seed)])
    started = time.perf_counter()
    features, words = word_vectors(build_model(whole, base, False), examples, read)
    read_s = (time.perf_counter() - started) * len(examples) / max(len(read), 1)
    choices = [(whole, features)]
    if many:
        choices.insert(0, (_frozen_config(config, "last"), features[:, -reader.dim :]))
    found = []
    for chosen, columns in choices:
        fit = _fit(chosen, columns, words, folds_N, judge, config.seed)
        outside = _outside(chosen.replace(scheme=None), fit, words) if judge else {}
        found.append(FrozenTags(chosen, fit.head, fit.strength, fit.goodness, columns, words, outside, read_s))
    return max(found, key=lambda one: one.goodness)


def _frozen_config(config: TaskConfig, layers: str) -> TaskConfig:
    return config.replace(tune=False, body="none", layers=layers, place="input", crf=False)


def word_vectors(model: TaskModel, examples: Sequence[TagExample], numbers: Ints) -> tuple[Floats, _Words]:
    """What the head of a tagger reads of the words of these sentences, [W, D]; words of which no piece is left are not there."""
    items = [model.task.item(examples[number], number) for number in numbers.tolist()]
    model.network.eval().to(model.config.device)
    parts: list[tuple[Floats, Ints, Ints, Ints]] = []
    with torch.inference_mode():
        for chosen in item_batches(items, model.config.max_batch_tokens):
            batch = model.task.batch([items[place] for place in chosen]).to(model.config.device)
            hidden = networks.by_parts(model.network.tokens, batch.tensors, model.config.max_batch_tokens).cpu().numpy()
            rows, columns = np.nonzero(batch.arrays["words"] >= 0)
            owner = numbers[chosen][batch.arrays["owner"][rows]]
            at = (rows, columns)
            parts.append((hidden[at].astype(np.float64), owner, batch.arrays["words"][at], batch.arrays["labels"][at]))
    features, owner_W, place_W, target_W = (np.concatenate(some) for some in zip(*parts, strict=True))
    order = np.lexsort((place_W, owner_W))
    return features[order], _Words(owner_W[order], place_W[order], target_W[order])
