"""Tasks as scikit-learn estimators: ``Classifier`` and ``Tagger``, for notebooks, pipelines and grid search.

They can be saved, loaded and pickled.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from firth.core.config import AnyPath
from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.core.run import Record
from firth.core.types import generator
from firth.data.labelled import TagExample, TextExample
from firth.tasks.checking import AnyExample
from firth.tasks.config import TaskConfig

if TYPE_CHECKING:
    from firth.core.run import RunRecord
    from firth.tasks.model import TaskModel


_FILE = "estimator.json"  # in a saved run: arguments and classes


class EstimatorRecord(Record):
    """``estimator.json``: what the estimator was made with, and its classes as scikit-learn has them."""

    parameters: dict[str, object]
    classes: tuple[bool | int | float | str, ...]
    dtype: str  # of the classes, as NumPy writes it
    names: tuple[str, ...]  # of the classes, as labels of the task
    examples: int
    dev_scores: dict[str, float]
    seconds: float

    @classmethod
    def find(cls, folder: Path) -> Self | None:
        """That of a saved estimator; none in another run."""
        path = folder / _FILE
        if not path.is_file():
            return None
        found = cls.build(read_json(path, dict), path)
        if len(found.classes) != len(found.names):
            raise FirthError(f"{path}: {len(found.classes)} classes with {len(found.names)} names; copy it again")
        try:
            np.asarray(found.classes, found.dtype)
        except (TypeError, ValueError, OverflowError, MemoryError):
            raise FirthError(f"{path}: the classes are not of the type '{found.dtype}'; copy it again") from None
        return found


class SavedEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose fitted state is a task model."""

    _task: str
    base: str
    extra_vectors: str | None
    model_: TaskModel
    classes_: NDArray[np.generic]
    dev_scores_: dict[str, float]
    seconds_: float
    _names: list[str]  # of the classes, as labels of the task
    _num_examples: int
    _base_path: Path | None

    def save(self, folder: AnyPath, overwrite: bool = False) -> None:
        """Writes a run that ``load``, ``firth.load`` and the server read.

        Args:
            folder: The new run folder.
            overwrite: Whether to replace an existing run.

        Example: ``firth.Classifier().fit(texts, labels).save("runs/mood")``
        """
        from firth.core.files import atomic_folder, checksum
        from firth.core.run import Run
        from firth.reports.card import write_card

        check_is_fitted(self, "model_")
        goal = Path(folder)
        Run.keep_apart(goal, [] if self._base_path is None else [self._base_path], overwrite)
        with atomic_folder(goal, overwrite) as made:
            self._write(made)
            files = [path for path in sorted(made.rglob("*")) if path.is_file()]
            record = self._record().replace(checksums={str(path.relative_to(made)): checksum(path) for path in files})
            run = Run(made, record)
            run.save()
            write_card(run, goal.name)
            Run.clear(goal, overwrite)

    def _record(self) -> RunRecord:
        """``firth.json`` of a finished task with one training, on examples from memory."""
        from firth.core.run import CellSettings, CorpusRecord, RunRecord, TaskRecord, TaskResult, versions

        model, config = self.model_, self.model_.config
        result = TaskResult(
            seed=config.seed,
            share=1.0,
            examples=self._num_examples,
            settings=CellSettings(
                batch_size=config.batch_size, learning_rate=config.learning_rate or 0.0, epochs=config.epochs
            ),
            metric=model.task.metric,
            scores=self.dev_scores_,
            interval=None,
            train_s=self.seconds_,
            seconds=self.seconds_,
            trained_parameters=model.num_trained,
            parameters=model.num_parameters,
            mixes=model.mixes(),
        )
        return RunRecord(
            kind="task",
            model=model.spec_name,
            recipe=self._task,
            status="finished",
            versions=versions(),
            config=config.model_dump(mode="json"),
            corpus=CorpusRecord(path=""),
            base=str(self.base),
            seconds=self.seconds_,
            metrics=self.dev_scores_,
            parameters=model.num_parameters,
            task=TaskRecord(cells=1, results=(result,), best=0, extra_vectors=self.extra_vectors),
        )

    @classmethod
    def load(cls, folder: AnyPath) -> Self:
        """A saved estimator, or any run of ``firth.finetune`` of this task.

        Args:
            folder: The folder of the run.

        Returns:
            The fitted estimator.

        Example: ``firth.Classifier.load("runs/mood").predict(texts)``
        """
        record = EstimatorRecord.find(Path(folder))
        given = {} if record is None else record.parameters
        unknown = sorted(given.keys() - set(cls._get_param_names()))
        if unknown:
            raise FirthError(
                f"{Path(folder) / _FILE}: {cls.__name__} has no parameter '{unknown[0]}': load it as what it was saved from"
            )
        made = cls(**given)
        made._read(Path(folder))
        return made

    def _write(self, folder: Path) -> None:
        """Writes the model as a task, and the arguments and classes of the estimator."""
        from firth.core.files import write_json

        if self._base_path is not None and not self._base_path.exists():
            raise FirthError(f"{self._base_path}: the base no longer exists; restore it, or fit again")
        self.model_.save(folder, self._base_path)
        classes = self.classes_.tolist()
        if not all(isinstance(one, str | int | float) for one in classes):
            raise FirthError(
                "only classes that are strings, numbers or booleans can be written: rename them and fit again"
            )
        record = EstimatorRecord(
            parameters={**self.get_params(deep=False), "base": str(self.base)},
            classes=tuple(classes),
            dtype=self.classes_.dtype.str,
            names=tuple(self._names),
            examples=self._num_examples,
            dev_scores=self.dev_scores_,
            seconds=self.seconds_,
        )
        write_json(folder / _FILE, record.model_dump())

    def _read(self, folder: Path) -> None:
        """Restores the fitted state from a folder."""
        from firth.tasks.model import TaskModel
        from firth.tasks.predict import load_task

        model = load_task(folder)
        if not isinstance(model, TaskModel) or model.config.task != self._task:
            raise FirthError(f"{folder}: not a run of this task ({self._task}); name another run")
        self.model_, record = model, EstimatorRecord.find(folder)
        if record is None:
            self._names = list(model.config.labels)
            self.classes_ = np.asarray(self._names)
            self._num_examples, self.dev_scores_, self.seconds_ = 0, {}, 0.0
        else:
            self._names = list(record.names)
            self.classes_ = np.asarray(record.classes, record.dtype)
            self._num_examples, self.dev_scores_, self.seconds_ = record.examples, record.dev_scores, record.seconds
        self._base_path = folder / "base" if (folder / "base").exists() else None

    def __getstate__(self) -> dict[str, object]:
        state: dict[str, object] = dict(super().__getstate__())
        if "model_" not in state:
            return state
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self._write(folder)
            files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            stored = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        kept = {
            name: value for name, value in state.items() if name in (*self.get_params(deep=False), "_sklearn_version")
        }
        return {**kept, "files": stored}

    def __setstate__(self, state: dict[str, object]) -> None:
        files = state.pop("files", None)
        super().__setstate__(state)
        if not isinstance(files, dict):
            return
        folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # a base in it is copied by ``save``
        for name, content in files.items():
            parts = PurePosixPath(name).parts
            if not parts or ".." in parts or PurePosixPath(name).is_absolute():
                raise FirthError(
                    f"a pickled estimator names the file {name!r}, which is outside of its folder: do not use it"
                )
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._read(folder)


