"""The command line: commands join the application where they are defined; the work is behind ``firth``'s functions.

Nothing heavy is imported before a command needs it, so that ``firth --help`` is instant.
"""

import os
import sys
from importlib import import_module

import typer

from firth.cli.app import app
from firth.core.errors import FirthError, Interrupted

COMMANDS = (  # files whose commands join the application, in the order of the help
    "prepare_commands",
    "train_commands",
    "task_commands",
    "use_commands",
    "evaluate_commands",
    "serve_commands",
)
for _name in COMMANDS:
    import_module(f"firth.cli.{_name}")


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; the user's mistakes become one sentence and exit code 2."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    try:
        _refuse_broken(words)
        app([word for word in words if word != "--debug"], prog_name="firth", standalone_mode=False)
    except Exception as error:
        code = _exit_code(error)
        if debug or code is None:
            raise
        sys.exit(code)


def _refuse_broken(words: list[str]) -> None:
    """Bytes that are no UTF-8 arrive as lone surrogates; only the name of a file may have them."""
    for word in words:
        if any("\ud800" <= char <= "\udfff" for char in word) and not os.path.lexists(word):
            raise FirthError(
                "an argument is not UTF-8: write it in a terminal that uses UTF-8, or put it into a file and name that"
            )


def _exit_code(error: Exception) -> int | None:
    """Says what is wrong; None for an error that is Firth's own."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        return 0
    if isinstance(error, typer.Abort):
        sys.stderr.write("firth: stopped; run the same command again to go on or start over\n")
        return 130
    if isinstance(error, OSError) and error.errno is not None:
        error = FirthError(f"{error.filename or 'a file'}: {error.strerror}; check the path and your permissions")
    usage = getattr(error, "format_message", None)
    if not isinstance(error, FirthError) and usage is None:
        return None
    message = str(error) if usage is None else f"{usage()} (see firth --help)"
    if usage is None or usage():  # no arguments at all: the help was shown
        sys.stderr.write(f"firth: {' '.join(message.split())}\n")
    return 130 if isinstance(error, Interrupted) else 2
