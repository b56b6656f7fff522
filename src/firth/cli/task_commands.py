"""Commands for tasks: finetune, predict."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.main import (
    TRAIN,
    USE,
    Address,
    Cores,
    Dev,
    Encoding,
    Engine,
    Json,
    Label,
    LabelSeparator,
    MinConfidence,
    Out,
    Overwrite,
    Second,
    Settings,
    Shares,
    ShownExamples,
    SkipBad,
    Template,
    Tensorboard,
    Text,
    Train,
    app,
    parse_shares,
    written,
)

if TYPE_CHECKING:
    from firth.tasks.data import Reading
    from firth.tasks.run import Source

TaskBase = Annotated[
    str,
    typer.Option(
        help="A run, a Hugging Face directory, a file of vectors, 'counts' (TF-IDF), 'fasttext' (its classifier), or 'scratch' for none."
    ),
]
ExtraVectors = Annotated[
    Path | None,
    typer.Option(
        help="Frozen word vectors (a file or a run) as additional input; with --base fasttext the initial word vectors."
    ),
]
Teacher = Annotated[
    Path | None, typer.Option(help="A run of the same task for knowledge distillation into the new, smaller model.")
]
Seeds = Annotated[
    int | None,
    typer.Option(
        min=1, help="The number of trainings with different seeds; the best is kept.  [default: 1; 3 for shares]"
    ),
]
Sweep = Annotated[
    bool,
    typer.Option(
        "--sweep",
        help="Try a grid of settings: those with several values (epochs=5,20), else the usual one for the base.",
    ),
]
AdaptEpochs = Annotated[
    float | None, typer.Option(help="First continue pre-training on the task's text for so many epochs.")
]
Unlabelled = Annotated[
    Path | None,
    typer.Option(
        help="Texts of the task without labels: the base first continues pre-training on them, in a third of the budget."
    ),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Only check the files: labels, lengths, problems and what to do; 2 if refused."),
]
Budget = Annotated[
    str | None, typer.Option(help="Time for all that is tried in a training, such as 90s or 10m.  [default: 10m]")
]
Folds = Annotated[
    int | None, typer.Option(min=2, help="Without --dev: judge by cross-validation in so many folds, with the spread.")
]
Suspects = Annotated[
    Path | None,
    typer.Option(help="With --check: write the examples whose label is probably wrong (.tsv, .csv, .jsonl, .parquet)."),
]
RepairTags = Annotated[bool, typer.Option("--repair-tags", help="Repair tag sequences that violate their scheme.")]
TaskRun = Annotated[
    Path,
    typer.Argument(
        help="A run of firth finetune, a Hugging Face directory with a task head, or a fastText classifier (.bin, .ftz)."
    ),
]
File = Annotated[
    str,
    typer.Argument(
        help="A file (a text per line; pairs with a tab between; or tsv, csv, jsonl, parquet, CoNLL, SQuAD json), - for standard input, or a text."
    ),
]
TableOut = Annotated[
    Path | None,
    typer.Option(help="Write the table with label and probabilities as new columns (.csv, .tsv, .jsonl, .parquet)."),
]
Names = Annotated[
    Path | None,
    typer.Option(help="Of a tagger: write the distinct names it finds to this file, the most frequent first."),
]


@app.command(rich_help_panel=TRAIN)
def finetune(
    task: Annotated[str, typer.Argument(help="classify, score, tag, answer, embed or write.")],
    settings: Settings = None,
    train: Train = None,
    dev: Dev = None,
    base: TaskBase = "scratch",
    extra_vectors: ExtraVectors = None,
    teacher: Teacher = None,
    out: Out = None,
    seeds: Seeds = None,
    shares: Shares = None,
    sweep: Sweep = False,
    epochs: Annotated[int | None, typer.Option(help="Passes over the examples.")] = None,
    budget: Budget = None,
    folds: Folds = None,
    adapt_epochs: AdaptEpochs = None,
    unlabelled: Unlabelled = None,
    text: Text = None,
    second: Second = None,
    label: Label = None,
    label_separator: LabelSeparator = None,
    encoding: Encoding = None,
    check: Check = False,
    suspects: Suspects = None,
    skip_bad: SkipBad = False,
    repair_tags: RepairTags = False,
    overwrite: Overwrite = False,
    tensorboard: Tensorboard = False,
    engine: Engine = "local",
    address: Address = None,
    cores: Cores = 1,
    as_json: Json = False,
) -> None:
    """Fine-tune a model on labelled examples: classes, scores, tags, answers, or (T5, UniLM) writing.

    Example: firth finetune classify --base runs/bert --train train.tsv --dev dev.tsv --out runs/mood
    """
    from firth.api.tasks import check_names, of_images, start_task
    from firth.cli.progress import progress_display
    from firth.core.config import cluster_for, collect, parse_settings
    from firth.core.errors import FirthError

    given = parse_settings(settings or ())
    check_names(task, given, base)
    from firth.tasks.data import Reading
    from firth.tasks.run import Source
    from firth.training.checkpoints import event_files

    train = _required(train, "finetune needs labelled examples: name a file with --train")
    reading = Reading(text, second, label, skip_bad, repair_tags, encoding, label_separator)
    if suspects is not None and not check:
        raise FirthError("--suspects says what --check finds: add --check")
    if of_images(train, base):
        _check_images(Source(base, train, dev, reading), check, as_json)
    elif check or task in ("embed", "write"):
        _check_files(task, train, dev, reading, given, check, suspects, as_json, base)
    if check:
        return
    out = _required(out, "finetune needs a place for the run: name a folder with --out")
    source = Source(base, train, dev, reading, extra_vectors, teacher, unlabelled)
    named = collect(given, {}, epochs=epochs, budget=budget, folds=folds, adapt_epochs=adapt_epochs)
    with progress_display(task, as_json) as progress, event_files(out if tensorboard else None):
        cluster = cluster_for(engine, address, cores)
        start_task(task, named, source, out, seeds, sweep, parse_shares(shares), overwrite, progress, cluster)
    _say_finetuned(out, dev is not None, as_json)


def _required(path: Path | None, message: str) -> Path:
    from firth.core.errors import FirthError

    if path is None:
        raise FirthError(message)
    return path


def _check_files(
    task: str,
    train: Path,
    dev: Path | None,
    reading: "Reading",
    settings: Mapping[str, object],
    only: bool,
    suspects: Path | None,
    as_json: bool,
    base: str,
) -> None:
    """Prints what is in the labelled files."""
    from firth.cli.main import say, say_json
    from firth.tasks.suspects import check_files

    found = check_files(task, train, dev, reading, settings, only, suspects, base)
    if as_json and only:
        say_json({"check": found.lines, "refused": found.refused})
    for line in [] if as_json else found.lines:
        say(line)
    if only and found.refused:
        raise typer.Exit(2)


def _check_images(source: "Source", only: bool, as_json: bool) -> None:
    """Prints what images there are."""
    from firth.cli.main import say, say_json
    from firth.tasks.images import check_images

    lines = check_images(source, closely=only)
    if as_json and only:
        say_json({"check": lines, "refused": False})
    for line in [] if as_json else lines:
        say(line)


def _say_finetuned(folder: Path, is_measured: bool, as_json: bool) -> None:
    """Prints the result and the next command."""
    from firth.cli.describe import judged_part, label_warnings, run_rows
    from firth.cli.main import say, say_json, say_wrapped, table
    from firth.core.registry import find_spec
    from firth.core.run import Run

    record = Run.open(folder).record
    if as_json:
        say_json({"run": str(folder), **record.model_dump(mode="json")})
        return
    say(f"{folder}: trained")
    table(run_rows(record))
    chosen = None if record.task is None else record.task.chosen
    if record.task is not None and chosen is not None:
        learned = record.recipe == "classify"
        for warning in label_warnings(
            chosen.by_label, learned, *judged_part(record.task), dev=chosen.interval is not None
        ):
            say_wrapped(warning, others="  ")
    if (folder / "report.html").is_file():
        say(f"report: {folder}/report.html")
    if not is_measured and not (chosen is not None and chosen.candidates):
        say("not evaluated: name held-out labelled texts with --dev")
    if record.uses:
        say(f"next: firth {record.uses[0].format(name=shlex.quote(str(folder)))}")
        return
    asked = "photo.jpg" if find_spec(record.model).reads_images else "texts.txt"
    quoted = shlex.quote(str(folder))
    say(f"next: firth predict {quoted} {asked}")
    say(f"or in a browser: firth serve {quoted}")


@app.command(rich_help_panel=USE)
def predict(
    run: TaskRun,
    file: File,
    text: Text = None,
    second: Second = None,
    encoding: Encoding = None,
    out: TableOut = None,
    min_confidence: MinConfidence = None,
    names: Names = None,
    examples: ShownExamples = None,
    template: Template = None,
    engine: Engine = "local",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Print the prediction for each text as a line of JSON, or add it to a table (--out). The columns of tables are those of
    the training file, unless they are named.

    Example: firth predict runs/mood reviews.csv --out scored.csv
    """
    from firth.api import tasks
    from firth.cli.main import is_text, say_json
    from firth.core.errors import FirthError

    if out is not None and (names is not None or examples is not None or template is not None):
        raise FirthError("--out writes a table: leave out --names, --examples and --template")
    if out is not None:
        _write_table(run, file, out, (text, second, encoding), min_confidence, as_json, engine, address)
        return
    if names is not None:
        _write_names(run, file, text, names, as_json)
        return
    said = written(template)
    if is_text(file):
        for found in tasks.predict(
            run, [_given_text(file)], min_confidence=min_confidence, examples=examples, template=said
        ):
            say_json(found, indent=None)
        return
    for found in tasks.predict(
        run,
        file=file,
        text=text,
        second=second,
        encoding=encoding,
        min_confidence=min_confidence,
        examples=examples,
        template=said,
        engine=engine,
        address=address,
    ):
        say_json(found, indent=None)


