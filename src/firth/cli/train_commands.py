"""Commands that pre-train: recipes, settings, plan, pretrain."""

import ast
import inspect
import json
import shlex
import textwrap
import tokenize
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import typer

from firth.cli.main import TRAIN, Address, Cores, Corpus, Engine, Json, Out, Overwrite, Settings, Tensorboard, app
from firth.core.config import Config

_SETTING = 38  # columns for a setting; the comment of a longer one begins in the next line


@dataclass(frozen=True)
class Setting:
    """A setting with its full name; ``about`` is its comment in the source, with the values that it takes if these are few."""

    name: str
    value: object
    about: str

    @property
    def text(self) -> str:
        """The setting as on the command line."""
        value = (
            self.value
            if isinstance(self.value, str)
            else json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))
        )
        return f"{self.name}={value}"


def list_settings(name: str) -> list[Setting]:
    """All settings of a recipe or a kind of task."""
    return _settings_of(_find_config(name))


def _find_config(name: str) -> Config:
    from firth.core.errors import FirthError, nearest
    from firth.core.registry import find_recipe, recipes
    from firth.tasks.config import TaskKind, WritingConfig, task_config

    tasks = get_args(TaskKind)
    if name in tasks:
        return task_config(name)
    if name == "write":
        return WritingConfig()
    if name == "fasttext-classifier":
        from firth.tasks.fasttext import classifier_config

        return classifier_config()
    if name == "embed":
        from firth.tasks.embed.config import EmbedConfig

        return EmbedConfig()
    if name not in recipes():
        known = [*recipes(), *tasks, "embed", "write", "fasttext-classifier"]
        raise FirthError(f"unknown recipe or task '{name}': {nearest(name, known)}")
    return find_recipe(name)


def _settings_of(config: Config, section: str = "") -> list[Setting]:
    plain, found = config.model_dump(mode="json"), list[Setting]()
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, Config):
            found += _settings_of(value, f"{section}{name}.")
        else:
            about, choices = field.description or _comments(type(config)).get(name, ""), _choices(field.annotation)
            about += f" ({', '.join(choices)})" if len(choices) > 1 else ""
            found.append(Setting(section + name, plain[name], about.strip()))
    return found


def _choices(annotation: object) -> list[str]:
    """The values of a setting that takes only these."""
    if get_origin(annotation) is Literal:
        return [str(one) for one in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in _choices(part)]


@cache
def _comments(config: type[Config]) -> dict[str, str]:
    """The comments on the fields of a config class and its bases."""
    found: dict[str, str] = {}
    for one in reversed(config.__mro__):
        if issubclass(one, Config) and one is not Config:
            found |= _own_comments(one)
    return found


def _own_comments(config: type[Config]) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(config))
    except OSError:  # a package without its source
        return {}
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            found[node.target.id] = " ".join(comments[line] for line in lines if line in comments)
    return found


Seed = Annotated[int | None, typer.Option(help="Same seed, same result.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 and so on.")]
PretrainBase = Annotated[
    Path | None, typer.Option(help="A model with the initial weights (a run or a Hugging Face directory).")
]
Sweep = Annotated[
    bool,
    typer.Option(
        "--sweep",
        help="Try a grid of settings: those with several values (batch_size=8,16), else half and twice the learning rate.",
    ),
]
Resume = Annotated[Path | None, typer.Option(help="Continue an interrupted run; no other option is needed.")]


@app.command(rich_help_panel=TRAIN)
def recipes(as_json: Json = False) -> None:
    """List the recipes of each model.

    Example: firth recipes
    """
    from firth.api import training
    from firth.cli.main import say, say_json, table
    from firth.core.registry import specs

    described = training.recipes()
    if as_json:
        say_json({spec.name: {name: described[name] for name in spec.recipes} for spec in specs().values()})
        return
    for spec in specs().values():
        if spec.recipes:
            say(spec.name)
            table([(name, described[name]) for name in spec.recipes])


