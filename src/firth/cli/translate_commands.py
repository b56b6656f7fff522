"""Commands of translation: prepare-pairs, translate."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, app
from firth.core.stdin import stdin_lines

_TOGETHER = 500  # lines that are sorted by length and searched side by side


@app.command()
def prepare_pairs(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="Two files whose lines belong together, or .tsv, .jsonl or .tmx files (also .gz, .zst)."),
    ],
    out: Annotated[Path, typer.Option(help="The corpus folder to make.")],
    dev: Annotated[
        list[Path] | None, typer.Option(help="Files for testing (give two-file text as --dev A --dev B).")
    ] = None,
    tokens: Annotated[str, typer.Option(help="bpe, unigram or wordpiece.")] = "bpe",
    vocab_size: Annotated[int, typer.Option(help="Pieces to learn.")] = 8000,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Fold upper case.")] = False,
    byte_fallback: Annotated[
        bool, typer.Option("--byte-fallback", help="For unigram: spell unknown characters in bytes.")
    ] = False,
    separate: Annotated[bool, typer.Option("--separate", help="A vocabulary for each side, not one for both.")] = False,
    tokenizer: Annotated[Path | None, typer.Option(help="Use this tokenizer instead of learning one.")] = None,
    source: Annotated[str | None, typer.Option(help="The column, key or language of the source.")] = None,
    target: Annotated[str | None, typer.Option(help="The column, key or language of the target.")] = None,
    encoding: Annotated[str, typer.Option(help="The encoding of the files.")] = "utf-8",
    heldout: Annotated[float | None, typer.Option(help="Share of pairs kept for testing, 0.02 without --dev.")] = None,
    max_len: Annotated[int, typer.Option(min=1, help="Leave out longer sentences (tokens).")] = 250,
    max_ratio: Annotated[float, typer.Option(min=1, help="Leave out pairs whose lengths differ more.")] = 5.0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Turn parallel text into a corpus of sentence pairs that translators train on.

    Example: firth prepare-pairs train.en train.de --out corpora/ende
    """
    from firth import api
    from firth.cli.describe import pairs_rows
    from firth.cli.output import say, say_json, table
    from firth.cli.progress import progress_display

    with progress_display("prepare-pairs", as_json) as progress:
        info = api.prepare_pairs(
            inputs,
            out,
            dev=dev or (),
            tokens=tokens,
            vocab_size=vocab_size,
            lowercase=lowercase,
            byte_fallback=byte_fallback,
            separate=separate,
            tokenizer=tokenizer,
            source=source,
            target=target,
            encoding=encoding,
            heldout=heldout,
            max_len=max_len,
            max_ratio=max_ratio,
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        say_json({"corpus": str(out), **info.model_dump(exclude={"checksums"})})
        return
    say(f"{out}: a corpus of sentence pairs")
    table(pairs_rows(info))
    say(f"next: firth pretrain transformer-tiny --corpus {out} --out runs/mt --budget 30m")


@app.command()
def translate(
    run: Annotated[Path, typer.Argument(help="A translator: a run or a Marian directory.")],
    texts: Annotated[
        list[str], typer.Argument(help="Sentences, or one file of them (one a line), or - for standard input.")
    ],
    beams: Annotated[int, typer.Option(min=1, help="The width of the beam; 1 is greedy.")] = 5,
    nbest: Annotated[int, typer.Option(min=1, help="How many translations of each.")] = 1,
    length_penalty: Annotated[float, typer.Option(min=0, help="0: none; more prefers longer ones.")] = 0.6,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="The most tokens of a translation.")] = None,
    copy_unknown: Annotated[
        bool, typer.Option("--copy-unknown", help="Put the source word in the place of an unknown one.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="How every translation must begin.")] = "",
    as_json: Json = False,
) -> None:
    """Translate sentences, a file or a stream; memory does not grow with its length.

    Example: firth translate runs/mt "A dog runs." --beams 5
    """
    import json

    from firth import api
    from firth.cli.output import say

    lines = _lines(texts)
    model = api.load(run)
    for block in _blocks(lines, 1 if texts == ["-"] and sys.stdin.isatty() else _TOGETHER):
        found = model.translations(
            block,
            beams,
            nbest,
            length_penalty=length_penalty,
            max_tokens=max_tokens,
            copy_unknown=copy_unknown,
            prefixes=[prefix] * len(block) if prefix else None,
        )
        for text, best in zip(block, found, strict=True):
            if as_json:
                rows = [{"text": one.text, "score": one.score} for one in best]
                say(json.dumps({"source": text, "translations": rows}, ensure_ascii=False))
            elif nbest == 1:
                say(best[0].text)
            else:
                for one in best:
                    say(f"{one.normalised:.4f}\t{one.text}")
        sys.stdout.flush()


def _lines(texts: list[str]) -> Iterable[str]:
    """The sentences themselves, the lines of a file, or those of standard input as they come."""
    from firth import api

    if texts == ["-"]:
        return (line for _, line in stdin_lines())
    if len(texts) == 1 and os.path.isfile(texts[0]):  # also of a sentence that is too long for a name
        return api.read_texts(texts[0])
    return texts


def _blocks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    stream = iter(lines)
    while block := list(islice(stream, size)):
        yield block
