"""Commands that make something: prepare, pretrain, plan, quickstart."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, app


@app.command()
def prepare(
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Text files, folders or globs (txt, jsonl, csv, tsv, parquet; also .gz, .zst and .zip), or - for standard input."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The corpus folder to make.")],
    tokens: Annotated[str, typer.Option(help="wordpiece, bpe, unigram, words or characters.")] = "wordpiece",
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
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import corpus_rows
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
    kind = info.tokens.kind
    say(f"{out}: a corpus of {kind}")
    table(corpus_rows(info))
    if kind == "words":
        say(f"next: firth pretrain word2vec --corpus {out} --out runs/word2vec")
    else:
        recipe = {"bpe": "gpt-tiny", "characters": "gpt-char"}.get(kind, "bert-tiny")
        say(f"next: firth pretrain {recipe} --corpus {out} --out runs/{recipe[: recipe.index('-')]} --budget 10m")


@app.command()
def pretrain(
    recipe: Annotated[
        str | None, typer.Argument(help="For example bert-tiny, bert-base, lstm-lm, elmo-tiny, word2vec.")
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
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import run_rows
    from firth.cli.progress import progress_display
    from firth.core.run import Run

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
    if facts.get("kind") == "vectors":
        say(f"next: firth nearest {folder} WORD")
    elif facts.get("uses"):
        say(f"next: firth {facts['uses'][0].format(name=folder)}")


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
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import plan_rows

    found = api.plan(recipe, corpus=corpus, budget=budget, settings=settings or ())
    if as_json:
        say_json({"recipe": recipe, "budget": budget, **found})
        return
    say(f"{recipe} for {budget} on this machine")
    table(plan_rows(found))


@app.command()
def quickstart(
    folder: Annotated[Path, typer.Option(help="Where to put everything.")] = Path("quickstart"),
    lang: Annotated[str, typer.Option(help="en or zh.")] = "en",
    budget: Annotated[str, typer.Option(help="How long all trainings may take together.")] = "5m",
    as_json: Json = False,
) -> None:
    """Do the main job once, on text that is already here: compare representations, fill in masked words."""
    from firth.cli.quickstart import run_quickstart

    run_quickstart(folder, lang, budget, as_json)
