"""The command that answers over HTTP: serve."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, app
from firth.core.errors import FirthError


@app.command()
def serve(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Runs, model directories, files of vectors; without any, what firth quickstart made."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8000,
    host: Annotated[str, typer.Option(help="127.0.0.1 answers this machine only, 0.0.0.0 everybody.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="FIRTH_TOKEN", help="Ask for this bearer token; better given as FIRTH_TOKEN."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name under which a proxy asks for this server.")
    ] = None,
    max_queue: Annotated[int, typer.Option(min=1, help="Requests that may wait; more are told to come again.")] = 128,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = 1 << 20,
    max_text: Annotated[int, typer.Option(min=1, help="Bytes of all texts of a request.")] = 100_000,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts of a request.")] = 512,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds after which a request is given up.")] = 30.0,
    threads: Annotated[int, typer.Option(min=0, help="Threads of the worker; 0 takes all cores.")] = 0,
    folder: Annotated[Path, typer.Option(help="Where to look for runs when none is named.")] = Path("quickstart"),
    as_json: Json = False,
) -> None:
    """Answer over HTTP: every ability of one or more models, a page to try them, OpenAI's embeddings, metrics.

    Example: firth serve runs/bert runs/word2vec --port 8000
    """
    try:
        from firth.serve.running import address_of, listen, run_server
    except ModuleNotFoundError as error:
        raise FirthError(f"serving needs the package {error.name}: pip install 'firth[serve]'") from None
    from firth.cli.app import say, say_json
    from firth.serve.models import find_runs, load_models
    from firth.serve.settings import ServeSettings

    settings = ServeSettings.build(
        {
            "host": host,
            "port": port,
            "token": token or None,
            "allowed_hosts": tuple(allow_host or ()),
            "max_queue": max_queue,
            "max_body_bytes": max_body,
            "max_text_bytes": max_text,
            "max_texts": max_texts,
            "timeout_s": timeout,
            "threads": threads,
        },
        "serve",
    )
    paths = list(runs) if runs else find_runs(folder)
    if not paths:
        raise FirthError(
            f"{folder}: no finished run below it to serve; make some with: firth quickstart, or name one: firth serve runs/bert"
        )
    if threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # read by everything that computes, before it is loaded
    bound = listen(settings.host, settings.port)
    models = load_models(paths)
    if not settings.is_local and settings.token is None and not as_json:
        say(f"anybody who reaches {settings.host} may ask: set FIRTH_TOKEN to ask for a token")

    def ready() -> None:
        if as_json:
            asks = settings.token is not None
            say_json({"address": address_of(bound), "models": list(models.by_name), "asks_for_token": asks})
        else:
            say(f"serving {', '.join(models.by_name)} at {address_of(bound)} (Ctrl-C stops)")
        sys.stdout.flush()

    run_server(models, settings, bound, ready)
