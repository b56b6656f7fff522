"""The command line: the application that every command joins, what commands share, and ``main``.

The work is behind ``firth``'s functions. Nothing heavy is imported before a command needs it, so that ``firth --help``
is instant.
"""

import contextlib
import ctypes
import io
import json
import math
import os
import re
import shutil
import signal
import sys
import threading
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TextIO

import typer

from firth.core.errors import SAME_COMMAND, STOP_SIGNALS, FirthError, Interrupted, is_out_of_memory, missing_package

if os.environ.get("WORLD_SIZE", "1") != "1":
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch warns of what is meant (unused weights)

if TYPE_CHECKING:
    from typer.core import TyperGroup

COMMANDS = (  # files whose commands join the application, in the order of the help
    "prepare_commands",
    "train_commands",
    "task_commands",
    "use_commands",
    "search_commands",
    "evaluate_commands",
    "serve_commands",
)
app = typer.Typer(
    help="Language-representation models, from raw text to a finished task, on the machine you have.",
    no_args_is_help=True,
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
    """``--debug`` is removed from the arguments before parsing, so that it may stand anywhere."""


def say(text: str = "") -> None:
    """Of several processes of one training the first prints."""
    if os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0":
        sys.stdout.write(text + "\n")


def say_json(value: object, indent: int | None = 2) -> None:
    say(json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False))


