"""A linear model over what a frozen base says of a text: the head that a task begins with.

N examples, D features, K outputs.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.batching import batches_by_length
from firth.data.labelled import TextExample
from firth.models.shared.model import Model
from firth.tasks.checking import all_of
from firth.tasks.config import TaskConfig
from firth.tasks.counts import fit_linear, targets_of
from firth.tasks.data import TaskData
from firth.tasks.linear import Floats, Ints, Linear, refit_logistic, refit_ridge, refit_several
from firth.tasks.model import TaskModel, build_model
from firth.tasks.network import Head
from firth.tasks.training import MAX_ROWS, MAX_TOKENS, item_cost


@dataclass(frozen=True)
class Frozen:
    """The linear model, the settings of a task that is nothing else, and the features of the training examples."""

    config: TaskConfig
    linear: Linear
    features: Floats  # [N, D]
    first: int  # the features before this one have no weight
    targets: Floats  # [N], of several labels [N, K]
    read_s: float  # for all of them
    num_cosines: int = 0  # the last of the features

    @property
    def head(self) -> Head:
        return Head(self.linear.weights, self.linear.bias)

    def head_of(self, inside_N: NDArray[np.bool_]) -> Head:
        """Fitted on some of the examples, as strongly as on all."""
        rows, targets = self.features[inside_N][:, self.first :], self.targets[inside_N]
        emphasis, strength = _emphasis(rows.shape[1], self.num_cosines), self.linear.strength
        if self.config.task == "score":
            weights, bias = refit_ridge(rows, targets, strength, emphasis)
        elif self.config.several:
            weights, bias = refit_several(rows, targets.astype(np.int64), strength, emphasis)
        else:
            classes, balanced = len(self.config.labels), bool(self.config.class_weights)
            weights, bias = refit_logistic(rows, targets.astype(np.int64), classes, strength, balanced, emphasis)
        return Head(_widened(weights, self.first), bias)


def fit_frozen(config: TaskConfig, base: Model, data: TaskData, folds_N: Ints) -> Frozen:
    """The mean of a text's tokens, or the last of a base that reads from left to right, of the last layer or of all side by
    side, whichever is best. Not the first token: what a pooler says of it hardly differs from text to text before it is
    tuned."""
    pools = ["mean", "last"] if base.reader().summary == "last" else ["mean"]
    found = [one for pool in pools for one in _fit(config, pool, base, data, folds_N)]
    return max(found, key=lambda one: one.linear.goodness)


def frozen_config(config: TaskConfig, pool: str, layers: str) -> TaskConfig:
    """Texts of a pair are read apart: a base that was not tuned has not learned to compare them."""
    changes = {"tune": False, "pool": pool, "body": "none", "layers": layers, "place": "input", "pair_reading": "apart"}
    return config.replace(**changes, pair_cosines=True)


def _fit(config: TaskConfig, pool: str, base: Model, data: TaskData, folds_N: Ints) -> list[Frozen]:
    """Texts are read once for both: the last layer is a part of all."""
    many = base.reader().num_layers > 1
    whole = frozen_config(config, pool, "all" if many else "last")
    started = time.perf_counter()
    examples = all_of(TextExample, data.train)
    features = text_features(build_model(whole, base, data.pairs), examples)
    read_s = time.perf_counter() - started
    cosines = base.reader().num_layers if data.pairs else 0
    found = [_fit_features(whole, features, examples, cosines, folds_N, read_s)]
    if many:
        plain, last = frozen_config(config, pool, "last"), _last_layer(features, base.reader().dim, cosines)
        found.insert(0, _fit_features(plain, last, examples, min(cosines, 1), folds_N, read_s))
    return found


def _last_layer(features: Floats, width: int, cosines: int) -> Floats:
    """What the last layer adds to the features of all: of a text, or of each way that two are compared, and its cosine."""
    if not cosines:
        return features[:, -width:]
    parts = np.split(features[:, :-cosines], 4, axis=1)
    return np.concatenate([*(part[:, -width:] for part in parts), features[:, -1:]], 1)


def _fit_features(
    config: TaskConfig, features: Floats, examples: Sequence[TextExample], cosines: int, folds_N: Ints, read_s: float
) -> Frozen:
    half = (features.shape[1] - cosines) // 2  # of a pair u, v, |u - v|, u * v: what compares is the second half
    fits = {
        first: fit_linear(config, features[:, first:], examples, folds_N, _emphasis(features.shape[1] - first, cosines))
        for first in ((0, half) if cosines else (0,))
    }
    first = max(fits, key=lambda first: fits[first].goodness)
    linear = replace(fits[first], weights=_widened(fits[first].weights, first))
    return Frozen(config, linear, features, first, targets_of(config, examples), read_s, cosines)


def _emphasis(num_features: int, cosines: int) -> Floats | None:
    """The cosines together weigh as much as all other features."""
    if not cosines:
        return None
    found = np.ones(num_features)
    found[-cosines:] = (num_features / cosines) ** 0.5
    return found


def _widened(weights_KD: Floats, first: int) -> Floats:
    """With zeros for the features that were left out."""
    return np.pad(weights_KD, ((0, 0), (first, 0)))


def text_features(model: TaskModel, examples: Sequence[TextExample]) -> Floats:
    """What the head of a classifier reads, [N, D]."""
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    found: Floats = np.zeros((len(items), model.network.out.in_features))
    most = min(MAX_TOKENS, model.config.max_batch_tokens)
    model.network.eval().to(model.config.device)
    with torch.inference_mode():
        for numbers in batches_by_length([item_cost(item) for item in items], most, MAX_ROWS, longest_first=True):
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
