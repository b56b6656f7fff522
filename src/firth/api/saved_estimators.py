"""Estimators on disk: saved as a run that ``firth.load`` and the server read, and pickled as the files of that run.

A pickle holds the files as bytes (safetensors and JSON): no torch object is pickled, and nothing in it is executed.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from firth.api.using import AnyPath
from firth.core.errors import FirthError

if TYPE_CHECKING:
    from firth.core.run import RunRecord
    from firth.tasks.model import TaskModel

_FILE = "estimator.json"  # in a saved run: arguments and classes


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

        check_is_fitted(self, "model_")
        goal = Path(folder)
        Run.keep_apart(goal, [] if self._base_path is None else [self._base_path], overwrite)
        with atomic_folder(goal) as made:
            self._write(made)
            files = [path for path in sorted(made.rglob("*")) if path.is_file()]
            record = self._record().replace(checksums={str(path.relative_to(made)): checksum(path) for path in files})
            Run(made, record).save()
            Run.clear(goal, overwrite)

    def _record(self) -> RunRecord:
        """``firth.json`` of a finished task with one training, on examples from memory."""
        from firth.core.records import CellSettings, CorpusRecord, TaskRecord, TaskResult
        from firth.core.run import RunRecord, versions

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
        from firth.core.files import read_json

        known = read_json(Path(folder) / _FILE) if (Path(folder) / _FILE).is_file() else {}
        made = cls(**known.get("parameters", {}))
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
        facts = {
            "parameters": {**self.get_params(deep=False), "base": str(self.base)},
            "classes": classes,
            "dtype": self.classes_.dtype.str,
            "names": self._names,
            "examples": self._num_examples,
            "dev_scores": self.dev_scores_,
            "seconds": self.seconds_,
        }
        write_json(folder / _FILE, facts)

    def _read(self, folder: Path) -> None:
        """Restores the fitted state from a folder."""
        from firth.core.files import read_json
        from firth.tasks.model import TaskModel
        from firth.tasks.predict import load_task

        model = load_task(folder)
        if not isinstance(model, TaskModel) or model.config.task != self._task:
            raise FirthError(f"{folder}: not a run of this task ({self._task}); name another run")
        known = read_json(folder / _FILE) if (folder / _FILE).is_file() else {}
        self.model_, labels = model, list(model.config.labels)
        self.classes_ = np.asarray(known.get("classes", labels), known.get("dtype"))
        self._names = [str(name) for name in known.get("names", labels)]
        self._num_examples = int(known.get("examples", 0))
        self.dev_scores_, self.seconds_ = known.get("dev_scores", {}), known.get("seconds", 0.0)
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
