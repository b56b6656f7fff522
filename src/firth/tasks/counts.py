"""A class or a score by counting: a linear model over TF-IDF of words and characters, with nothing learned before."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from firth.core.errors import FirthError
from firth.core.files import load_tensors, save_tensors
from firth.core.records import LayerMix
from firth.core.types import Prediction
from firth.data.labelled import TextExample
from firth.models.counts.model import VOCABULARY, CountsModel
from firth.models.shared.static import ScratchModel
from firth.tasks.batches import Item
from firth.tasks.checking import AnyExample, all_of
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.linear import Floats, Ints, Linear, fit_logistic, fit_ridge, fit_several, softmax
from firth.tasks.model import TaskModel, TaskSettings
from firth.tasks.several import ClassifySeveral
from firth.tasks.training import OneExample

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_WEIGHTS = "counts.safetensors"
_CHUNK = 1024  # texts that are read at a time
_NO_ITEM = Item((), None, 0)


class CountsTask(TaskModel):
    """What ``firth.load`` gives for a run of ``firth finetune --base counts``."""

    base: CountsModel
    task: Classify

    def __init__(self, config: TaskConfig, base: CountsModel, weights_KF: Floats, bias_K: Floats, pairs: bool) -> None:
        self.config, self.base, self.pairs, self.either = config, base, pairs, False
        kind = ClassifySeveral if config.several else Classify
        self.task = kind(config, ScratchModel([], 1).reader())  # how predictions are made and scored
        self.weights, self.bias = weights_KF, bias_K
        self.extra_vectors = self.counts = None
        self.dim, self.num_layers, self.spec_name = base.dim, 0, base.spec_name

    @property
    def num_parameters(self) -> int:
        return int(self.weights.size + self.bias.size)

    @property
    def num_trained(self) -> int:
        return self.num_parameters

    def mixes(self) -> dict[str, LayerMix]:
        return {}

    def rescale(self, factor: float) -> None:
        self.weights, self.bias = factor * self.weights, factor * self.bias

    def matrix(self, examples: Sequence[TextExample]) -> "csr_matrix":
        """The features of texts or pairs."""
        return counts_matrix(self.base, examples, self.pairs)

    def outputs(self, examples: Sequence[TextExample]) -> Floats:
        """[N, K]: probabilities, or the score."""
        scores_NK = np.asarray(self.matrix(examples) @ self.weights.T) + self.bias
        if self.config.several:
            return np.asarray(1 / (1 + np.exp(-scores_NK)))
        return scores_NK if self.config.task == "score" else softmax(scores_NK)

    def predict_examples(self, examples: Sequence[AnyExample]) -> list[Prediction]:
        return [found for _, found in self.stream(examples)]

    def stream(self, examples: Iterable[OneExample]) -> Iterator[tuple[OneExample, Prediction]]:
        """Pairs of example and prediction, in constant memory."""
        rest = iter(examples)
        while some := list(islice(rest, _CHUNK)):
            texts = all_of(TextExample, some)
            for example, text, output in zip(some, texts, self.outputs(texts), strict=True):
                yield example, self.task.prediction(text, _NO_ITEM, output)

    # -- on disk

    def save(self, folder: Path, base_path: Path | None) -> None:
        self.base.save(folder)
        tensors = {"weight": self.weights, "bias": self.bias}
        save_tensors(
            folder / _WEIGHTS, {name: torch.from_numpy(array.astype(np.float32)) for name, array in tensors.items()}
        )
        TaskSettings(config=self.config, pairs=self.pairs, form="counts").write(folder)

    @classmethod
    def load(cls, folder: Path) -> "CountsTask":
        settings = TaskSettings.read(folder)
        config, base, pairs = settings.config, CountsModel.load(folder), settings.pairs
        tensors = load_tensors(folder / _WEIGHTS)
        num_outputs = 1 if config.task == "score" else len(config.labels)
        shapes = {"weight": (num_outputs, base.pair_dim if pairs else base.dim), "bias": (num_outputs,)}
        if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != shapes:
            raise FirthError(f"{folder / _WEIGHTS}: does not fit its settings and {VOCABULARY}; fine-tune again")
        weights, bias = (tensors[name].numpy().astype(np.float64) for name in ("weight", "bias"))
        return cls(config, base, weights, bias, pairs)


def counts_matrix(base: CountsModel, examples: Sequence[TextExample], pairs: bool) -> "csr_matrix":
    texts = [example.text for example in examples]
    return base.pair_matrix(texts, [example.second or "" for example in examples]) if pairs else base.matrix(texts)


def fit_counts(
    config: TaskConfig, examples: Sequence[TextExample], pairs: bool, folds_N: Ints
) -> tuple[CountsTask, Linear]:
    """The model, and what those that had not seen an example gave for it."""
    base = CountsModel.of_texts([text for one in examples for text in (one.text, one.second) if text is not None])
    matrix = counts_matrix(base, examples, pairs)
    linear = fit_linear(config, matrix, examples, folds_N)
    return CountsTask(config, base, linear.weights, linear.bias, pairs), linear


def fit_linear(
    config: TaskConfig,
    features: "Floats | csr_matrix",
    examples: Sequence[TextExample],
    folds_N: Ints,
    emphasis: Floats | None = None,
) -> Linear:
    """Of the labels or scores of the examples."""
    targets = targets_of(config, examples)
    if config.task == "score":
        return fit_ridge(features, targets, folds_N, emphasis=emphasis)
    classes = targets.astype(np.int64)
    if config.several:
        return fit_several(features, classes, folds_N, emphasis=emphasis)
    return fit_logistic(features, classes, len(config.labels), folds_N, bool(config.class_weights), emphasis=emphasis)


def targets_of(config: TaskConfig, examples: Sequence[TextExample]) -> Floats:
    """Scores, the numbers of the labels, or of several labels which are true [N, K]."""
    if config.task == "score":
        return np.asarray([float(example.label or 0.0) for example in examples])
    if config.several:
        return np.asarray([[float(name in (one.labels or ())) for name in config.labels] for one in examples])
    number = {label: float(place) for place, label in enumerate(config.labels)}
    return np.asarray([number[str(example.label)] for example in examples])
