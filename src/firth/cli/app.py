"""The command-line application that every command joins."""

import json
import math
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Language-representation models, from raw text to a finished task, on the machine you have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        import firth

        say(f"firth {firth.__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
]


@app.callback()
def _settings(debug: Debug = False, version: Version = False) -> None:
    """``--debug`` is taken out of the words before, so that it may stand anywhere."""


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def say_json(value: Any, indent: int | None = 2) -> None:
    say(json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False))


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity: null stands in their place."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(rows: Sequence[tuple[str, str]]) -> None:
    """Two columns: names and values."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"  {name:<{width}}  {value}")


def say_found(found: dict[str, list[tuple[str, float]]], as_json: bool) -> None:
    """Words with scores under the question that they answer."""
    if as_json:
        say_json({name: [{"word": word, "score": score} for word, score in rows] for name, rows in found.items()})
        return
    for name, rows in found.items():
        say(name)
        for word, score in rows:
            say(f"  {score:.4f}  {word}")
