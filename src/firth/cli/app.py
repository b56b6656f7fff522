"""The command-line application that every command joins."""

from typing import Annotated

import typer

app = typer.Typer(
    help="Language-representation models, from raw text to a finished task, on the machine you have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Template = Annotated[
    str | None, typer.Option(help="How an example is written; has {text} and {label}, \\n is a new line.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def written(template: str | None) -> str | None:
    """A template as it is meant: lines end where the user says \\n."""
    return None if template is None else template.replace("\\n", "\n")


@app.callback()
def _settings(debug: Debug = False) -> None:
    """``--debug`` is taken out of the words before, so that it may stand anywhere."""