def _finite(value: object) -> object:
    """The value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def columns() -> int:
    """How many letters a line of the terminal holds; 80 where the output is no terminal."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def text_width(text: str) -> int:
    """In columns: Chinese characters take two, colours none."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in _COLOURS.sub("", text))


def wrap(text: str, room: int) -> list[str]:
    """Lines of at most ``room`` columns, broken at spaces and between Chinese characters; a longer word stays whole."""
    lines = [""]
    for piece in _PIECES.findall(text):
        if text_width(lines[-1] + piece.rstrip()) > room and lines[-1]:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return [line.rstrip() for line in lines]


# what a line is not broken within: a word with the spaces before it, or a wide character with the marks after it
_PIECES = re.compile(
    r"\s*(?:[\u2e80-\u9fff\uac00-\ud7a3\uff00-\uffef][，。；：、！？）】》”’]*|[^\s\u2e80-\u9fff\uac00-\ud7a3\uff00-\uffef]+)|\s+"
)


def say_wrapped(text: str, first: str = "", others: str = "") -> None:
    """Prose, in lines that fit; ``others`` stands before all lines but the first."""
    head, *more = wrap(text, columns() - max(text_width(first), text_width(others)))
    say(f"{first}{head}")
    for line in more:
        say(f"{others}{line}")


def table(rows: Sequence[tuple[str, str]]) -> None:
    """Two columns: names and values, which are wrapped."""
    width = max(text_width(name) for name, _ in rows)
    room = max(30, columns() - width - 4)
    for name, value in rows:
        first, *more = wrap(value, room)
        say(f"  {name}{' ' * (width - text_width(name))}  {first}".rstrip())
        for line in more:
            say(" " * (width + 4) + line)


def say_found(found: dict[str, list[tuple[str, float]]], as_json: bool) -> None:
    """Words with scores, below each query."""
    if as_json:
        say_json({name: [{"word": word, "score": score} for word, score in rows] for name, rows in found.items()})
        return
    for name, rows in found.items():
        say(name)
        for word, score in rows:
            say(f"  {score:.4f}  {word}")


START, PREPARE, TRAIN, USE, EVALUATE, SERVE = (
    "Start",
    "Prepare text",
    "Train",
    "Use",
    "Evaluate",
    "Serve and export",
)
"""The groups of commands in ``firth --help``."""

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Engine = Annotated[str, typer.Option(help="local, or ray for a cluster: the result is the same.")]
Address = Annotated[
    str | None, typer.Option(help="The Ray cluster, for example HOST:6379; without it one is started here.")
]
Cores = Annotated[int, typer.Option(min=1, help="Processor cores of each job of the cluster.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what exists.")]
Tensorboard = Annotated[
    bool, typer.Option("--tensorboard", help="Also write event files for TensorBoard, below the run's folder.")
]
Template = Annotated[
    str | None, typer.Option(help="The format of an example in the prompt; has {text} and {label}, \\n is a new line.")
]
Settings = Annotated[
    list[str] | None,
    typer.Argument(help="Settings as key=value, such as learning_rate=1e-3 (firth settings lists them)."),
]
Corpus = Annotated[Path | None, typer.Option(help="A corpus made by firth prepare.")]
Out = Annotated[Path | None, typer.Option(help="The new run folder.")]
Train = Annotated[Path | None, typer.Option(help="Labelled examples: tsv, csv, jsonl, CoNLL, SQuAD json.")]
Dev = Annotated[Path | None, typer.Option(help="Labelled examples for choosing the best epoch.")]
Text = Annotated[
    str | None, typer.Option(help="The column of the text (for tags: the words), by name or number from 1.")
]
Second = Annotated[str | None, typer.Option(help="The column that holds the second text of a pair.")]
Label = Annotated[str | None, typer.Option(help="The column that holds the label, score or tag.")]
LabelSeparator = Annotated[
    str | None, typer.Option(help="The separator of several labels of a text, such as ';'.  [default: JSON lists]")
]
MinConfidence = Annotated[
    float | None, typer.Option(help="For classes: no label for texts whose label is less probable than this.")
]
Encoding = Annotated[
    str | None,
    typer.Option(help="The encoding of the files, for example gb18030.  [default: UTF-8 or the byte order mark]"),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad", help="Skip texts without a label, and answers that are not at their place in the passage."
    ),
]
Shares = Annotated[str | None, typer.Option(help="Train on these shares of the examples, for example 0.01,0.1,1.")]
ShownExamples = Annotated[
    Path | None, typer.Option(help="For decoders: labelled texts for a few-shot prompt; nothing is trained.")
]
AnyModel = Annotated[Path, typer.Argument(help="A run, a model directory or a file of vectors.")]
Top = Annotated[int, typer.Option(min=1, help="The number of results.")]
Layer = Annotated[int, typer.Option(help="Which layer: 0 is the token layer, -1 the last.")]


_DATA_ENDINGS = (
    ".txt",
    ".text",
    ".json",
    ".jsonl",
    ".ndjson",
    ".csv",
    ".tsv",
    ".parquet",
    ".conll",
    ".conllu",
    ".gz",
    ".bz2",
    ".xz",
    ".zst",
    ".zip",
)


def is_text(argument: str) -> bool:
    """Whether an argument is a text and not the name of a file: nothing has that name, it does not end like a file of
    data, and it has a space or a character that is no part of a plain file name."""
    if (
        argument == "-"
        or "://" in argument.split(" ")[0]
        or os.path.exists(argument)
        or argument.lower().endswith(_DATA_ENDINGS)
    ):
        return False
    return any(char.isspace() or ord(char) > 127 for char in argument.strip())


def written(template: str | None) -> str | None:
    """A template with \\n replaced by a line break."""
    return None if template is None else template.replace("\\n", "\n")


def parse_shares(words: str | None) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(word) for word in (words or "").split(",") if word.strip()]
    except ValueError:
        raise FirthError(f"--shares '{words}': write numbers with commas between them, such as 0.01,0.1,1") from None


def application() -> typer.Typer:
    """The application with all its commands: each file of them joins it when it is imported."""
    for name in COMMANDS:
        import_module(f"firth.cli.{name}")
    return app


_LIST = re.compile(r"list\[(\w+)\]")  # as the help names an option that may be given several times


def command() -> "TyperGroup":
    """The application as it is run. The help names values plainly, and none where a flag takes none."""
    from typer.core import TyperGroup, TyperOption
    from typer.main import get_command

    found = get_command(application())
    assert isinstance(found, TyperGroup)
    top = found.context_class(found, **found.context_settings)
    for one in (found, *found.commands.values()):
        context = one.context_class(one, parent=top)
        for option in one.get_params(context):
            if isinstance(option, TyperOption):
                shown = "" if option.is_flag else option.display_type_rich(ctx=context) or ""
                option.metavar = _LIST.sub(r"\1", shown).replace(" range", "")
    return found


_MAX_MESSAGE = 900  # characters
_STOPPED, _STOPPED_TEXT = 130, f"firth: stopped; {SAME_COMMAND} to go on or start over\n"


def main(arguments: list[str] | None = None) -> None:
    """Runs a command; the user's mistakes become one sentence and exit code 2."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    for stream in (sys.stdout, sys.stderr):  # file names and labels may hold half a character
        if isinstance(stream, io.TextIOWrapper):
            # What goes into a file or a pipe is read by programs, whatever the letters of the system are.
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    if arguments is None:
        _say_cut_files()
    with _ending(is_whole=arguments is None), warnings.catch_warnings():
        warnings.showwarning = _say_warning
        _run(words, debug)


_said_last: list[str] = []  # where a command was refused, that alone is said


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Firth's own at the end, as its other warnings are said; those of libraries as Python shows them."""
    if category.__module__.startswith("firth."):
        _said_last.append(f"firth: warning: {_shown(str(message))}")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


def _run(words: list[str], debug: bool) -> None:
    _said_last.clear()
    try:
        _refuse_broken(words)
        if "firth.tokenizers.pieces" in sys.modules:
            sys.modules["firth.tokenizers.pieces"].READ.clear()
        code = command()([word for word in words if word != "--debug"], prog_name="firth", standalone_mode=False)
        if code == _STOPPED:  # typer returns it after Ctrl-C
            sys.stderr.write(_STOPPED_TEXT)
            _leave(_STOPPED)
        for one in _said_last:
            _say_wrong(one)
        _say_unknown(words)
        if isinstance(code, int) and code:  # the same of typer.Exit
            sys.exit(code)
    except Exception as error:
        code = _exit_code(error)
        if debug or code is None:
            raise
        if code == _STOPPED:
            _leave(code)
        sys.exit(code)


