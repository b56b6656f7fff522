"""fastText's classifier as a task: what a run of ``firth finetune classify --base fasttext`` or a file of the original gives."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.types import NO_READER, Prediction
from firth.data.labelled import TextExample
from firth.models.fasttext.classifier import FastTextClassifier, FastTextClassifierConfig, is_classifier_file
from firth.models.shared.model import Model, ModelFacts
from firth.tasks.checking import AnyExample
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.model import TaskModel
from firth.tasks.training import Item, OneExample

FASTTEXT = "fasttext"
_CHUNK = 2048  # texts that are read at a time
_NO_ITEM = Item((), None, 0)


def is_fasttext(path: Path) -> bool:
    """Whether a classifier of the original is here."""
    return is_classifier_file(path)


def classifier_config() -> FastTextClassifierConfig:
    """The usual settings."""
    return FastTextClassifierConfig()


def text_examples(examples: Sequence[AnyExample]) -> list[TextExample]:
    """The examples of a classifier are texts."""
    return [example for example in examples if isinstance(example, TextExample)]


class FastTextTask(TaskModel):
    """Predictions of a classifier for texts."""

    kind = "fastText classifier"
    base: FastTextClassifier
    task: Classify

    def __init__(self, base: FastTextClassifier) -> None:
        self.config = TaskConfig(task="classify", labels=base.task_labels)
        self.base, self.pairs, self.either = base, False, False
        self.extra_vectors = self.counts = None
        self.task = Classify(self.config, NO_READER)  # how predictions are made and scored
        self.dim, self.num_layers, self.spec_name = base.dim, 0, base.spec_name
        number = {label: place for place, label in enumerate(base.labels)}
        self.places = np.asarray([number.get(label, -1) for label in self.config.labels], np.int64)

    @property
    def num_parameters(self) -> int:
        return self.base.num_parameters

    @property
    def title(self) -> str:
        return self.kind

    def describe(self) -> ModelFacts:
        return Model.describe(self).replace(task="classify", labels=self.config.labels)

    def outputs(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[N, K]: the probabilities of the labels; 0 for one that was too rare to be learned."""
        found = self.base.probabilities(texts)
        return np.where(self.places >= 0, found[:, self.places], np.float32(0.0))

    def predict_examples(self, examples: Sequence[AnyExample]) -> list[Prediction]:
        return [found for _, found in self.stream(examples)]

    def stream(self, examples: Iterable[OneExample]) -> Iterator[tuple[OneExample, Prediction]]:
        """Pairs of example and prediction, in constant memory."""
        rest = iter(examples)
        while some := list(islice(rest, _CHUNK)):
            texts = text_examples(some)
            for example, text, output in zip(some, texts, self.outputs([one.text for one in texts]), strict=True):
                found = self.task.prediction(text, _NO_ITEM, output)
                found["unknown"] = self.tally_unknown(text.text)
                yield example, found

    def save(self, folder: Path, base_path: Path | None) -> None:
        self.base.save(folder)

    @classmethod
    def load(cls, folder: Path) -> "FastTextTask":
        """A run, or a ``.bin`` or ``.ftz`` of the original."""
        base = FastTextClassifier.of_file(folder) if folder.is_file() else FastTextClassifier.load(folder)
        return cls(base)