@app.command(rich_help_panel=TRAIN)
def settings(
    name: Annotated[
        str,
        typer.Argument(help="A recipe, a task (classify, score, tag, answer, embed, write) or fasttext-classifier."),
    ],
    as_json: Json = False,
) -> None:
    """Show every setting of a recipe or a task: name, value and description.

    Example: firth settings bert-tiny
    """
    from firth.cli.main import columns, say, say_json, wrap

    rows = list_settings(name)
    if as_json:
        say_json({row.name: {"value": row.value, "about": row.about} for row in rows})
        return
    width = min(_SETTING, max(len(row.text) for row in rows))
    for row in rows:
        room = columns() - width - 4
        first, *more = wrap(row.about, room) if row.about else [""]
        if len(row.text) > width and first:
            first, more = "", [first, *more]
        say(f"{row.text:<{width}}  {f'# {first}' if first else ''}".rstrip())
        for line in more:
            say(f"{'':<{width}}  # {line}")


@app.command(rich_help_panel=TRAIN)
def plan(
    recipe: Annotated[str, typer.Argument(help="For example bert-mini.")],
    settings: Settings = None,
    corpus: Annotated[Path, typer.Option(help="A corpus made by firth prepare.")] = Path("corpus"),
    budget: Annotated[str, typer.Option(help="The time for training, for example 1h.")] = "1h",
    as_json: Json = False,
) -> None:
    """Estimate what a pre-training run needs and reaches on this machine.

    Example: firth plan bert-mini --corpus corpora/news --budget 1h
    """
    from firth.api import training
    from firth.cli.describe import plan_rows
    from firth.cli.main import say, say_json, table
    from firth.core.config import parse_settings

    found = training.plan(recipe, corpus=corpus, budget=budget, settings=parse_settings(settings or ()))
    if as_json:
        say_json({"recipe": recipe, "budget": budget, **found})
        return
    say(f"{recipe} for {budget} on this machine")
    table(plan_rows(found))


@app.command(rich_help_panel=TRAIN)
def pretrain(
    recipe: Annotated[str | None, typer.Argument(help="For example bert-tiny; firth recipes lists them.")] = None,
    settings: Settings = None,
    corpus: Corpus = None,
    out: Out = None,
    budget: Annotated[str | None, typer.Option(help="How long to train, for example 20m or 1h30m.")] = None,
    steps: Annotated[int | None, typer.Option(help="Or: the number of steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Or: the number of passes over the corpus (default 1).")] = None,
    seed: Seed = None,
    device: Device = None,
    base: PretrainBase = None,
    sweep: Sweep = False,
    resume: Resume = None,
    overwrite: Overwrite = False,
    tensorboard: Tensorboard = False,
    engine: Engine = "local",
    address: Address = None,
    cores: Cores = 1,
    as_json: Json = False,
) -> None:
    """Pre-train a model on a corpus, within a time budget if you name one.

    Example: firth pretrain bert-mini --corpus corpora/news --out runs/bert --budget 20m
    """
    from firth.api import training
    from firth.cli.progress import progress_display
    from firth.core.config import collect, parse_settings
    from firth.training.checkpoints import event_files

    given = collect(
        parse_settings(settings or ()), {}, budget=budget, steps=steps, epochs=epochs, seed=seed, device=device
    )
    events = event_files(resume or out if tensorboard else None)
    with progress_display(recipe or "pretrain", as_json) as progress, events:
        remote = (engine, address, cores)
        training.start_pretraining(recipe, given, corpus, out, base, resume, overwrite, progress, sweep, remote)
    folder = resume or out
    assert folder is not None
    _say_pretrained(folder, as_json)


def _say_pretrained(folder: Path, as_json: bool) -> None:
    """Prints the result and the next command."""
    from firth.cli.describe import run_rows
    from firth.cli.main import say, say_json, table
    from firth.core.run import Run

    record = Run.open(folder).record
    if as_json:
        say_json({"run": str(folder), **record.model_dump(mode="json")})
        return
    say(f"{folder}: trained")
    table(run_rows(record))
    say(f"report: {folder}/report.html")
    if record.kind == "vectors":
        say(f"next: firth nearest {folder} WORD")
    elif record.uses:
        say(f"next: firth {record.uses[0].format(name=shlex.quote(str(folder)))}")
