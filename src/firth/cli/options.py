"""Options that several commands have, and the groups of commands in the help."""

from pathlib import Path
from typing import Annotated

import typer

START, PREPARE, TRAIN, USE, EVALUATE, SERVE = (
    "Start",
    "Prepare text",
    "Train",
    "Use",
    "Evaluate",
    "Serve and export",
)
"""The groups, in the order of work."""

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what exists.")]
Template = Annotated[
    str | None, typer.Option(help="How an example is written; has {text} and {label}, \\n is a new line.")
]
Settings = Annotated[
    list[str] | None, typer.Argument(help="Any setting as key=value (firth settings lists them), learning_rate=1e-3.")
]
Corpus = Annotated[Path | None, typer.Option(help="A corpus made by firth prepare.")]
Out = Annotated[Path | None, typer.Option(help="The run folder to make.")]
Train = Annotated[Path | None, typer.Option(help="Labelled examples: tsv, csv, jsonl, CoNLL, SQuAD json.")]
Dev = Annotated[Path | None, typer.Option(help="Labelled examples on which the best epoch is chosen.")]
Text = Annotated[str | None, typer.Option(help="The column that holds the text (for tags: the words).")]
Second = Annotated[str | None, typer.Option(help="The column that holds the second text of a pair.")]
Label = Annotated[str | None, typer.Option(help="The column that holds the label, score or tag.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out answers that do not stand where the file says.")]
Shares = Annotated[str | None, typer.Option(help="Learn from shares of the examples, for example 0.01,0.1,1.")]
ShownExamples = Annotated[
    Path | None, typer.Option(help="For decoders: labelled texts to show first; nothing is trained.")
]
AnyModel = Annotated[Path, typer.Argument(help="A run, a model directory or a file of vectors.")]
Top = Annotated[int, typer.Option(min=1, help="How many.")]
Layer = Annotated[int, typer.Option(help="Which layer: 0 is the token layer, -1 the last.")]


def written(template: str | None) -> str | None:
    """A template as it is meant: lines end where the user says \\n."""
    return None if template is None else template.replace("\\n", "\n")


def parse_shares(words: str | None) -> list[float]:
    from firth.core.errors import FirthError

    try:
        return [float(word) for word in (words or "").split(",") if word.strip()]
    except ValueError:
        raise FirthError(f"--shares '{words}': write numbers with commas between them, such as 0.01,0.1,1") from None
