"""A run of the same task as the teacher of a smaller one."""

from pathlib import Path

from firth.assembly.evaluate_task import load_task
from firth.assembly.task_model import TaskModel
from firth.core.errors import FirthError
from firth.core.task_configs import TaskConfig
from firth.representations.base import Representation
from firth.tasks.distillation import Teacher
from firth.tasks.network import TaskNetwork


def load_teacher(run: Path, config: TaskConfig, student: Representation, pairs: bool) -> Teacher:
    """The teacher of a student with these settings on this base; an error where it teaches something else."""
    model = load_task(run)
    if not isinstance(model, TaskModel):
        raise FirthError(f"{run}: a task as text is no teacher of {config.task}; name a run of the same task")
    if model.config.task != config.task or model.pairs != pairs:
        kinds = [
            f"{task} of {'pairs' if both else 'texts'}"
            for task, both in ((model.config.task, model.pairs), (config.task, pairs))
        ]
        raise FirthError(
            f"{run}: has learned {kinds[0]}, which is no teacher of {kinds[1]}; name a run of the same task"
        )
    unknown = sorted(set(config.labels) - set(model.config.labels))
    if unknown:
        raise FirthError(
            f"{run}: does not know the label '{unknown[0]}' (but {', '.join(model.config.labels[:8])}); name a teacher of the same labels"
        )
    columns = [model.config.labels.index(label) for label in config.labels] or list(
        range(1 if config.task == "score" else 2)
    )
    own = isinstance(model.network, TaskNetwork)  # an exported one gives scores, no layers
    return Teacher(model.task, model.network, model.config, columns, own and _same_tokens(model.base, student))


def _same_tokens(first: Representation, second: Representation) -> bool:
    """Whether both cut any text into the same tokens and put the same around it."""
    pieces = [getattr(model, "pieces", None) for model in (first, second)]
    if pieces[0] is None or pieces[1] is None:
        return False
    return bool(pieces[0].fingerprint == pieces[1].fingerprint and first.reader().frame == second.reader().frame)
