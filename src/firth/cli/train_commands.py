"""Commands that pre-train: recipes, settings, plan, pretrain."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import app
from firth.cli.options import TRAIN, Corpus, Json, Out, Overwrite, Settings

Seed = Annotated[int | None, typer.Option(help="Same seed, same result.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 and so on.")]
PretrainBase = Annotated[
    Path | None, typer.Option(help="Begin with the weights of this model (a run or a Hugging Face directory).")
]
Resume = Annotated[Path | None, typer.Option(help="Go on with a run that was stopped; nothing else is needed.")]


@app.command(rich_help_panel=TRAIN)
def recipes(as_json: Json = False) -> None:
    """List the recipes of each model, a line each.

    Example: firth recipes
    """
    import firth
    from firth.cli.app import say, say_json, table
    from firth.core.registry import specs

    described = firth.recipes()
    if as_json:
        say_json({spec.name: {name: described[name] for name in spec.recipes} for spec in specs().values()})
        return
    for spec in specs().values():
        if spec.recipes:
            say(spec.name)
            table([(name, described[name]) for name in spec.recipes])


@app.command(rich_help_panel=TRAIN)
def settings(
    name: Annotated[str, typer.Argument(help="A recipe, or a task: classify, score, tag, answer, write.")],
    as_json: Json = False,
) -> None:
    """Show every setting of a recipe or a task: its name, its value, and what it is.

    Example: firth settings bert-tiny
    """
    from firth.cli.app import say, say_json
    from firth.cli.settings_table import list_settings

    rows = list_settings(name)
    if as_json:
        say_json({row.name: {"value": row.value, "about": row.about} for row in rows})
        return
    width = max(len(row.text) for row in rows)
    for row in rows:
        say(f"{row.text:<{width}}  {f'# {row.about}' if row.about else ''}".rstrip())


@app.command(rich_help_panel=TRAIN)
def plan(
    recipe: Annotated[str, typer.Argument(help="For example bert-mini.")],
    settings: Settings = None,
    corpus: Annotated[Path, typer.Option(help="A corpus made by firth prepare.")] = Path("corpus"),
    budget: Annotated[str, typer.Option(help="How long you would train, for example 1h.")] = "1h",
    as_json: Json = False,
) -> None:
    """Say what a pre-training run would need and reach on this machine, before it is begun.

    Example: firth plan bert-mini --corpus corpora/news --budget 1h
    """
    import firth
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import plan_rows
    from firth.core.config import parse_settings

    found = firth.plan(recipe, corpus=corpus, budget=budget, settings=parse_settings(settings or ()))
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
    steps: Annotated[int | None, typer.Option(help="Or: how many steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Or: how often through the corpus (default 1).")] = None,
    seed: Seed = None,
    device: Device = None,
    base: PretrainBase = None,
    resume: Resume = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Pre-train a model on a corpus, within a time budget if you name one.

    Example: firth pretrain bert-mini --corpus corpora/news --out runs/bert --budget 20m
    """
    import firth
    from firth.cli.progress import progress_display
    from firth.core.config import parse_settings

    with progress_display(recipe or "pretrain", as_json) as progress:
        firth.pretrain(
            recipe,
            corpus=corpus,
            out=out,
            budget=budget,
            steps=steps,
            epochs=epochs,
            seed=seed,
            device=device,
            base=base,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
            settings=parse_settings(settings or ()),
        )
    folder = resume or out
    assert folder is not None
    _say_pretrained(folder, as_json)


def _say_pretrained(folder: Path, as_json: bool) -> None:
    """How it went, and what can be done with it."""
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import run_rows
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
        say(f"next: firth {record.uses[0].format(name=folder)}")
