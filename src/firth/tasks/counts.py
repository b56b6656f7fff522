"""A class or a score by counting: a linear model over TF-IDF of words and characters, with nothing learned before; and the same over what a
frozen base says of a text: the head that a task begins with.

N examples, D features, K outputs.
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
from firth.core.run import LayerMix
from firth.core.types import NO_READER, Prediction, softmax
from firth.data.labelled import TextExample
from firth.models.counts.model import VOCABULARY, Counted, CountsModel
from firth.models.shared.model import Model
from firth.nn.arrays import load_arrays
from firth.tasks.checking import AnyExample, all_of
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData
from firth.tasks.linear import (
    Floats,
    Head,
    Ints,
    Linear,
    fit_logistic,
    fit_ridge,
    fit_several,
    refit_logistic,
    refit_ridge,
    refit_several,
)
from firth.tasks.model import TaskModel, TaskSettings, build_model
from firth.tasks.several import ClassifySeveral
from firth.tasks.training import Item, OneExample, item_batches

if TYPE_CHECKING:
    import torch
    from scipy.sparse import csr_matrix
else:
    torch = Later("torch")


_WEIGHTS = "counts.safetensors"
_CHUNK = 1024  # texts that are read at a time
_NO_ITEM = Item((), None, 0)


class LinearTask(TaskModel):
    """A task that is one matrix over counted features: there is no network below it."""

    weights: Floats  # [K, F]
    bias: Floats

    @property
    def num_parameters(self) -> int:
        return int(self.weights.size + self.bias.size)

    @property
    def num_trained(self) -> int:
        return self.num_parameters

    def mixes(self) -> dict[str, LayerMix]:
        return {}

    def predict_examples(self, examples: Sequence[AnyExample]) -> list[Prediction]:
        return [found for _, found in self.stream(examples)]


class CountsTask(LinearTask):
    """What ``firth.load`` gives for a run of ``firth finetune --base counts``."""

    base: CountsModel
    task: Classify

    def __init__(self, config: TaskConfig, base: CountsModel, weights_KF: Floats, bias_K: Floats, pairs: bool) -> None:
        self.config, self.base, self.pairs, self.either = config, base, pairs, False
        kind = ClassifySeveral if config.several else Classify
        self.task = kind(config, NO_READER)  # how predictions are made and scored
        self.weights, self.bias = weights_KF, bias_K
        self.extra_vectors = self.counts = None
        self.dim, self.num_layers, self.spec_name = base.dim, 0, base.spec_name

    def rescale(self, factor: float) -> None:
        self.weights, self.bias = factor * self.weights, factor * self.bias

    def matrix(self, examples: Sequence[TextExample]) -> csr_matrix:
        """The features of texts or pairs."""
        return counts_matrix(self.base, examples, self.pairs)

    def outputs(self, counted: Counted) -> Floats:
        """[N, K]: probabilities, or the score."""
        return outputs_of_scores(self.config, counted.scores(self.weights, self.bias))

    def _counted(self, examples: Sequence[TextExample]) -> Counted:
        texts = [example.text for example in examples]
        if self.pairs:
            return self.base.count_pairs(texts, [example.second or "" for example in examples])
        return self.base.count(texts)

    def stream(self, examples: Iterable[OneExample]) -> Iterator[tuple[OneExample, Prediction]]:
        """Pairs of example and prediction, in constant memory."""
        rest = iter(examples)
        while some := list(islice(rest, _CHUNK)):
            texts = all_of(TextExample, some)
            counted = self._counted(texts)
            for example, text, output, share in zip(some, texts, self.outputs(counted), counted.unknown_N, strict=True):
                found = self.task.prediction(text, _NO_ITEM, output)
                found["unknown"] = self.tally_unknown(text.text, share)
                yield example, found

    # -- on disk

    def save(self, folder: Path, base_path: Path | None) -> None:
        self.base.save(folder)
        tensors = {"weight": self.weights, "bias": self.bias}
        save_tensors(
            folder / _WEIGHTS, {name: torch.from_numpy(array.astype(np.float32)) for name, array in tensors.items()}
        )
        TaskSettings(config=self.config, pairs=self.pairs, form="counts").write(folder)

    @classmethod
    def load(cls, folder: Path) -> CountsTask:
        settings = TaskSettings.read(folder)
        config, base, pairs = settings.config, CountsModel.load(folder), settings.pairs
        tensors = load_arrays(folder / _WEIGHTS)
        num_outputs = 1 if config.task == "score" else len(config.labels)
        shapes = {"weight": (num_outputs, base.pair_dim if pairs else base.dim), "bias": (num_outputs,)}
        if {name: tensor.shape for name, tensor in tensors.items()} != shapes:
            raise FirthError(f"{folder / _WEIGHTS}: does not fit its settings and {VOCABULARY}; fine-tune again")
        weights, bias = (tensors[name].astype(np.float64) for name in ("weight", "bias"))
        return cls(config, base, weights, bias, pairs)


def outputs_of_scores(config: TaskConfig, scores_NK: Floats) -> Floats:
    """Probabilities, or the score as it is."""
    if config.several:
        return np.asarray(1 / (1 + np.exp(-scores_NK)))
    return scores_NK if config.task == "score" else softmax(scores_NK)


def counts_matrix(base: CountsModel, examples: Sequence[TextExample], pairs: bool) -> csr_matrix:
    texts = [example.text for example in examples]
    return base.pair_matrix(texts, [example.second or "" for example in examples]) if pairs else base.matrix(texts)


def unit_counts(texts: Sequence[str]) -> csr_matrix:
    """TF-IDF of texts among each other, rows of length 1."""
    from scipy.sparse import diags

    counted = CountsModel.of_texts(texts).matrix(texts)
    lengths_N = np.sqrt(np.asarray(counted.multiply(counted).sum(1)).reshape(-1))
    return diags(1 / np.maximum(lengths_N, 1e-12)) @ counted


def fit_counts(
    config: TaskConfig, examples: Sequence[TextExample], pairs: bool, folds_N: Ints
) -> tuple[CountsTask, Linear]:
    """The model, and what those that had not seen an example gave for it."""
    base = CountsModel.of_texts([text for one in examples for text in (one.text, one.second) if text is not None])
    matrix = counts_matrix(base, examples, pairs)
    linear = fit_linear(config, matrix, examples, folds_N, shifted=True)
    return CountsTask(config, base, linear.weights, linear.bias, pairs), linear


def refittable(model: CountsTask, linear: Linear, examples: Sequence[TextExample]) -> Frozen:
    """A model over counts as one that can be fitted again on some of the examples, with the same n-grams."""
    return Frozen(model.config, linear, model.matrix(examples), None, targets_of(model.config, examples), 0.0)


def fit_linear(
    config: TaskConfig,
    features: Floats | csr_matrix,
    examples: Sequence[TextExample],
    folds_N: Ints,
    emphasis: Floats | None = None,
    shifted: bool = False,
) -> Linear:
    """Of the labels or scores of the examples."""
    targets = targets_of(config, examples)
    if config.task == "score":
        return fit_ridge(features, targets, folds_N, emphasis=emphasis)
    classes = targets.astype(np.int64)
    if config.several:
        return fit_several(features, classes, folds_N, emphasis=emphasis)
    balanced = bool(config.class_weights)
    return fit_logistic(features, classes, len(config.labels), folds_N, balanced, emphasis=emphasis, shifted=shifted)


def targets_of(config: TaskConfig, examples: Sequence[TextExample]) -> Floats:
    """Scores, the numbers of the labels, or of several labels which are true [N, K]."""
    if config.task == "score":
        return np.asarray([float(example.label or 0.0) for example in examples])
    if config.several:
        return np.asarray([[float(name in (one.labels or ())) for name in config.labels] for one in examples])
    number = {label: float(place) for place, label in enumerate(config.labels)}
    return np.asarray([number[str(example.label)] for example in examples])


@dataclass(frozen=True)
class Frozen:
    """The linear model, the settings of a task that is nothing else, and the features of the training examples."""

    config: TaskConfig
    linear: Linear
    features: Floats | csr_matrix  # [N, D]
    columns: Ints | None  # of the features that have a weight; none: all
    targets: Floats  # [N], of several labels [N, K]
    read_s: float  # for all of them
    num_cosines: int = 0  # the last of the columns

    @property
    def head(self) -> Head:
        return Head(self.linear.weights, self.linear.bias)

    @property
    def outside(self) -> dict[int, Floats]:
        """By the number of an example."""
        return dict(enumerate(self.linear.outside))

    def outputs_of(self, head: Head, numbers: Ints) -> dict[int, Floats]:
        """What a head says of some of the examples."""
        rows_NK = outputs_of_scores(self.config, np.asarray(self.features[numbers] @ head.weights.T) + head.bias)
        return dict(zip(numbers.tolist(), rows_NK, strict=True))

    def head_of(self, inside_N: NDArray[np.bool_]) -> Head:
        """Fitted on some of the examples, as strongly as on all."""
        rows, targets = self.features[inside_N], self.targets[inside_N]
        rows = rows if self.columns is None else rows[:, self.columns]
        emphasis, strength = _emphasis(rows.shape[1], self.num_cosines), self.linear.strength
        if self.config.task == "score":
            weights, bias = refit_ridge(rows, targets, strength, emphasis)
        elif self.config.several:
            weights, bias = refit_several(rows, targets.astype(np.int64), strength, emphasis)
        else:
            classes, balanced = len(self.config.labels), bool(self.config.class_weights)
            weights, bias = refit_logistic(rows, targets.astype(np.int64), classes, strength, balanced, emphasis)
            bias = bias if self.linear.shift is None else bias + self.linear.shift
        return Head(_widened(weights, self.columns, self.features.shape[1]), bias)


def fit_frozen(config: TaskConfig, base: Model, data: TaskData, folds_N: Ints) -> Frozen:
    """The mean of a text's tokens, or the last of a base that reads from left to right, of the last layer, of the token layer or of
    all side by side, whichever is best. Not the first token: what a pooler says of it hardly differs from text to text before it is
    tuned."""
    pools = ["mean", "last"] if base.reader().summary == "last" else ["mean"]
    found = [one for pool in pools for one in _fit(config, pool, base, data, folds_N)]
    return max(found, key=lambda one: one.linear.goodness)


def frozen_config(config: TaskConfig, pool: str, layers: str) -> TaskConfig:
    """Texts of a pair are read apart: a base that was not tuned has not learned to compare them."""
    changes = {"tune": False, "pool": pool, "body": "none", "layers": layers, "place": "input", "pair_reading": "apart"}
    return config.replace(**changes, pair_cosines=True)


def _fit(config: TaskConfig, pool: str, base: Model, data: TaskData, folds_N: Ints) -> list[Frozen]:
    """Texts are read once for all: single layers are a part of all side by side. The token layer, whose tokens know nothing of each
    other, is often the best of a base that has read little."""
    many = base.reader().num_layers > 1
    whole = frozen_config(config, pool, "all" if many else "last")
    started = time.perf_counter()
    examples = all_of(TextExample, data.train)
    features = text_features(build_model(whole, base, data.pairs), examples)
    read_s = time.perf_counter() - started
    num_layers, width = base.reader().num_layers, base.reader().dim
    cosines = num_layers if data.pairs else 0
    found = [_fit_columns(whole, features, None, examples, cosines, folds_N, read_s)]
    if many:
        first, last = (_layer_columns(layer, num_layers, width, cosines) for layer in (0, num_layers - 1))
        alone = min(cosines, 1)
        found.insert(0, _fit_columns(whole, features, first, examples, alone, folds_N, read_s))
        plain = frozen_config(config, pool, "last")
        found.insert(0, _fit_columns(plain, features[:, last], None, examples, alone, folds_N, read_s))
    return found


def _layer_columns(layer: int, num_layers: int, width: int, cosines: int) -> Ints:
    """What one layer adds to the features of all: of a text, or of each way that two are compared, and its cosine."""
    parts = 4 if cosines else 1
    found = [np.arange(width) + (part * num_layers + layer) * width for part in range(parts)]
    return np.concatenate([*found, [parts * num_layers * width + layer]] if cosines else found)


def _fit_columns(
    config: TaskConfig,
    features: Floats,
    columns: Ints | None,
    examples: Sequence[TextExample],
    cosines: int,
    folds_N: Ints,
    read_s: float,
) -> Frozen:
    """The model over some of the features; of a pair u, v, |u - v|, u * v with or without the first half, which does not compare."""
    used = np.arange(features.shape[1]) if columns is None else columns
    ways = (used, used[(len(used) - cosines) // 2 :]) if cosines else (used,)
    fits = [
        (fit_linear(config, features[:, way], examples, folds_N, _emphasis(len(way), cosines)), way) for way in ways
    ]
    linear, used = max(fits, key=lambda fit: fit[0].goodness)
    kept = None if len(used) == features.shape[1] else used
    linear = replace(linear, weights=_widened(linear.weights, kept, features.shape[1]))
    return Frozen(config, linear, features, kept, targets_of(config, examples), read_s, cosines)


def _emphasis(num_features: int, cosines: int) -> Floats | None:
    """The cosines together weigh as much as all other features."""
    if not cosines:
        return None
    found = np.ones(num_features)
    found[-cosines:] = (num_features / cosines) ** 0.5
    return found


def _widened(weights_KD: Floats, columns: Ints | None, width: int) -> Floats:
    """With zeros for the features that were left out."""
    if columns is None:
        return weights_KD
    found = np.zeros((len(weights_KD), width))
    found[:, columns] = weights_KD
    return found


def text_features(model: TaskModel, examples: Sequence[TextExample]) -> Floats:
    """What the head of a classifier reads, [N, D]."""
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    found: Floats = np.zeros((len(items), model.network.out.in_features))
    model.network.eval().to(model.config.device)
    with torch.inference_mode():
        for numbers in item_batches(items, model.config.max_batch_tokens):
            batch = model.task.batch([items[number] for number in numbers]).to(model.config.device)
            texts = model.network.texts(batch.tensors, len(numbers), model.config.window_pool)
            found[numbers] = texts.cpu().numpy()
    return found


def head_model(config: TaskConfig, base: Model, pairs: bool, head: Head) -> TaskModel:
    """The finished task."""
    model = build_model(config, base, pairs)
    model.network.set_head(head)
    model.network.eval()
    return model
