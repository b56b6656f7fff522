"""Commands that look at what is there: info, evaluate, convert."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, Template, app, written
from firth.cli.task_commands import Label, Second, Text
from firth.core.errors import FirthError


@app.command()
def info(
    path: Annotated[Path, typer.Argument(help="A corpus, a run or a Hugging Face directory.")],
    as_json: Json = False,
) -> None:
    """Show what a corpus or a run is, and check that its files are whole."""
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import describe

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
    similarity: Annotated[
        list[Path] | None,
        typer.Option(help="For static vectors: a word-similarity file (two words and a score a line)."),
    ] = None,
    analogies: Annotated[
        list[Path] | None, typer.Option(help="For static vectors: an analogy file (four words a line).")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="For tasks: a labelled file.")] = None,
    examples: Annotated[
        Path | None, typer.Option(help="For decoders: labelled texts to show first, nothing is trained; with --data.")
    ] = None,
    template: Template = None,
    text: Text = None,
    second: Second = None,
    label: Label = None,
    limit: Annotated[int | None, typer.Option(help="Answer analogies among the first so many words only.")] = None,
    source: Annotated[Path | None, typer.Option(help="For translators: a file of sentences, one a line.")] = None,
    reference: Annotated[Path | None, typer.Option(help="For translators: their translations by people.")] = None,
    beams: Annotated[int, typer.Option(min=1, help="For translators: the width of the beam.")] = 5,
    as_json: Json = False,
) -> None:
    """Measure a run: on held-out text, a task on labelled texts (columns are those it was taught with, unless they are
    named), or static vectors on similarity and analogy files.

    Example: firth evaluate runs/bert
    """
    from firth import api
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import word_rows

    if examples is not None and data is None:
        raise FirthError("--examples are shown before the texts of a labelled file: name that with --data FILE")
    if template is not None and examples is None:
        raise FirthError("--template says how examples are written: name them with --examples FILE")
    if data is not None:
        from firth import task_api

        if examples is None:
            measured = task_api.evaluate_task(run, data, text, second, label)
        else:
            measured = task_api.evaluate_prompt(run, examples, data, written(template), text, label)
        if as_json:
            say_json({"run": str(run), "data": str(data), **measured})
            return
        say(f"{run}: on {data}")
        between = measured.pop("interval")
        rows = [
            (name.replace("_", " "), f"{value:.4f}" if isinstance(value, float) else str(value))
            for name, value in measured.items()
        ]
        table([*rows, (f"{between['metric']}, 95 %", f"{between['low']:.4f} to {between['high']:.4f}")])
        return
    if similarity or analogies:
        scores = api.evaluate_words(run, similarity or (), analogies or (), limit)
        if as_json:
            say_json({"run": str(run), **scores})
        else:
            say(f"{run}: on words")
            table(word_rows(scores))
        return

    if (source is None) != (reference is None):
        raise FirthError("--source and --reference belong together: name both files")
    if source is not None and reference is not None:
        found = api.evaluate_translations(run, source, reference, beams)
    else:
        found = api.evaluate(run, corpus, texts)
    if as_json:
        say_json({"run": str(run), **found})
        return
    say(f"{run}: on {source or 'held-out text'}")
    shown = {name: value if isinstance(value, str) else f"{value:.4f}" for name, value in found.items()}
    table([(name.replace("_", " "), value) for name, value in shown.items()])


@app.command()
def convert(
    model: Annotated[
        Path, typer.Argument(help="A run or file of static vectors, an encoder, a task on one, or a translator.")
    ],
    out: Annotated[
        Path,
        typer.Argument(help="The file to write: .bin, .vec, .txt, .tsv or .safetensors; for --to the folder."),
    ],
    to: Annotated[
        str | None, typer.Option(help="The format, where the ending does not say it; onnx or ctranslate2.")
    ] = None,
    int8: Annotated[
        bool,
        typer.Option("--int8", help="Store a byte a number (safetensors), and compute with them (onnx, ctranslate2)."),
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the exported model with the original.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Labelled examples on which both are scored, or sentences to translate.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write static vectors in another format, an encoder or task as ONNX, a translator for CTranslate2.

    Example: firth convert runs/bert exported --to onnx --int8 --verify
    """
    from firth import api
    from firth.cli.app import say, say_json, table

    found = api.convert(model, out, to, int8, verify, data)
    if as_json:
        say_json({"out": str(out), **found})
        return
    say(f"{out}: written")
    if "verified" in found:
        from firth.cli.describe import export_rows

        table(export_rows(found))
