"""Commands on one's own documents: index, search, topics, duplicates."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.main import USE, Address, Engine, Json, Top, app
from firth.core.errors import FirthError

if TYPE_CHECKING:
    from firth.retrieval.search import Hit

Documents = Annotated[
    list[str] | None,
    typer.Argument(
        help="Text files, folders or globs (txt, jsonl, csv, tsv, parquet; also .gz, .zst and .zip).",
        show_default=False,
    ),
]
TextColumn = Annotated[
    str, typer.Option(help="The column or key that holds the text; without a text, one of another usual name.")
]
IndexPath = Annotated[Path, typer.Argument(help="A folder that firth index made.")]
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


@app.command(rich_help_panel=USE)
def index(
    inputs: Documents = None,
    out: Annotated[Path, typer.Option(help="The folder of the index, new or not.")] = Path("index"),
    model: Annotated[
        Path | None, typer.Option(help="The model of the vectors; without one the index finds words only.")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option(help="Take out a document by its id, or all of a file by its name.")
    ] = None,
    column: TextColumn = "text",
    id: Annotated[
        str | None, typer.Option(help="The column that names a document.  [default: file:line or file#row]")
    ] = None,
    format: Annotated[
        str, typer.Option(help="txt, jsonl, csv, tsv or parquet; auto decides by the file name.")
    ] = "auto",
    layout: Annotated[str, typer.Option(help="Of txt: file, blank or line; auto decides by the content.")] = "auto",
    encoding: Annotated[str, typer.Option(help="The encoding of the files.")] = "utf-8",
    passage_size: Annotated[int, typer.Option(help="Words (or Chinese characters) of a passage.")] = 160,
    overlap: Annotated[int, typer.Option(help="Sentences that a passage repeats of the one before.")] = 1,
    engine: Engine = "local",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Make documents searchable, by words and, with a model, by meaning.

    Run it again to add documents and to replace those that have changed.

    Example: firth index notes/ --model runs/sentences --out indexes/notes
    """
    from firth.api import searching
    from firth.cli.main import say, say_json
    from firth.cli.progress import progress_display

    with progress_display("index", as_json) as progress:
        found = searching.index(
            inputs or [],
            out,
            model=model,
            delete=delete or (),
            column=column,
            id=id,
            format=format,
            layout=layout,
            encoding=encoding,
            passage_size=passage_size,
            overlap=overlap,
            engine=engine,
            address=address,
            progress=progress,
        )
    if as_json:
        say_json({"index": str(out), **asdict(found)})
        return
    done = [
        f"{count:,} {name}" for name in ("added", "replaced", "unchanged", "deleted") if (count := getattr(found, name))
    ]
    say(f"{out}: {', '.join(done) or 'nothing new'}; {found.documents:,} documents, {found.passages:,} passages")
    if found.note:
        say(found.note)
    if found.documents:
        say(f'next: firth search {out} "your question"')


