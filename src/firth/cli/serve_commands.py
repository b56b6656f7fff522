"""Commands that offer a model to other programs: serve, export."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.main import SERVE, Json, app
from firth.core.errors import FirthError, with_extra

if TYPE_CHECKING:
    import socket

    from firth.serve.guard import ServeSettings
    from firth.serve.models import ServedModels

Runs = Annotated[
    list[Path] | None,
    typer.Argument(help="Runs, model directories, files of vectors; without any, what firth quickstart made."),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")]
Host = Annotated[str, typer.Option(help="127.0.0.1 is for this machine only, 0.0.0.0 for the network.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="FIRTH_TOKEN", help="Require this bearer token; better set as FIRTH_TOKEN."),
]
AllowHost = Annotated[
    list[str] | None, typer.Option(help="A further host name of this server, for example behind a proxy.")
]
MaxQueue = Annotated[int, typer.Option(min=1, help="Requests that may wait; more are refused with 503.")]
MaxBody = Annotated[int, typer.Option(min=1, help="Bytes of a request.")]
MaxImage = Annotated[int, typer.Option(min=1, help="Bytes of an image that is sent as it is.")]
MaxText = Annotated[int, typer.Option(min=1, help="Bytes of all texts of a request.")]
MaxTexts = Annotated[int, typer.Option(min=1, help="Texts of a request.")]
Timeout = Annotated[float, typer.Option(min=0.001, help="Seconds after which a request fails.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads of the worker; 0 takes all cores.")]
Labels = Annotated[
    Path | None,
    typer.Option(help="Append what is labelled on the page to this table (.tsv) of texts and labels."),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        help="Where to look for runs when none is named; all runs below it are listed.  [default: quickstart]"
    ),
]


@app.command(rich_help_panel=SERVE)
def serve(
    runs: Runs = None,
    port: Port = 8000,
    host: Host = "127.0.0.1",
    token: Token = None,
    allow_host: AllowHost = None,
    max_queue: MaxQueue = 128,
    max_body: MaxBody = 1 << 20,
    max_image: MaxImage = 10 << 20,
    max_text: MaxText = 100_000,
    max_texts: MaxTexts = 512,
    timeout: Timeout = 30.0,
    threads: Threads = 0,
    folder: Folder = None,
    torch_only: Annotated[bool, typer.Option("--torch", help="Never answer with an exported graph.")] = False,
    labels: Labels = None,
    as_json: Json = False,
) -> None:
    """Serve one or more models over HTTP, with a web page, OpenAI's embeddings and metrics.

    Example: firth serve runs/bert runs/word2vec --port 8000
    """
    if threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # before the libraries that read it are loaded
    try:
        from firth.serve.running import listen, run_server
    except ModuleNotFoundError as error:
        raise FirthError(f"serving needs the package {error.name}: pip install '{with_extra('serve')}'") from None
    from firth.serve.guard import ServeSettings
    from firth.serve.models import load_models
    from firth.serve.runs import find_runs

    settings = ServeSettings.build(
        {
            "host": host,
            "port": port,
            "token": token or None,
            "allowed_hosts": tuple(allow_host or ()),
            "max_queue": max_queue,
            "max_body_bytes": max_body,
            "max_image_bytes": max_image,
            "max_text_bytes": max_text,
            "max_texts": max_texts,
            "timeout_s": timeout,
            "threads": threads,
            "labels": labels,
        },
        "serve",
    )
    watched = folder if folder is not None or runs else Path("quickstart")
    paths = list(runs) if runs else find_runs(watched or Path())
    if not paths and not find_runs(watched or Path(), unfinished=True):
        raise FirthError(
            f"{watched}: no run below it to serve; make some with: firth quickstart, or name one: firth serve runs/bert"
        )
    bound = listen(settings.host, settings.port)
    models = load_models(paths, watched, graphs=not torch_only)
    run_server(models, settings, bound, _announce(models, settings, bound, as_json))


def _announce(models: ServedModels, settings: ServeSettings, bound: socket.socket, as_json: bool) -> Callable[[], None]:
    """Prints a warning at once, and the address when the server is ready."""
    from firth.cli.main import say, say_json
    from firth.serve.running import address_of

    if not settings.is_local and settings.token is None and not as_json:
        say(f"anybody who reaches {settings.host} can use this server: set FIRTH_TOKEN to require a token")

    def ready() -> None:
        if as_json:
            asks = settings.token is not None
            say_json({"address": address_of(bound), "models": list(models.by_name), "asks_for_token": asks})
        else:
            say(f"serving {', '.join(models.by_name)} at {address_of(bound)} (Ctrl-C stops)")
        sys.stdout.flush()

    return ready


@app.command(rich_help_panel=SERVE)
def export(
    model: Annotated[
        Path, typer.Argument(help="A run or file of static vectors, an encoder, a task on one, or a translator.")
    ],
    out: Annotated[
        Path,
        typer.Argument(help="The file to write: .bin, .vec, .txt, .tsv or .safetensors; for --to the folder."),
    ],
    to: Annotated[
        str | None,
        typer.Option(help="onnx, ctranslate2, static, or a vector format where the file name does not name it."),
    ] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Quantise the weights to 8 bits.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the exported model with the original.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Examples on which to score both, sentences to translate; for static, text to compare on."),
    ] = None,
    dim: Annotated[int, typer.Option(min=1, help="The width of a static table.")] = 256,
    as_json: Json = False,
) -> None:
    """Write an encoder or task as ONNX, a translation model for CTranslate2, static vectors in another format; or distil an
    encoder into a table of token vectors (--to static).

    Example: firth export runs/bert exported --to onnx --int8 --verify
    """
    from firth.api import exporting
    from firth.cli.main import say, say_json, table

    found = exporting.export(model, out, to=to, int8=int8, verify=verify, data=data, dim=dim)
    if as_json:
        say_json({"out": str(out), **found})
        return
    say(f"{out}: written")
    if to == "static":
        from firth.reports.card import show_fact

        quality = found.pop("quality")
        facts = {**found, **quality}
        facts["texts"] = f"{facts['texts']:,}{' made up' if facts.pop('made_up') else ''}"
        table([(name.replace("_", " "), show_fact(value)) for name, value in facts.items()])
    if found.get("export"):
        from firth.cli.describe import run_rows
        from firth.core.run import Run

        table(run_rows(Run.open(out).record))