_SAY_UNKNOWN_THEMSELVES = ("prepare", "prepare-pairs", "tokens", "words", "serve", "quickstart", "compare")


def _say_unknown(words: list[str]) -> None:
    """A warning where the texts of a command were largely unknown to its model."""
    module = sys.modules.get("firth.tokenizers.pieces")  # not loaded: no text was read
    warning = module.READ.warning if module is not None else None
    if warning is not None and not set(words[:1]) & set(_SAY_UNKNOWN_THEMSELVES):
        _say_wrong(f"firth: warning: {warning}")


def _refuse_broken(words: list[str]) -> None:
    """Refuses arguments that are not UTF-8, which arrive with lone surrogates; file names may have them."""
    for word in words:
        if any("\ud800" <= char <= "\udfff" for char in word) and not os.path.lexists(word):
            raise FirthError(
                "an argument is not UTF-8: write it in a terminal that uses UTF-8, or put it into a file and name that"
            )


def _exit_code(error: Exception) -> int | None:
    """Prints a user's error and returns the exit code; None for a bug in Firth."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        return 0
    if isinstance(error, typer.Abort):
        sys.stderr.write(_STOPPED_TEXT)
        return _STOPPED
    if isinstance(error, OSError) and error.errno is not None:
        error = FirthError(f"{error.filename or 'a file'}: {error.strerror}; check the path and your permissions")
    elif isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] != "firth":
        error = missing_package(error)
    elif is_out_of_memory(error):
        error = FirthError(
            "this machine has not enough memory for it; take smaller settings, a smaller model or less text at once"
        )
    usage = getattr(error, "format_message", None)
    if not isinstance(error, FirthError) and usage is None:
        return None
    message = str(error) if usage is None else f"{usage()} (see firth --help)"
    if usage is None or usage():  # no arguments at all: the help was shown
        _say_wrong(f"firth: {_shown(message)}")
    return error.exit_code if isinstance(error, Interrupted) else 2


def _say_wrong(message: str) -> None:
    """An error or a warning: in lines that fit a terminal, in one line for programs that read it."""
    lines = wrap(message, columns() - 2) if sys.stderr.isatty() else [message]
    sys.stderr.write("\n  ".join(lines) + "\n")


def _leave(code: int) -> NoReturn:
    """Ends a command that was stopped. Everything is closed by now; a library that still trains a vocabulary in its thread
    would abort the process if the interpreter waited for it."""
    module = sys.modules.get("firth.tokenizers.vocabulary")
    if module is not None and any(thread.name == module.TRAINER_THREAD for thread in threading.enumerate()):
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _shown(message: str) -> str:
    """In one line; a name in it may be of any length."""
    line = " ".join(message.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[: _MAX_MESSAGE // 2]} ... {line[-_MAX_MESSAGE // 3 :]}"


class _Terminated(BaseException):
    """SIGTERM or SIGHUP: everything on the way out closes its files and stops its own processes."""


@contextlib.contextmanager
def _ending(is_whole: bool) -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does, where nothing else has taken them; exit codes 143 and 129. Where the
    command is the whole process, further signals do not disturb its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def note(number: int, frame: object) -> None:
        if not caught:
            caught.append(number)
            raise _Terminated

    numbers = [number for number in STOP_SIGNALS[1:] if signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, note)
    try:
        yield
    except (_Terminated, KeyboardInterrupt) as error:
        _ignore_signals(is_whole)
        advice = getattr(error, "__notes__", [])[-1:]  # of the whole job
        sys.stderr.write(f"firth: stopped; {advice[0]}\n" if advice else _STOPPED_TEXT)
        _leave(128 + caught[0] if caught else _STOPPED)
    except SystemExit:
        _ignore_signals(is_whole)
        raise
    finally:
        if not is_whole:
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)


_CUT = b"firth: a file was cut while it was read, or its disk failed; check it, and prepare a damaged corpus again\n"


def _say_cut_files() -> None:
    """SIGBUS is how the system says that a mapped file has become shorter. Python cannot go on after it, so its own way of
    handling signals does not serve; the process ends with a sentence at least."""
    if not hasattr(signal, "SIGBUS"):
        return
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int)

    def end(number: int) -> None:
        os.write(2, _CUT)
        os._exit(2)

    _kept.append(kind(end))
    ctypes.CDLL(None).signal(int(signal.SIGBUS), _kept[0])


_kept: list[object] = []  # the system calls it: it must live as long as the process


def _ignore_signals(is_whole: bool) -> None:
    for number in STOP_SIGNALS if is_whole else ():
        signal.signal(number, signal.SIG_IGN)
