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
    from firth.cli.app import say, say_json
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


@app.command()
def probe(
    model: Annotated[Path, typer.Argument(help="A run, a Hugging Face directory or a file of vectors.")],
    pos: Annotated[Path | None, typer.Option(help="Sentences with parts of speech (CoNLL-U, columns, jsonl).")] = None,
    pos_test: Annotated[
        Path | None, typer.Option(help="The same for the test; without it every fifth sentence of --pos.")
    ] = None,
    tag: Annotated[str, typer.Option(help="Which tags of CoNLL-U: upos or xpos.")] = "upos",
    senses: Annotated[
        list[Path] | None, typer.Option(help="XML with senses (its key file beside it); may be given again.")
    ] = None,
    senses_test: Annotated[
        list[Path] | None, typer.Option(help="The same for the test; without it every fifth of --senses.")
    ] = None,
    first_senses: Annotated[
        Path | None, typer.Option(help="First senses for words not in training: WordNet's index.sense.")
    ] = None,
    texts: Annotated[Path | None, typer.Option(help="Text for perplexity and attention.")] = None,
    similarity: Annotated[list[Path] | None, typer.Option(help="For static vectors: a word-similarity file.")] = None,
    analogies: Annotated[list[Path] | None, typer.Option(help="For static vectors: an analogy file.")] = None,
    language: Annotated[str, typer.Option(help="Of the small sample used where files are missing: en or zh.")] = "en",
    most: Annotated[int, typer.Option(min=1, help="Most words of a file that a probe reads.")] = 20_000,
    sentences: Annotated[int, typer.Option(min=1, help="Most sentences for perplexity and attention.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the control task and the probes.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html and probe.json; for a run of Firth RUN/probe.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask each layer of a model what it knows: parts of speech, senses, attention, beside baselines.

    Example: firth probe runs/bert --pos train.conllu --pos-test test.conllu
    """
    from firth import api
    from firth.cli.app import say, say_json
    from firth.cli.progress import progress_display

    with progress_display("probing", as_json) as progress:
        found = api.probe(
            model,
            pos=pos,
            pos_test=pos_test,
            tag=tag,
            senses=senses or (),
            senses_test=senses_test or (),
            first_senses=first_senses,
            texts=texts,
            similarity=similarity or (),
            analogies=analogies or (),
            language=language,
            most=most,
            num_texts=sentences,
            seed=seed,
            out=out,
            progress=progress,
        )
    if as_json:
        say_json({"model": str(model), **found})
        return
    for line in api.probe_table(found):
        say(line)


@app.command()
def occurrences(
    model: Annotated[Path, typer.Argument(help="A run or model: ELMo, BERT, any that gives vectors for words.")],
    corpus: Annotated[Path, typer.Argument(help="A corpus, or a file of text; its sentences are searched.")],
    sentence: Annotated[str, typer.Argument(help="A sentence with the word in it.")],
    word: Annotated[str, typer.Option(help="The word that is meant.")],
    top: Annotated[int, typer.Option(min=1, help="How many occurrences.")] = 10,
    layer: Annotated[int, typer.Option(help="Which layer: 0 is the token layer, -1 the last.")] = -1,
    sentences: Annotated[int, typer.Option(min=1, help="How many sentences to read; held-out ones come first.")] = 2000,
    same_word: Annotated[bool, typer.Option("--same-word", help="Only occurrences of the word itself.")] = False,
    as_json: Json = False,
) -> None:
    """Show where a corpus uses words most like a word in this sentence: senses come apart.

    Example: firth occurrences runs/elmo corpora/words "She sat on the bank of the river." --word bank
    """
    from firth import api
    from firth.cli.app import say, say_json

    found = api.occurrences(
        model, corpus, sentence, word, top=top, layer=layer, num_sentences=sentences, same_word=same_word
    )
    if as_json:
        say_json([vars(one) for one in found])
        return
    for one in found:
        marked = f"{one.sentence[: one.start]}[{one.word}]{one.sentence[one.end :]}"
        say(f"  {one.score:.4f}  {' '.join(marked.split())}")
