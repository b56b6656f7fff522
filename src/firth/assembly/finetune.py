"""Fine-tuning: base, network and loop put together for one training; ``task_run`` makes a run of it."""

from pathlib import Path
from typing import Any

import torch

from firth.assembly.loading import load_model
from firth.assembly.task_data import TaskData, texts_of
from firth.assembly.task_model import TaskModel, build_model
from firth.assembly.usual_settings import SCRATCH
from firth.core.configs import TrainingConfig
from firth.core.task_configs import TaskConfig
from firth.core.types import Progress
from firth.representations.base import Representation
from firth.representations.beside import WordsBeside
from firth.representations.scratch import ScratchRepresentation
from firth.tasks.distillation import Distillation, Teacher, check_distillation
from firth.tasks.finetuning import Finetuning
from firth.training.loop import Loop

_REHEARSED = 2


def load_base(base: str, data: TaskData, config: TaskConfig) -> Representation:
    """The representation below the task; ``scratch`` is none at all."""
    if base == SCRATCH:
        texts = [
            text for example in data.train for text in ([example.words] if config.task == "tag" else texts_of(example))
        ]
        return ScratchRepresentation.of_texts(texts, seed=config.seed)
    found = load_model(Path(base))
    return found.base if isinstance(found, TaskModel) else found


def rehearse(
    config: TaskConfig,
    base: Representation,
    data: TaskData,
    beside: WordsBeside | None = None,
    teacher: Teacher | None = None,
) -> None:
    """The shortest examples all the way from text to score, and the longest to its rows, nothing learned: settings that
    cannot work are refused before anything is made or removed."""
    train, dev = (sorted(some, key=_size)[:_REHEARSED] for some in (data.train, data.dev or data.train))
    model, trainee, loop = _prepared(config, base, data, train, dev, beside, Path(), None, teacher)
    model.network.eval()
    with torch.no_grad():
        trainee.loss(trainee.batch(0).to(loop.config.device))
    trainee.evaluate()
    model.task.item(max((*data.train, *data.dev), key=_size), 0)


def _size(example: Any) -> int:
    return sum(len(getattr(example, name, None) or "") for name in ("text", "second", "words", "question", "passage"))


def train_model(
    config: TaskConfig,
    base: Representation,
    data: TaskData,
    folder: Path,
    progress: Progress | None,
    beside: WordsBeside | None = None,
    teacher: Teacher | None = None,
) -> tuple[TaskModel, Finetuning, float]:
    """The network trained on the data, at its best on the dev examples."""
    model, trainee, loop = _prepared(config, base, data, data.train, data.dev, beside, folder, progress, teacher)
    loop.run(trainee.steps, "the same command")
    trainee.take_best()
    if trainee.best and "null_threshold" in trainee.best:
        model.config = config.replace(null_threshold=trainee.best["null_threshold"])
    model.network.eval()
    return model, trainee, loop.seconds


def _prepared(
    config: TaskConfig,
    base: Representation,
    data: TaskData,
    train: list[Any],
    dev: list[Any],
    beside: WordsBeside | None,
    folder: Path,
    progress: Progress | None,
    teacher: Teacher | None = None,
) -> tuple[TaskModel, Finetuning, Loop]:
    model = build_model(config, base, data.pairs, beside)
    network = model.network
    network.start(torch.Generator().manual_seed(config.seed))
    model.task.start(network, data.train)
    model.task.learn_from(data.train)
    if teacher is None:
        trainee = Finetuning(config, model.task, network, train, dev)
    else:
        check_distillation(config, teacher, network)
        trainee = Distillation(config, model.task, network, train, dev, teacher)
    assert config.learning_rate is not None
    training = TrainingConfig(
        batch_rows=config.batch_rows,
        steps=trainee.steps,
        learning_rate=config.learning_rate,
        warmup_share=config.warmup_share,
        weight_decay=config.weight_decay,
        beta2=0.999,
        adam_eps=1e-8,
        evaluations=config.epochs,
        checkpoints=0,
        seed=config.seed,
        device=config.device,
    )
    return model, trainee, Loop(trainee, training, folder, progress, saves=False)
