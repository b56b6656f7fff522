"""Pre-training: ``recipes``, ``plan`` and ``pretrain``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firth.api.using import load, split_grid
from firth.core.config import (
    AnyPath,
    Settings,
    address_of,
    check_engine,
    cluster_for,
    collect,
    local_path,
    optional_path,
)
from firth.core.errors import FirthError
from firth.core.types import Progress
from firth.training.checkpoints import event_files

if TYPE_CHECKING:
    from firth.core.registry import RunConfig
    from firth.core.run import Run
    from firth.core.storage import Cluster
    from firth.models.shared.model import Model
    from firth.vectors.configs import VectorsConfig


def recipes() -> dict[str, str]:
    """Lists every recipe by name, with a description of one line.

    Returns:
        Descriptions by name.

    Example::

        firth.recipes()["bert-tiny"]
    """
    from firth.core.registry import specs

    return {name: _first_sentence(make.__doc__) for spec in specs().values() for name, make in spec.recipes.items()}


def _first_sentence(text: str | None) -> str:
    return re.split(r"(?<=\.)\s+(?=[A-Z])|\n\n", (text or "").strip(), maxsplit=1)[0].replace("\n    ", " ")


def pretrain(
    recipe: str | RunConfig | VectorsConfig | None = None,
    *,
    corpus: AnyPath | None = None,
    out: AnyPath | None = None,
    budget: str | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    base: AnyPath | None = None,
    sweep: bool | Mapping[str, Sequence[object]] = False,
    resume: AnyPath | None = None,
    overwrite: bool = False,
    tensorboard: bool = False,
    engine: str = "local",
    address: str | None = None,
    cores: int = 1,
    progress: Progress | None = None,
    settings: Settings | None = None,
    **keywords: object,
) -> Model:
    """Pre-trains a recipe on a corpus.

    Args:
        recipe: The name of a recipe (``firth.recipes()``), or a config; ``"modernbert"`` and ``"llama"`` take the size that is made
            for the budget.
        corpus: A folder that ``firth.prepare`` made.
        out: The new run folder.
        budget: How long to train, for example ``"20m"``; static vectors make as many passes over the text as fit.
        steps, epochs: Instead of a budget: the number of updates, or of passes over the corpus.
        seed: The same seed gives the same result.
        device: ``"cpu"``, ``"cuda"`` and so on.
        base: A model with the initial weights: a run or a Hugging Face directory.
        sweep: Try every combination of a grid of settings, such as ``{"learning_rate": (1e-3, 3e-4), "batch_size": (8, 16)}``,
            each for the whole budget or number of steps, and keep the run with the lowest held-out loss; ``True`` for half,
            once and twice the learning rate of the recipe. The same call continues a sweep that was stopped.
        resume: An interrupted run to continue, with its own settings; no other argument is allowed.
        overwrite: Whether to replace an existing run.
        tensorboard: Whether to write event files for TensorBoard as well, below the run's folder.
        engine: ``local``, or ``ray`` for a cluster on which the trainings of a sweep are jobs; corpus, base and ``out`` lie at the
            same path on every node.
        address: Of the Ray cluster; without it one is started on this machine.
        cores: Of each job of the cluster.
        progress: Called with progress events.
        settings: Settings by full name (``{"model.num_layers": 2}``), or as nested mappings.
        **keywords: Settings by short name (``num_layers=2``), where it is unique.

    Returns:
        The trained model, as ``firth.load(out)`` returns it.

    Example::

        firth.pretrain("bert-tiny", corpus="corpora/news", out="runs/bert", budget="5m", num_layers=2)
    """
    given = collect(settings, keywords, budget=budget, steps=steps, epochs=epochs, seed=seed, device=device)
    source, target, start, begun = map(optional_path, (corpus, out, base, resume))
    with event_files(begun or target if tensorboard else None):
        run = start_pretraining(
            recipe, given, source, target, start, begun, overwrite, progress, sweep, (engine, address, cores)
        )
    return load(run.folder)


def start_pretraining(
    recipe: str | RunConfig | VectorsConfig | None,
    given: Settings,
    corpus: Path | None,
    out: Path | None,
    base: Path | None,
    resume: Path | None,
    overwrite: bool = False,
    progress: Progress | None = None,
    sweep: bool | Mapping[str, Sequence[object]] = False,
    engine: tuple[str, str | None, int] = ("local", None, 1),
) -> Run:
    """Trains a new run, or goes on with one that was interrupted, and returns it."""
    if check_engine(*engine[:2]) and not sweep:
        raise FirthError(
            "a cluster makes sweeps of pre-training; one training on several machines is started by torchrun"
        )
    cluster = cluster_for(*engine)
    if resume is not None:
        if any(value is not None for value in (recipe, corpus, out, base)) or given or overwrite or sweep:
            raise FirthError(
                f"{resume}: a resumed run keeps all its settings; leave out everything but --resume, or start a new run"
            )
        return _resume(resume, progress)
    if recipe is None or corpus is None or out is None:
        raise FirthError("pretrain needs a recipe, a corpus and a place to put the run (out); or resume=RUN")
    if address_of(out) is not None:
        raise FirthError(f"{address_of(out)}: a run is trained in a folder; choose one and copy it there at the end")
    return _start(
        recipe,
        given,
        corpus,
        out,
        None if base is None else local_path(base),
        overwrite,
        progress,
        sweep,
        cluster,
    )


def _start(
    recipe: str | RunConfig | VectorsConfig,
    settings: Settings,
    corpus: Path,
    out: Path,
    base: Path | None,
    overwrite: bool,
    progress: Progress | None,
    sweep: bool | Mapping[str, Sequence[object]],
    cluster: Cluster | None = None,
) -> Run:
    """Starts a run of a network or of static vectors."""
    from firth.core.registry import RunConfig, find_recipe

    name = recipe if isinstance(recipe, str) else ""
    budget = settings.get("budget", settings.get("training.budget"))
    config = find_recipe(recipe, None if budget is None else str(budget)) if isinstance(recipe, str) else recipe
    if isinstance(config, RunConfig):
        if config.needs_base and base is None:
            raise FirthError(
                f"{config.recipe} trains a finished model further: name it with --base (base=), or choose another recipe"
            )
        if sweep:
            from firth.models.sweep import start_sweep

            settings, typed = split_grid(settings) if sweep is True else (settings, {})
            grid = typed or sweep
            return start_sweep(config.update(settings), grid, corpus, out, base, overwrite, progress, cluster)
        config = config.update(settings)  # refuses unknown ones before torch is loaded
        from firth.models.pretrain import start_run

        return start_run(config, corpus, out, base, overwrite, progress)
    if sweep:
        raise FirthError(
            "static vectors have no held-out loss to choose by; leave out --sweep and compare runs with firth evaluate"
        )
    from firth.models.pretrain import start_vectors
    from firth.vectors.configs import VectorsConfig

    assert isinstance(config, VectorsConfig)
    settings = dict(settings)
    settings.pop("budget", None)
    if "steps" in settings or (budget is not None and "epochs" in settings):
        raise FirthError(
            f"{name or config.kind}: static vectors are trained in passes over the text; name either epochs or a budget"
        )
    made = config.update(settings)
    given = None if budget is None else str(budget)
    return start_vectors(name or config.kind, made, corpus, out, base, overwrite, progress, given)


def _resume(folder: Path, progress: Progress | None) -> Run:
    from firth.core.run import Run

    run = Run.open(folder)
    if run.record.kind == "vectors":
        from firth.models.pretrain import resume_vectors

        return resume_vectors(run, progress)
    if run.record.kind == "write":
        from firth.tasks.write.run import resume_writing

        return resume_writing(run.folder, progress)
    from firth.models.pretrain import resume_run

    return resume_run(run.folder, progress)


def plan(
    recipe: str | RunConfig,
    *,
    corpus: AnyPath,
    budget: str = "1h",
    settings: Settings | None = None,
    **keywords: object,
) -> dict[str, float]:
    """Estimates what a pre-training needs and reaches on this machine; a few steps are timed.

    Args:
        recipe: The name of a recipe, or a config.
        corpus: A folder that ``firth.prepare`` made.
        budget: The time that the training would have.
        settings: Settings by full name, or as nested mappings.
        **keywords: Settings by short name.

    Returns:
        ``tokens_per_s``, ``steps``, ``tokens``, ``epochs``, ``parameters``, ``memory_bytes`` and ``disk_bytes``.

    Example::

        firth.plan("bert-mini", corpus="corpora/news", budget="1h")["tokens_per_s"]
    """
    from firth.core.registry import RunConfig, find_recipe
    from firth.models.pretrain import plan_run

    config = find_recipe(recipe, budget) if isinstance(recipe, str) else recipe
    if not isinstance(config, RunConfig):
        raise FirthError(
            f"{recipe}: static vectors are trained in passes over the text, not in a budget; leave out plan"
        )
    return plan_run(config.update(collect(settings, keywords)), Path(corpus), budget)
