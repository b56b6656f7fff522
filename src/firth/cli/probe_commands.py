"""The command that asks what is inside a model: probe."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, app


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
    from firth.cli.output import say, say_json
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
