"""The command that continues texts: generate."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, Template, app, written
from firth.core.errors import FirthError
from firth.core.system import stdin_lines

if TYPE_CHECKING:
    from firth.models.shared.model import Model


@app.command()
def generate(
    run: Annotated[Path, typer.Argument(help="A run of a language model or a Hugging Face GPT-2 directory.")],
    text: Annotated[str, typer.Argument(help="How the text begins; - reads a text a line from standard input.")],
    num: Annotated[int, typer.Option(help="How many continuations.")] = 1,
    max_tokens: Annotated[int, typer.Option(help="Tokens to add at the most.")] = 50,
    beams: Annotated[int, typer.Option(help="Beam search of this width in place of drawing.")] = 0,
    length_penalty: Annotated[float, typer.Option(help="Of beam search, as in GNMT; 0 favours short texts.")] = 0.6,
    temperature: Annotated[float, typer.Option(help="Below 1 more likely, above 1 more varied; 0 is greedy.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Draw among so many likeliest tokens; 0 means all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw among the likeliest tokens with this probability in all.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    no_repeat_ngram: Annotated[int, typer.Option(help="No run of so many tokens twice; 0 allows it.")] = 0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1 makes said tokens less likely.")] = 1.0,
    trace: Annotated[Path | None, typer.Option(help="Write the tree of the beam search to this JSON file.")] = None,
    examples: Annotated[
        Path | None,
        typer.Option(help="Classify by prompt: a table of texts and labels to show first; scores its labels."),
    ] = None,
    template: Template = None,
    as_json: Json = False,
) -> None:
    """Continue a text, or choose its label after a few examples.

    Example: firth generate runs/gpt "Once upon a time" --temperature 0.8 --top-k 40
    """
    from firth import api
    from firth.cli.use_commands import full_stdin_lines

    texts = full_stdin_lines() if text == "-" else [text]
    if trace is not None and not beams:
        raise FirthError("--trace shows a beam search: say how wide with --beams 4")
    if trace is not None and not trace.parent.is_dir():
        raise FirthError(f"{trace}: the folder {trace.parent} does not exist; make it first")
    if template is not None and examples is None:
        raise FirthError("--template says how examples are written: name them with --examples FILE")
    model = api.load(run)
    if examples is not None:
        _label(model, examples, texts, written(template), as_json)
        return
    settings = {
        "num": num,
        "max_tokens": max_tokens,
        "beams": beams,
        "length_penalty": length_penalty,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "no_repeat_ngram": no_repeat_ngram,
        "repetition_penalty": repetition_penalty,
    }
    _continue(model, texts, settings, trace, as_json)


def _continue(model: Model, texts: list[str], settings: dict[str, Any], trace: Path | None, as_json: bool) -> None:
    from firth import api
    from firth.cli.app import say, say_json

    found = api.generate(model, texts, trace=trace, **settings)
    if as_json:
        say_json(
            [
                {"text": text, "continuations": [vars(one) for one in some]}
                for text, some in zip(texts, found, strict=True)
            ]
        )
        return
    for place, some in enumerate(found):
        for number, one in enumerate(some):
            if place or number:
                say("---")
            say(one.text)


def _label(model: Model, examples: Path, texts: list[str], template: str | None, as_json: bool) -> None:
    from firth import api
    from firth.cli.app import say, say_json

    found = api.prompt_classify(model, examples, texts, template)
    if as_json:
        say_json([{"text": text, **vars(one)} for text, one in zip(texts, found, strict=True)])
        return
    for text, one in zip(texts, found, strict=True):
        shares = "  ".join(f"{label} {share:.1%}" for label, share in one.probabilities.items())
        say(f"{one.label}\t{shares}\t{text}")


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
    from firth.cli.app import say, say_json, table
    from firth.cli.describe import pairs_rows
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
    from firth.cli.app import say

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
