"""Commands that write: generate, translate."""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import app
from firth.cli.options import USE, Json
from firth.core.errors import FirthError
from firth.core.system import stdin_lines

_TOGETHER = 500  # lines that are sorted by length and searched side by side

Writer = Annotated[Path, typer.Argument(help="A run of a language model or a Hugging Face GPT-2 directory.")]
Prompt = Annotated[str, typer.Argument(help="How the text begins; - reads a text per line from standard input.")]
Num = Annotated[int, typer.Option(help="How many continuations.")]
MaxTokens = Annotated[int, typer.Option(help="Tokens to add at the most.")]
Beams = Annotated[int, typer.Option(help="Beam search of this width in place of drawing.")]
LengthPenalty = Annotated[float, typer.Option(help="Of beam search, as in GNMT; 0 favours short texts.")]
Temperature = Annotated[float, typer.Option(help="Below 1 more likely, above 1 more varied; 0 is greedy.")]
TopK = Annotated[int, typer.Option(help="Draw among so many likeliest tokens; 0 means all.")]
TopP = Annotated[float, typer.Option(help="Draw among the likeliest tokens with this probability in all.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same text.")]
MinTokens = Annotated[int, typer.Option(help="Tokens to add at the least.")]
NoRepeat = Annotated[int, typer.Option(help="No run of so many tokens twice; 0 allows it.")]
Repetition = Annotated[float, typer.Option(help="Above 1 makes tokens that were used less likely.")]
TraceFile = Annotated[Path | None, typer.Option(help="Write the tree of the beam search to this JSON file.")]


@app.command(rich_help_panel=USE)
def generate(
    run: Writer,
    text: Prompt,
    num: Num = 1,
    max_tokens: MaxTokens = 50,
    beams: Beams = 0,
    length_penalty: LengthPenalty = 0.6,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    min_tokens: MinTokens = 0,
    no_repeat_ngram: NoRepeat = 0,
    repetition_penalty: Repetition = 1.0,
    trace: TraceFile = None,
    as_json: Json = False,
) -> None:
    """Continue a text.

    Example: firth generate runs/gpt "Once upon a time" --temperature 0.8 --top-k 40
    """
    import firth
    from firth.cli.use_commands import full_stdin_lines

    texts = full_stdin_lines() if text == "-" else [text]
    if trace is not None and not beams:
        raise FirthError("--trace shows a beam search: say how wide with --beams 4")
    if trace is not None and not trace.parent.is_dir():
        raise FirthError(f"{trace}: the folder {trace.parent} does not exist; make it first")
    found = firth.generate(
        run,
        texts,
        num=num,
        max_tokens=max_tokens,
        beams=beams,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        min_tokens=min_tokens,
        no_repeat_ngram=no_repeat_ngram,
        repetition_penalty=repetition_penalty,
        trace=trace,
    )
    _say_continuations([(text, [vars(one) for one in some]) for text, some in zip(texts, found, strict=True)], as_json)


def _say_continuations(found: list[tuple[str, list[dict[str, object]]]], as_json: bool) -> None:
    """Texts, with a line between them."""
    from firth.cli.app import say, say_json

    if as_json:
        say_json([{"text": text, "continuations": some} for text, some in found])
        return
    say("\n---\n".join(str(one["text"]) for _, some in found for one in some))


@app.command(rich_help_panel=USE)
def translate(
    run: Annotated[Path, typer.Argument(help="A translator: a run or a Marian directory.")],
    texts: Annotated[
        list[str], typer.Argument(help="Sentences, or one file of them (one per line), or - for standard input.")
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
    import firth
    from firth.cli.app import say, say_json

    lines = _lines(texts)
    model = firth.load(run)
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
                say_json({"source": text, "translations": rows}, indent=None)
            elif nbest == 1:
                say(best[0].text)
            else:
                for one in best:
                    say(f"{one.normalised:.4f}\t{one.text}")
        sys.stdout.flush()


def _lines(texts: list[str]) -> Iterable[str]:
    """The sentences themselves, the lines of a file, or those of standard input as they come."""
    from firth.data.texts import read_texts

    if texts == ["-"]:
        return (line for _, line in stdin_lines())
    if len(texts) == 1 and os.path.isfile(texts[0]):  # also of a sentence that is too long for a name
        return read_texts(texts[0])
    return texts


def _blocks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    stream = iter(lines)
    while block := list(islice(stream, size)):
        yield block
