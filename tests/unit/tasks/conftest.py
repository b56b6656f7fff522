"""A small BERT as tasks see it, and a way to train one without files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firth.core.types import TextReader
from firth.models.shared.model import load_model
from firth.tasks.config import TaskConfig
from firth.tasks.data import build_data
from firth.tasks.finetune import train_model
from firth.tasks.model import TaskModel
from firth.tasks.training import Finetuning

Train = Callable[..., tuple[TaskModel, Finetuning]]


@pytest.fixture(scope="session")
def bert_reader(run_folder: Path) -> TextReader:
    """Not to be trained."""
    return load_model(run_folder).reader()


@pytest.fixture
def train(run_folder: Path, tmp_path: Path) -> Train:
    """A task trained on a fresh copy of the small BERT."""

    def run(
        task: str, examples: list[Any], dev: list[Any] | None = None, **settings: Any
    ) -> tuple[TaskModel, Finetuning]:
        data = build_data(task, examples, dev or [])
        usual = {"task": task, "learning_rate": 3e-3, "epochs": 20, "batch_size": 8, "dropout_prob": 0.0}
        config = data.configured(TaskConfig.build(usual | settings, "test"))
        model, trainable, _ = train_model(config, load_model(run_folder), data, tmp_path, None)
        return model, trainable

    return run