@app.command(rich_help_panel=USE)
def search(
    index: IndexPath,
    question: Annotated[str, typer.Argument(help="A question, or some words; - reads one a line from standard input.")],
    top: Top = 5,
    mode: Annotated[str, typer.Option(help="words, vectors, both; auto takes both where there are vectors.")] = "auto",
    where: Annotated[
        list[str] | None, typer.Option(help="A condition on a column, such as year>=1998 or language=en.")
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(help="How much vectors count against words, 0 to 1.  [default: what suited the documents]"),
    ] = None,
    passages: Annotated[bool, typer.Option("--passages", help="All passages of a document, not its best one.")] = False,
    answer: Annotated[
        Path | None, typer.Option(help="A run of finetune answer that marks the answer in each passage.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the passages of an index that answer a question best.

    Example: firth search indexes/notes "Who repaired the clock?"
    """
    from firth.api import searching
    from firth.api.searching import open_for_search
    from firth.api.using import load
    from firth.cli.main import say, say_json
    from firth.cli.use_commands import full_stdin_lines

    questions = full_stdin_lines() if question == "-" else [question]
    if not questions:
        raise FirthError("no question given: write one, or one a line")
    opened, task = open_for_search(index), None if answer is None else load(answer)
    for number, one in enumerate(questions):
        found = searching.search(
            opened, one, top=top, mode=mode, where=where or (), weight=weight, passages=passages, answer=task
        )
        if as_json:
            say_json({"question": one, "found": [asdict(hit) for hit in found]}, 2 if len(questions) == 1 else None)
            continue
        if len(questions) > 1:
            say(f"{'' if number == 0 else chr(10)}{one}")
        if not found:
            hopeless = bool(where) and opened.fits_none(where or ())
            say(f"nothing found; {'no document satisfies --where' if hopeless else 'try other words'}")
        for rank, hit in enumerate(found, 1):
            _say_hit(rank, hit)


Texts = Annotated[
    list[str],
    typer.Argument(help="Text files, folders or globs (txt, jsonl, csv, tsv, parquet; also .gz, .zst and .zip)."),
]
Vectors = Annotated[Path, typer.Option(help="The model of the vectors, best a sentence model.")]
TextLayout = Annotated[str, typer.Option(help="Of txt: file, blank or line; auto decides by the content.")]
TextEncoding = Annotated[str, typer.Option(help="The encoding of the files.")]


@app.command(rich_help_panel=USE)
def topics(
    inputs: Texts,
    model: Vectors,
    min_size: Annotated[
        int | None, typer.Option(min=2, help="The fewest documents of a topic.  [default: a hundredth of all]")
    ] = None,
    words: Annotated[int, typer.Option(min=1, help="The words that name a topic.")] = 8,
    column: TextColumn = "text",
    layout: TextLayout = "auto",
    encoding: TextEncoding = "utf-8",
    out: Annotated[Path | None, typer.Option(help="Write a map of the documents to this page (.html).")] = None,
    as_json: Json = False,
) -> None:
    """Group documents by what they are about.

    Example: firth topics reviews.csv --model runs/sentences --out topics.html
    """
    from firth.api import searching
    from firth.cli.main import say, say_json, say_wrapped

    found = searching.topics(
        inputs, model, min_size=min_size, words=words, column=column, layout=layout, encoding=encoding, out=out
    )
    if as_json:
        say_json([asdict(one) | {"ids": [found.ids[number] for number in one.documents]} for one in found.topics])
        return
    for topic in found.topics:
        named = ", ".join(topic.words) if topic.number >= 0 else "(no topic)"
        say_wrapped(named, f"{len(topic.documents):>6,}  ", "        ")
    if all(topic.number < 0 for topic in found.topics):
        say("no topics were found; try a smaller --min-size")
    if out is not None:
        say(f"{out}: the map")


@app.command(rich_help_panel=USE)
def duplicates(
    inputs: Texts,
    model: Vectors,
    least: Annotated[float, typer.Option(help="The cosine from which on documents count as nearly the same.")] = 0.95,
    column: TextColumn = "text",
    layout: TextLayout = "auto",
    encoding: TextEncoding = "utf-8",
    as_json: Json = False,
) -> None:
    """Find documents that say nearly the same as an earlier one.

    Example: firth duplicates reviews.csv --model runs/sentences --least 0.9
    """
    from firth.api import searching
    from firth.cli.main import say, say_json

    found = searching.duplicates(inputs, model, least=least, column=column, layout=layout, encoding=encoding)
    if as_json:
        say_json([{"earlier": first, "later": second, "cosine": cosine} for first, second, cosine in found])
        return
    for first, second, cosine in found:
        say(f"{cosine:.3f}  {second}  like  {first}")
    say(f"{len(found):,} documents are like an earlier one")


def _say_hit(rank: int, hit: Hit) -> None:
    """Where it stands, and its best sentence with the words of the question marked."""
    from firth.cli.main import say, say_wrapped

    scores = [f"words {hit.words:.2f}"] if hit.words is not None else []
    scores += [f"cosine {hit.cosine:.3f}"] if hit.cosine is not None else []
    shown = hit.id.removeprefix(f"{Path.cwd()}{os.sep}")  # files below the folder one is in, by their short names
    say(f"{rank}. {shown}  ({', '.join(scores)})")
    say_wrapped(_snippet(hit), "   ", "   ")
    if hit.answer is not None:
        say_wrapped(f"answer: {hit.answer['answer']}  ({hit.answer['probability']:.0%})", "   ", "   ")


def _snippet(hit: Hit, most: int = 300) -> str:
    start, end = hit.best
    end = min(end, start + most)
    before, after = _BOLD if sys.stdout.isatty() else "[", _PLAIN if sys.stdout.isatty() else "]"
    parts, at = [], start
    for first, last in hit.marks:
        if first >= start and last <= end:
            parts += [hit.text[at:first], before, hit.text[first:last], after]
            at = last
    parts.append(hit.text[at:end])
    return " ".join(f"{'… ' if start else ''}{''.join(parts)}{' …' if end < len(hit.text) else ''}".split())
