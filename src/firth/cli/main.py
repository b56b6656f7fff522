"""The command line. Each command says what it does here; the work is in ``firth.api``.

Nothing heavy is imported before a command needs it, so that ``firth --help`` is instant.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from firth.core.errors import FirthError, Interrupted

app = typer.Typer(
    help="Language-representation models, from raw text to a finished task, on the machine you have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@app.callback()
def _settings(debug: Debug = False) -> None:
    """``--debug`` is taken out of the words before, so that it may stand anywhere."""


@app.command()
def prepare(
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Text files, folders or globs (txt, jsonl, csv, tsv, parquet; also .gz and .zst), or - for standard input."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The corpus folder to make.")],
    tokens: Annotated[str, typer.Option(help="wordpiece, bpe, unigram or words.")] = "wordpiece",
    vocab_size: Annotated[int, typer.Option(help="Pieces to learn (not for words: all are kept).")] = 8000,
    cased: Annotated[bool, typer.Option("--cased", help="Keep upper case and accents.")] = False,
    byte_fallback: Annotated[
        bool, typer.Option("--byte-fallback", help="Spell unknown words in bytes, so that nothing becomes [UNK].")
    ] = False,
    word_split: Annotated[
        str, typer.Option(help="For words: 'words' finds them, 'whitespace' takes the text as split already.")
    ] = "words",
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Use this tokenizer (folder, tokenizer.json, vocab.txt) instead of learning one."),
    ] = None,
    format: Annotated[str, typer.Option(help="txt, jsonl, csv, tsv or parquet; auto goes by the name.")] = "auto",
    layout: Annotated[
        str,
        typer.Option(
            help="Of txt: file (one document), blank (a sentence a line, blank lines between documents), line (a document a line); auto looks."
        ),
    ] = "auto",
    column: Annotated[str, typer.Option(help="The column or key that holds the text.")] = "text",
    encoding: Annotated[str, typer.Option(help="The encoding of the files.")] = "utf-8",
    heldout: Annotated[
        float | None, typer.Option(help="Share of documents kept for testing; by default 0.01, or 0.05 below 20 MB.")
    ] = None,
    deduplicate: Annotated[
        bool, typer.Option("--deduplicate", help="Leave out documents that were there before, letter for letter.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes; by default one a core. The result does not depend on it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Turn raw text into a corpus that every model trains on.

    Example: firth prepare news/*.txt --out corpora/news
    """
    from firth import api
    from firth.cli.describe import corpus_rows
    from firth.cli.output import say, say_json, table
    from firth.cli.progress import progress_display

    with progress_display("prepare", as_json) as progress:
        info = api.prepare(
            inputs,
            out,
            tokens=tokens,
            vocab_size=vocab_size,
            lowercase=not cased,
            byte_fallback=byte_fallback,
            word_split=word_split,
            tokenizer=tokenizer,
            format=format,
            layout=layout,
            column=column,
            encoding=encoding,
            heldout=heldout,
            deduplicate=deduplicate,
            workers=workers,
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        say_json({"corpus": str(out), **info.model_dump(exclude={"checksums"})})
        return
    say(f"{out}: a corpus of {tokens}")
    table(corpus_rows(info))
    if tokens != "words":
        say(f"next: firth pretrain bert-tiny --corpus {out} --out runs/bert --budget 10m")


@app.command()
def pretrain(
    recipe: Annotated[
        str | None, typer.Argument(help="For example bert-tiny, bert-mini, bert-small, bert-base.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(help="Any setting as key=value, for example model.num_layers=3.")
    ] = None,
    corpus: Annotated[Path | None, typer.Option(help="A corpus made by firth prepare.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.")] = None,
    budget: Annotated[str | None, typer.Option(help="How long to train, for example 20m or 1h30m.")] = None,
    steps: Annotated[int | None, typer.Option(help="Or: how many steps.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Or: how often through the corpus (default 1).")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same result.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 and so on.")] = None,
    base: Annotated[
        Path | None,
        typer.Option("--from", help="Begin with the weights of this model (a run or a Hugging Face BERT directory)."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with a run that was stopped; nothing else is needed.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Pre-train a model on a corpus, within a time budget if you name one.

    Example: firth pretrain bert-mini --corpus corpora/news --out runs/bert --budget 20m
    """
    from firth import api
    from firth.cli.describe import run_rows
    from firth.cli.output import say, say_json, table
    from firth.cli.progress import progress_display
    from firth.core.runs import Run

    with progress_display(recipe or "pretrain", as_json) as progress:
        api.pretrain(
            recipe,
            corpus=corpus,
            out=out,
            settings=settings or (),
            base=base,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
            budget=budget,
            steps=steps,
            epochs=epochs,
            seed=seed,
            device=device,
        )
    folder = resume or out
    assert folder is not None
    facts = Run.open(folder).facts
    if as_json:
        say_json({"run": str(folder), **facts})
        return
    say(f"{folder}: trained")
    table(run_rows(facts))
    say(f"report: {folder}/report.html")
    say(f'next: firth fill {folder} "A sentence with a [MASK] in it."')


@app.command()
def fill(
    run: Annotated[Path, typer.Argument(help="A run or a Hugging Face BERT directory.")],
    texts: Annotated[
        list[str], typer.Argument(help="Sentences with [MASK] in them; - reads them from standard input, one a line.")
    ],
    top: Annotated[int, typer.Option(min=1, help="How many guesses for each.")] = 5,
    as_json: Json = False,
) -> None:
    """Guess the masked words of a sentence.

    Example: firth fill runs/bert "The film was [MASK]."
    """
    from firth import api
    from firth.cli.encode_texts import stdin_lines
    from firth.cli.output import say, say_json

    lines = [line for word in texts for line in (stdin_lines() if word == "-" else [word]) if line.strip()]
    if not lines:
        raise FirthError("no sentence given: write one with [MASK] in it")
    if any("\ud800" <= char <= "\udfff" for line in lines for char in line):
        raise FirthError("a sentence is not UTF-8: write it in a terminal that uses UTF-8, or pipe it in")
    model = api.load(run)
    results = [(line, model.fill(line, top)) for line in lines]
    if as_json:
        say_json(
            [{"text": line, "masks": [[vars(guess) for guess in mask] for mask in masks]} for line, masks in results]
        )
        return
    for line, masks in results:
        say(line)
        for guesses in masks:
            say("  " + "  ".join(f"{guess.token} {guess.probability:.1%}" for guess in guesses))


@app.command()
def encode(
    run: Annotated[Path, typer.Argument(help="A run or a Hugging Face BERT directory.")],
    texts: Annotated[
        str,
        typer.Argument(help="A file with one text a line (or any format that prepare reads), or - for standard input."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Write float32 vectors to this .npy file; without it, one JSON line a text is printed."),
    ] = None,
    layer: Annotated[int, typer.Option(help="Which layer: 0 is the token layer, -1 the last.")] = -1,
    pool: Annotated[str, typer.Option(help="mean, cls or max.")] = "mean",
    column: Annotated[str, typer.Option(help="The column or key that holds the text.")] = "text",
    as_json: Json = False,
) -> None:
    """Turn texts into vectors.

    Example: firth encode runs/bert texts.txt --out vectors.npy
    """
    import json

    from firth import api
    from firth.cli.encode_texts import read_texts, write_vectors
    from firth.cli.output import say, say_json

    lines = read_texts(texts, column)
    model = api.load(run)
    if out is None:
        for text in lines:
            say(json.dumps({"text": text, "vector": model.encode([text], layer, pool)[0].tolist()}, ensure_ascii=False))
        return
    shape = write_vectors(model, lines, out, layer, pool)
    if as_json:
        say_json({"out": str(out), "texts": shape[0], "dim": shape[1]})
    else:
        say(f"{out}: {shape[0]:,} vectors of {shape[1]} numbers")


@app.command()
def info(
    path: Annotated[Path, typer.Argument(help="A corpus, a run or a Hugging Face directory.")],
    as_json: Json = False,
) -> None:
    """Show what a corpus or a run is, and check that its files are whole."""
    from firth.cli.describe import describe
    from firth.cli.output import say, say_json, table

    kind, rows, facts = describe(path)
    if as_json:
        say_json({"path": str(path), "kind": kind, **facts})
        return
    say(f"{path}: {kind}")
    table(rows)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A finished run.")],
    corpus: Annotated[
        Path | None, typer.Option(help="Test on the held-out part of this corpus; by default the run's own.")
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Sentences for the pseudo-perplexity.")] = 50,
    as_json: Json = False,
) -> None:
    """Measure a run on held-out text.

    Example: firth evaluate runs/bert
    """
    from firth import api
    from firth.cli.output import say, say_json, table

    found = api.evaluate(run, corpus, texts)
    if as_json:
        say_json({"run": str(run), **found})
        return
    say(f"{run}: on held-out text")
    table([(name.replace("_", " "), f"{value:.4f}") for name, value in found.items()])


@app.command()
def plan(
    recipe: Annotated[str, typer.Argument(help="For example bert-mini.")],
    settings: Annotated[list[str] | None, typer.Argument(help="Any setting as key=value.")] = None,
    corpus: Annotated[Path, typer.Option(help="A corpus made by firth prepare.")] = Path("corpus"),
    budget: Annotated[str, typer.Option(help="How long you would train, for example 1h.")] = "1h",
    as_json: Json = False,
) -> None:
    """Say what a pre-training run would need and reach on this machine, before it is begun.

    Example: firth plan bert-mini --corpus corpora/news --budget 1h
    """
    from firth import api
    from firth.cli.describe import plan_rows
    from firth.cli.output import say, say_json, table

    found = api.plan(recipe, corpus=corpus, budget=budget, settings=settings or ())
    if as_json:
        say_json({"recipe": recipe, "budget": budget, **found})
        return
    say(f"{recipe} for {budget} on this machine")
    table(plan_rows(found))


@app.command()
def quickstart(
    folder: Annotated[Path, typer.Option(help="Where to put the corpus and the run.")] = Path("quickstart"),
    lang: Annotated[str, typer.Option(help="en or zh.")] = "en",
    budget: Annotated[str, typer.Option(help="How long to pre-train.")] = "150s",
) -> None:
    """Do the main job once, on text that is already here: prepare, pre-train, fill in masked words."""
    from firth.cli.quickstart import run_quickstart

    run_quickstart(folder, lang, budget)


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; the user's mistakes become one sentence and exit code 2."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    try:
        app([word for word in words if word != "--debug"], prog_name="firth", standalone_mode=False)
    except Exception as error:
        code = _exit_code(error)
        if debug or code is None:
            raise
        sys.exit(code)


def _exit_code(error: Exception) -> int | None:
    """Says what is wrong; None for an error that is Firth's own."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        return 0
    if isinstance(error, typer.Abort):
        sys.stderr.write("firth: stopped; run the same command again to go on or start over\n")
        return 130
    if isinstance(error, OSError) and error.errno is not None:
        error = FirthError(f"{error.filename or 'a file'}: {error.strerror}; check the path and your permissions")
    usage = getattr(error, "format_message", None)
    if not isinstance(error, FirthError) and usage is None:
        return None
    message = str(error) if usage is None else f"{usage()} (see firth --help)"
    if usage is None or usage():  # no arguments at all: the help was shown
        sys.stderr.write(f"firth: {' '.join(message.split())}\n")
    return 130 if isinstance(error, Interrupted) else 2
