"""Few labels: the encoder is tuned on pairs of labelled texts before it gets a head (SetFit, Tunstall et al. 2022).

The cosine of two texts of one class is pulled towards 1, that of two classes towards 0. SetFit draws pairs and reads both
texts of each; here every batch holds some texts of several classes, and all its pairs are learned from, so that a text that
was read counts in many pairs. Pairs of one class and pairs of two weigh the same. The head is then a logistic regression.

N texts in a batch, D width, K classes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.types import Batch, Losses, Progress, generator
from firth.data.labelled import TextExample
from firth.models.shared.model import Model
from firth.tasks.checking import AnyExample, all_of
from firth.tasks.config import TaskConfig
from firth.tasks.counts import targets_of, text_features
from firth.tasks.data import TaskData
from firth.tasks.finetune import loop_settings
from firth.tasks.linear import refit_logistic
from firth.tasks.model import TaskModel, build_model
from firth.tasks.network import Head, TaskNetwork
from firth.tasks.training import Finetuning, Task
from firth.training.loop import Loop

TEXTS = 16  # in a batch
FEWEST, MOST = 40, 250  # batches
_STRENGTH = 3.0  # of the head: the classes are far apart by then
_STREAM = 0xC057


def pair_loss(vectors_ND: torch.Tensor, classes_N: torch.Tensor) -> torch.Tensor:
    """The mean squared distance of the cosines from 1 (one class) and from 0 (two), half from each kind of pair."""
    cosines_NN = functional.normalize(vectors_ND) @ functional.normalize(vectors_ND).T
    same_NN = classes_N[:, None] == classes_N[None]
    apart_NN = ~torch.eye(len(classes_N), dtype=torch.bool, device=classes_N.device)
    errors_NN = (cosines_NN - same_NN.float()).square()
    kinds = [errors_NN[kind] for kind in (same_NN & apart_NN, ~same_NN)]
    return torch.stack([errors.mean() for errors in kinds if len(errors)]).mean()


def class_batches(targets: Sequence[int], steps: int, size: int, seed: int) -> list[NDArray[np.int64]]:
    """Numbers of examples, batch by batch: classes in turn, at least two texts of each class that is in a batch."""
    targets_N = np.asarray(targets)
    members = [np.flatnonzero(targets_N == one) for one in np.unique(targets_N)]
    most = min(len(members), size // 2)
    found = []
    for step in range(steps):
        random = generator(seed, _STREAM, step)
        chosen = random.permutation(len(members))[:most]
        classes = np.resize(chosen, size)
        found.append(np.asarray([members[one][random.integers(len(members[one]))] for one in classes], np.int64))
    return found


class Contrastive(Finetuning):
    """A ``Trainable``: the encoder on pairs of training examples."""

    def __init__(
        self, config: TaskConfig, task: Task, network: TaskNetwork, train: Sequence[AnyExample], steps: int
    ) -> None:
        super().__init__(config.replace(epochs=1), task, network, train, [])
        targets = [item.target for item in self.items]
        self.order = class_batches([int(str(one)) for one in targets], steps, TEXTS, config.seed)

    def loss(self, batch: Batch) -> Losses:
        count = batch.counts["task"]
        vectors_ND = self.network.texts(batch.tensors, count, self.config.window_pool)
        return Losses({"task": count * pair_loss(vectors_ND, batch.tensors["labels"])})


def train_contrastive(
    config: TaskConfig, base: Model, data: TaskData, steps: int, folder: Path, progress: Progress | None
) -> TaskModel:
    """The tuned encoder with a linear head."""
    model = build_model(config, base, data.pairs)
    model.network.start(torch.Generator().manual_seed(config.seed))
    trainable = Contrastive(config, model.task, model.network, data.train, steps)
    Loop(trainable, loop_settings(config, steps), folder, progress, saves=False).run(steps, "the same command")
    examples = all_of(TextExample, data.train)
    targets = targets_of(config, examples).astype(np.int64)
    features = text_features(model, examples)
    weights, bias = refit_logistic(features, targets, len(config.labels), _STRENGTH, bool(config.class_weights))
    model.network.set_head(Head(weights, bias))
    model.network.eval()
    return model
