"""Commands for tasks: finetune, predict."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, app

Text = Annotated[str | None, typer.Option(help="The column that holds the text (for tags: the words).")]
Second = Annotated[str | None, typer.Option(help="The column that holds the second text of a pair.")]
Label = Annotated[str | None, typer.Option(help="The column that holds the label, score or tag.")]


@app.command()
def finetune(
    task: Annotated[str, typer.Argument(help="classify, score, tag, answer or write.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="Any setting as key=value, for example learning_rate=3e-5 crf=true.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Labelled examples: tsv, csv, jsonl, CoNLL, SQuAD json.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Labelled examples on which the best epoch is chosen.")] = None,
    base: Annotated[
        str, typer.Option(help="A run, a Hugging Face directory, a file of vectors, or 'scratch' for none.")
    ] = "scratch",
    extra_vectors: Annotated[
        Path | None,
        typer.Option(help="Word vectors (a file or a run) that are read in addition to the base and do not learn."),
    ] = None,
    teacher: Annotated[
        Path | None, typer.Option(help="A run of the same task that the new, smaller one learns from.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Train so often with other seeds; the best is kept.  [default: 1]")
    ] = None,
    shares: Annotated[
        str | None, typer.Option(help="Learn from shares of the examples, for example 0.01,0.1,1; 3 seeds each.")
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Try BERT's published grid of settings; the best is kept.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="How often through the examples.")] = None,
    adapt_epochs: Annotated[
        float | None, typer.Option(help="First let the base read the task's text so often, with its own objective.")
    ] = None,
    text: Text = None,
    second: Second = None,
    label: Label = None,
    check: Annotated[bool, typer.Option("--check", help="Only look at the files: labels, lengths, problems.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out answers that do not stand where the file says.")
    ] = False,
    repair_tags: Annotated[bool, typer.Option("--repair-tags", help="Mend tags that their scheme forbids.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Teach a task to a representation: classes, scores, tags, answers, or (T5, UniLM) writing.

    Example: firth finetune classify --base runs/bert --train train.tsv --dev dev.tsv --out runs/mood
    """
    from firth import task_api
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import run_rows, task_rows
    from firth.cli.progress import progress_display
    from firth.core.errors import FirthError
    from firth.core.run import Run

    if train is None:
        raise FirthError("finetune needs labelled examples: name a file with --train")
    looked = task_api.check_task(
        task, train=train, dev=dev, text=text, second=second, label=label, skip_bad=skip_bad, settings=settings or ()
    )
    if check:
        if as_json:
            say_json({"check": looked})
        for line in [] if as_json else looked:
            say(line)
        return
    if out is None:
        raise FirthError("finetune needs a place for the run: name a folder with --out")
    if not as_json:
        for line in looked:
            say(line)
    with progress_display(task, as_json) as progress:
        task_api.finetune(
            task,
            base=base,
            extra_vectors=extra_vectors,
            teacher=teacher,
            train=train,
            dev=dev,
            out=out,
            settings=settings or (),
            seeds=seeds,
            sweep=sweep,
            shares=parse_shares(shares),
            epochs=epochs,
            adapt_epochs=adapt_epochs,
            text=text,
            second=second,
            label=label,
            skip_bad=skip_bad,
            repair_tags=repair_tags,
            overwrite=overwrite,
            progress=progress,
        )
    facts = Run.open(out).facts
    if as_json:
        say_json({"run": str(out), **facts})
        return
    say(f"{out}: trained")
    table(task_rows(facts) if facts["kind"] == "task" else run_rows(facts))
    if "interval" in facts or facts["kind"] != "task":
        say(f"report: {out}/report.html")
    if dev is None:
        say("how good it is was not measured: name labelled texts that it has not seen with --dev")
    say(f"next: firth predict {out} texts.txt, or try it in a browser: firth serve {out}")


def parse_shares(words: str | None) -> list[float]:
    from firth.core.errors import FirthError

    try:
        return [float(word) for word in (words or "").split(",") if word.strip()]
    except ValueError:
        raise FirthError(f"--shares '{words}': write numbers with commas between them, such as 0.01,0.1,1") from None


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="A run of firth finetune, or a Hugging Face directory with a task head.")],
    source: Annotated[
        str,
        typer.Argument(
            help="A file (a text a line; pairs with a tab between; or tsv, csv, jsonl, CoNLL, SQuAD json), or - for standard input."
        ),
    ],
    text: Text = None,
    second: Second = None,
    names: Annotated[
        Path | None,
        typer.Option(help="Of a tagger: write the distinct names it finds to this file, the most frequent first."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a task says about each text, one JSON line each, as it comes. Columns of tables are those that it was
    taught with, unless they are named.

    Example: firth predict runs/mood texts.txt > moods.jsonl
    """
    from firth import task_api
    from firth.cli.app import say, say_json

    if names is not None:
        from firth.core.files import write_text

        found_names = task_api.find_names(run, source, text)
        write_text(names, "".join(f"{name}\n" for name, _ in found_names))
        times = sum(count for _, count in found_names)
        if as_json:
            say_json({"out": str(names), "names": len(found_names), "times": times})
        else:
            say(f"{names}: {len(found_names):,} names, found {times:,} times")
        return
    for found in task_api.predict_file(run, source, text, second):
        say_json(found, indent=None)
