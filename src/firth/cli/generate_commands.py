"""The command that continues texts: generate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firth.cli.app import Json, Template, app, written
from firth.core.errors import FirthError

if TYPE_CHECKING:
    from firth.representations.base import Representation


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
    from firth.cli.encode_texts import full_stdin_lines

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


def _continue(
    model: Representation, texts: list[str], settings: dict[str, Any], trace: Path | None, as_json: bool
) -> None:
    from firth import api
    from firth.cli.output import say, say_json

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


def _label(model: Representation, examples: Path, texts: list[str], template: str | None, as_json: bool) -> None:
    from firth import api
    from firth.cli.output import say, say_json

    found = api.prompt_classify(model, examples, texts, template)
    if as_json:
        say_json([{"text": text, **vars(one)} for text, one in zip(texts, found, strict=True)])
        return
    for text, one in zip(texts, found, strict=True):
        shares = "  ".join(f"{label} {share:.1%}" for label, share in one.probabilities.items())
        say(f"{one.label}\t{shares}\t{text}")