def _given_text(words: str) -> str | tuple[str, ...]:
    """A text of the command line; a tab parts two."""
    parts = tuple(words.replace("\\t", "\t").split("\t"))
    return words if len(parts) == 1 else parts


def _write_table(
    run: Path,
    file: str,
    out: Path,
    reading: tuple[str | None, str | None, str | None],
    min_confidence: float | None,
    as_json: bool,
    engine: str,
    address: str | None,
) -> None:
    from firth.api import tasks
    from firth.cli.main import say_json, say_wrapped

    text, second, encoding = reading
    found = tasks.predict(
        run,
        file=file,
        out=out,
        text=text,
        second=second,
        encoding=encoding,
        min_confidence=min_confidence,
        engine=engine,
        address=address,
    )
    if as_json:
        say_json({"out": str(out), "rows": found.rows, "columns": list(found.columns)})
    else:
        say_wrapped(f"{out}: {found.rows:,} rows, new columns {', '.join(found.columns)}", others="  ")


def _write_names(run: Path, file: str, text: str | None, out: Path, as_json: bool) -> None:
    """Writes the distinct names that a tagger finds, one per line."""
    from firth.api.using import load_trained_task
    from firth.cli.main import say, say_json
    from firth.core.files import write_text
    from firth.tasks.predict import find_names

    found = find_names(load_trained_task(run), run, file, text)
    write_text(out, "".join(f"{name}\n" for name, _ in found))
    times = sum(count for _, count in found)
    if as_json:
        say_json({"out": str(out), "names": len(found), "times": times})
    else:
        say(f"{out}: {len(found):,} names, found {times:,} times")


