"""The command that puts representations side by side: compare."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, app
from firth.cli.task_commands import Label, Second, Text, parse_shares


@app.command()
def compare(
    task: Annotated[str, typer.Argument(help="classify, score, tag or answer.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="Settings of the task as key=value, for example max_len=128.")
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="Raw text (files, folders, globs) or a prepared corpus; may be repeated.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Labelled examples: tsv, csv, jsonl, CoNLL, SQuAD json.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Labelled examples on which the best epoch is chosen.")] = None,
    test: Annotated[Path | None, typer.Option(help="Labelled examples for the scores; without it, dev.")] = None,
    budget: Annotated[str, typer.Option(help="How long all trainings may take together, for example 30m.")] = "30m",
    recipes: Annotated[
        str | None,
        typer.Option(help="Recipes, runs, Hugging Face directories, files of vectors or scratch, with commas between."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Fine-tune each so often.")] = 3,
    shares: Annotated[
        str | None, typer.Option(help="Also fine-tune on shares of the labels, for example 0.1,0.25,1.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where everything is put; the same command goes on there.")] = Path(
        "compare"
    ),
    text: Text = None,
    second: Second = None,
    label: Label = None,
    layout: Annotated[str, typer.Option(help="Of raw txt: file, blank or line; auto looks.")] = "auto",
    column: Annotated[str, typer.Option(help="The column or key that holds the raw text.")] = "text",
    vocab_size: Annotated[int, typer.Option(help="Pieces to learn from raw text.")] = 8000,
    cased: Annotated[
        bool | None, typer.Option("--cased/--uncased", help="Keep upper case; by default only for tags.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out answers that do not stand where the file says.")
    ] = False,
    max_test: Annotated[int, typer.Option(min=1, help="Score at most so many examples.")] = 3000,
    as_json: Json = False,
) -> None:
    """Say which representation is worth its cost for your text and your labels.

    Example: firth compare classify --corpus news.txt --train train.tsv --dev dev.tsv --budget 30m --out compared
    """
    from firth import task_api
    from firth.cli.output import say, say_json
    from firth.cli.progress import progress_display
    from firth.core.errors import FirthError

    if not corpus or train is None or dev is None:
        raise FirthError("compare needs text to learn from and labelled examples: name --corpus, --train and --dev")
    found = task_api.compare(
        task,
        corpus=corpus,
        train=train,
        dev=dev,
        test=test,
        out=out,
        budget=budget,
        recipes=recipes,
        seeds=seeds,
        shares=parse_shares(shares),
        settings=settings or (),
        text=text,
        second=second,
        label=label,
        layout=layout,
        column=column,
        vocab_size=vocab_size,
        cased=cased,
        skip_bad=skip_bad,
        max_test=max_test,
        stage=lambda title: progress_display(title, as_json),
        note=None if as_json else say,
    )
    if as_json:
        say_json(found)
        return
    for line in task_api.compare_lines(found):
        say(line)
    if found["cached"]:
        say("nothing was trained: all of this was there already")
    say(f"report: {out}/report.html")