Texts: TypeAlias = Sequence[str | Sequence[str]]
"""Texts, or pairs of texts."""
OneExample = TypeVar("OneExample", bound=AnyExample)
_FEWEST_DEV = 20


class _TaskEstimator(SavedEstimator):
    """What both estimators share. As scikit-learn asks, the constructor only stores its arguments; ``fit`` does the work.

    ``base`` is a run, a Hugging Face directory, a file of vectors, "counts" or "scratch"; ``epochs`` and
    ``learning_rate`` are chosen by the base if not given, and then the best of several candidates is kept, as
    ``firth.finetune`` does. ``dev_share`` of the examples is held out to choose the best epoch; with fewer than
    20 held-out examples the last epoch is used. ``extra_vectors`` names word vectors as additional input. ``settings`` are
    further settings of ``TaskConfig`` by name.
    """

    _task = "classify"

    def __init__(
        self,
        base: str = "scratch",
        *,
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int = 32,
        long_text: str = "head",
        dev_share: float = 0.1,
        extra_vectors: str | None = None,
        seed: int = 0,
        settings: dict[str, object] | None = None,
    ) -> None:
        self.base = base
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.long_text = long_text
        self.dev_share = dev_share
        self.extra_vectors = extra_vectors
        self.seed = seed
        self.settings = settings

    def _train(self, examples: Sequence[AnyExample]) -> TaskModel:
        """Splits the examples, trains, and keeps the scores, the time and the base."""
        from firth.tasks.candidates import fit_best
        from firth.tasks.data import build_data
        from firth.tasks.finetune import MADE, default_settings, load_base
        from firth.tasks.model import load_extra_vectors

        usual = {"batch_size": 32, "long_text": "head"}
        given = {
            "seed": self.seed,
            **{name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value},
            **{name: value for name in ("epochs", "learning_rate") if (value := getattr(self, name)) is not None},
            **(self.settings or {}),
        }
        data = build_data(self._task, *self._split(examples))
        data.check.refuse()
        config = data.configured(TaskConfig.build({"task": self._task, **given}, type(self).__name__))
        if config.adapt_epochs:
            raise FirthError("adapt_epochs is for firth.finetune, which stores the adapted base: leave it out here")
        if self.extra_vectors is not None and not config.candidates:
            config = config.replace(candidates=("tuned",))
        base = load_base(str(self.base), data, config)
        config = default_settings(config, base, len(data.train), set(given))
        del base  # one that is tuned is read again for every candidate
        extra_vectors = None if self.extra_vectors is None else load_extra_vectors(Path(self.extra_vectors))
        with tempfile.TemporaryDirectory() as folder:
            found = fit_best(
                config, lambda config: load_base(str(self.base), data, config), data, Path(folder), None, extra_vectors
            )
        self.seconds_, self.dev_scores_, self._num_examples = found.train_s, found.scores, len(data.train)
        self._base_path = None if str(self.base) in MADE else Path(self.base)
        return found.model

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The arguments, and for a fitted estimator the number of classes and the base model."""
        shown: str = super().__repr__(N_CHAR_MAX)
        return f"<{shown}: {len(self.classes_)} classes, {self.model_.base!r}>" if hasattr(self, "model_") else shown

    def _split(self, examples: Sequence[OneExample]) -> tuple[list[OneExample], list[OneExample]]:
        """Training and dev examples. Dev examples with a label that no training example has move to the training part;
        fewer than 20 dev examples would choose an epoch by chance, so then there are none."""
        if not 0 <= self.dev_share < 1:
            raise FirthError(f"dev_share is {self.dev_share}: choose a number from 0 up to, but not, 1")
        order = generator(self.seed, 0xE5).permutation(len(examples))
        size = int(len(examples) * self.dev_share)
        chosen = {int(number) for number in order[: size if size >= _FEWEST_DEV else 0]}
        train = [example for number, example in enumerate(examples) if number not in chosen]
        known = {label for example in train for label in self._labels_of(example)}
        dev = [examples[number] for number in sorted(chosen)]
        train += [example for example in dev if not known.issuperset(self._labels_of(example))]
        return train, [example for example in dev if known.issuperset(self._labels_of(example))]

    @staticmethod
    def _labels_of(example: AnyExample) -> list[str]:
        if isinstance(example, TagExample):
            return list(example.tags or ())
        return [str(example.label)] if isinstance(example, TextExample) else []


def _examples(texts: Texts) -> list[TextExample]:
    """Strings or pairs of strings (a list, tuple, series or array) as examples."""
    if isinstance(texts, str) or not hasattr(texts, "__len__"):
        raise FirthError("texts are a list of strings (or of pairs of strings), not one string")
    found = []
    for number, text in enumerate(texts, 1):
        parts = [text] if isinstance(text, str) else list(text) if isinstance(text, tuple | list | np.ndarray) else []
        if not 1 <= len(parts) <= 2 or not all(isinstance(part, str) for part in parts):
            raise FirthError(f"text {number} is neither a string nor a pair of strings but {str(text)[:40]!r}")
        found.append(TextExample(parts[0], parts[1] if len(parts) == 2 else None, None, f"text {number}"))
    if len({example.second is None for example in found}) > 1:
        raise FirthError("some texts are pairs and some are not: give one kind")
    return found


class Classifier(ClassifierMixin, _TaskEstimator):  # type: ignore[misc]
    """Classifies texts, or pairs of texts (as tuples).

    Example: ``firth.Classifier(base="runs/bert").fit(texts, labels).predict(texts)``
    """

    def fit(self, texts: Texts, labels: Sequence[object]) -> Classifier:
        """Fine-tunes the base on texts with one label each.

        Args:
            texts: Strings, or pairs of strings.
            labels: The class of each text: strings, numbers or booleans.

        Returns:
            The estimator itself.

        Example: ``firth.Classifier(base="runs/bert", epochs=3).fit(texts, labels)``
        """
        examples = _examples(texts)
        if len(examples) != len(labels):
            raise FirthError(f"{len(examples)} texts but {len(labels)} labels: give one label per text")
        if not examples:
            raise FirthError("no texts to learn from")
        self.classes_, numbers = np.unique(np.asarray(labels), return_inverse=True)
        if len(self.classes_) < 2:
            raise FirthError(f"there is only one class ({self.classes_[0]}): give examples of at least two")
        names = [str(one) for one in self.classes_.tolist()]
        distinct = len(set(names)) == len(names) and all(name.strip() for name in names)
        self._names = names if distinct else [f"class {number}" for number in range(len(names))]
        self.model_ = self._train(
            [
                TextExample(example.text, example.second, self._names[number], example.where)
                for example, number in zip(examples, numbers.tolist(), strict=True)
            ]
        )
        return self

    def predict_proba(self, texts: Texts) -> NDArray[np.float64]:
        """The probability of each class.

        Args:
            texts: As for ``fit``.

        Returns:
            float64 [texts, classes], columns in the order of ``classes_``.

        Example: ``classifier.predict_proba(["A lovely film."])``
        """
        check_is_fitted(self, "model_")
        examples = _examples(texts)
        if any((example.second is not None) != self.model_.pairs for example in examples):
            expected = "pairs of texts" if self.model_.pairs else "single texts"
            raise FirthError(f"this classifier was trained on {expected}: give it {expected}")
        found = self.model_.predict_examples(examples)
        table = [[one["probabilities"][name] for name in self._names] for one in found]
        return np.asarray(table, np.float64).reshape(len(examples), len(self.classes_))

    def predict(self, texts: Texts) -> NDArray[np.generic]:
        """The most probable class of each text.

        Args:
            texts: As for ``fit``.

        Returns:
            One of ``classes_`` for each text.

        Example: ``classifier.predict(["A lovely film."])[0]``
        """
        check_is_fitted(self, "model_")
        found: NDArray[np.generic] = self.classes_[self.predict_proba(texts).argmax(1)]
        return found


class Tagger(_TaskEstimator):
    """Tags every word of a sentence, given as a list of words.

    Example: ``firth.Tagger(base="runs/bert").fit(sentences, tags).predict(sentences)``
    """

    _task = "tag"

    def fit(self, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> Tagger:
        """Fine-tunes the base on sentences with one tag per word.

        Args:
            words: Sentences as lists of words.
            tags: The tags of each sentence.

        Returns:
            The estimator itself.

        Example: ``firth.Tagger(base="runs/bert").fit([["Ada", "slept"]], [["B-PER", "O"]])``
        """
        self.model_ = self._train(self._tagged(words, tags))
        self._names = list(self.model_.config.labels)
        self.classes_ = np.asarray(self._names)
        return self

    def _tagged(self, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> list[TagExample]:
        if len(words) != len(tags):
            raise FirthError(f"{len(words)} sentences but {len(tags)} lists of tags: give one list per sentence")
        if not len(words):
            raise FirthError("no sentences to learn from")
        if any(isinstance(sentence, str) for sentence in words):
            raise FirthError("a sentence is a list of words here, not a string: split it first")
        return [
            TagExample([str(word) for word in sentence], [str(tag) for tag in own], f"sentence {number}")
            for number, (sentence, own) in enumerate(zip(words, tags, strict=True), 1)
        ]

    def predict(self, words: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tags of sentences.

        Args:
            words: Sentences as lists of words.

        Returns:
            One tag per word, for every sentence.

        Example: ``tagger.predict([["Ada", "slept"]])[0]``
        """
        check_is_fitted(self, "model_")
        return [
            [str(tag) for tag in found["tags"]] for found in self.model_.predict([list(sentence) for sentence in words])
        ]

    def score(self, words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> float:
        """The F1 of entities if the tags follow a scheme such as BIO, else the accuracy.

        Args:
            words: Sentences as lists of words.
            tags: The correct tags.

        Returns:
            A number from 0 to 1.

        Example: ``tagger.score(sentences, tags)``
        """
        check_is_fitted(self, "model_")
        examples = self._tagged(words, tags)
        task = self.model_.task
        return float(task.score(examples, [], self.model_.predict_examples(examples))[task.metric])