@app.command(rich_help_panel=USE)
def suggest(
    run: TaskRun,
    pool: Annotated[str, typer.Argument(help="A file of texts without labels (a text per line, or a table).")],
    num: Annotated[int, typer.Option(min=1, help="How many texts.")] = 50,
    out: Annotated[
        Path | None, typer.Option(help="Write a table to be filled in (.tsv, .csv, .jsonl, .parquet).")
    ] = None,
    text: Text = None,
    second: Second = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Choose texts that are worth labelling next: those that a classifier is unsure of and that differ from each other.

    Example: firth suggest runs/mood unlabelled.txt --num 20 --out to_label.tsv
    """
    from dataclasses import asdict

    from firth.api import tasks
    from firth.cli.main import say_json, say_wrapped

    found = tasks.suggest(run, pool, num=num, out=out, text=text, second=second, encoding=encoding)
    if as_json:
        say_json([asdict(one) for one in found])
    elif out is not None:
        say_wrapped(f"{out}: {len(found):,} texts; fill in the labels, then add them to the training file", others="  ")
    else:
        for one in found:
            guessed = one.predicted if isinstance(one.predicted, str) else ", ".join(one.predicted) or "none"
            say_wrapped(
                " ".join(one.text[:240].split()),
                f"{one.uncertainty:.2f}  {guessed} ({one.probability:.2f})  ",
                "      ",
            )
