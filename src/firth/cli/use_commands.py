"""Commands that ask a trained model: fill, encode, nearest, analogy, similarity."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.app import Json, app
from firth.core.errors import FirthError
from firth.core.files import atomic_file
from firth.core.system import stdin_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from firth.models.shared.model import Model


@app.command()
def fill(
    run: Annotated[Path, typer.Argument(help="A run or a Hugging Face BERT directory.")],
    texts: Annotated[
        list[str], typer.Argument(help="Sentences with [MASK] in them; - reads them from standard input, one a line.")
    ],
    top: Annotated[int, typer.Option(min=1, help="How many guesses for each.")] = 5,
    as_json: Json = False,
) -> None:
    """Guess the masked words of a sentence.

    Example: firth fill runs/bert "The film was [MASK]."
    """
    from firth import api
    from firth.cli.app import say, say_json

    lines = [line for word in texts for line in (full_stdin_lines() if word == "-" else [word]) if line.strip()]
    if not lines:
        raise FirthError("no sentence given: write one with [MASK] in it")
    model = api.load(run)
    results = [(line, model.fill(line, top)) for line in lines]
    if as_json:
        say_json(
            [{"text": line, "masks": [[vars(guess) for guess in mask] for mask in masks]} for line, masks in results]
        )
        return
    for line, masks in results:
        say(line)
        for guesses in masks:
            say("  " + "  ".join(f"{guess.token} {guess.probability:.1%}" for guess in guesses))


@app.command()
def encode(
    run: Annotated[Path, typer.Argument(help="A run or a Hugging Face BERT directory.")],
    texts: Annotated[
        str,
        typer.Argument(help="A file with one text a line (or any format that prepare reads), or - for standard input."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Write float32 vectors to this .npy file; without it, one JSON line a text is printed."),
    ] = None,
    layer: Annotated[int, typer.Option(help="Which layer: 0 is the token layer, -1 the last.")] = -1,
    every_layer: Annotated[
        bool, typer.Option("--all-layers", help="Every layer instead: texts x layers x numbers.")
    ] = False,
    pool: Annotated[str, typer.Option(help="mean, cls or max.")] = "mean",
    column: Annotated[str, typer.Option(help="The column or key that holds the text.")] = "text",
    as_json: Json = False,
) -> None:
    """Turn texts into vectors.

    Example: firth encode runs/bert texts.txt --out vectors.npy
    """
    import json

    from firth import api
    from firth.cli.app import say, say_json

    lines = read_texts(texts, column)
    model = api.load(run)
    if out is None:
        for text in lines:
            vectors = all_layers(model, [text], pool) if every_layer else model.encode([text], layer, pool)
            name = "layers" if every_layer else "vector"
            say(json.dumps({"text": text, name: vectors[0].tolist()}, ensure_ascii=False))
        return
    shape = write_vectors(model, lines, out, None if every_layer else layer, pool)
    if as_json:
        layers = {"layers": shape[1]} if every_layer else {}
        say_json({"out": str(out), "texts": shape[0], "dim": shape[-1], **layers})
    else:
        of_layers = f"{shape[1]} layers of " if every_layer else ""
        say(f"{out}: {shape[0]:,} vectors of {of_layers}{shape[-1]} numbers")


VectorsPath = Annotated[
    Path, typer.Argument(help="A run of static vectors, or a file of vectors (word2vec, GloVe, fastText).")
]
Top = Annotated[int, typer.Option(min=1, help="How many.")]


@app.command()
def nearest(
    model: VectorsPath,
    words: Annotated[list[str], typer.Argument(help="Words to look up.")],
    top: Top = 10,
    as_json: Json = False,
) -> None:
    """Show the words nearest to a word.

    Example: firth nearest runs/word2vec king queen
    """
    from firth import api
    from firth.cli.app import say_found

    loaded = api.load(model)
    say_found({word: loaded.nearest(word, top) for word in words}, as_json)


@app.command()
def analogy(
    model: VectorsPath,
    first: Annotated[str, typer.Argument(help="man ...")],
    second: Annotated[str, typer.Argument(help="... is to king ...")],
    third: Annotated[str, typer.Argument(help="... as woman is to?")],
    top: Top = 5,
    method: Annotated[str, typer.Option(help="add (3CosAdd) or mul (3CosMul).")] = "add",
    as_json: Json = False,
) -> None:
    """Solve first : second = third : ?

    Example: firth analogy runs/word2vec man king woman
    """
    from firth import api
    from firth.cli.app import say_found

    found = api.load(model).analogy(first, second, third, top, method)
    say_found({f"{first} : {second} = {third} : ?": found}, as_json)


@app.command()
def similarity(
    model: Annotated[Path, typer.Argument(help="Any run, model directory or file of vectors.")],
    first: Annotated[str, typer.Argument(help="A word (a text, for models of texts).")],
    second: Annotated[str, typer.Argument(help="Another one.")],
    as_json: Json = False,
) -> None:
    """Show how similar two words or texts are (cosine).

    Example: firth similarity runs/word2vec king queen
    """
    from firth import api
    from firth.cli.app import say, say_json

    found = api.load(model).similarity(first, second)
    if as_json:
        say_json({"first": first, "second": second, "similarity": found})
    else:
        say(f"{found:.4f}")


_TOGETHER = 512


def full_stdin_lines() -> list[str]:
    """The lines of standard input that hold something."""
    return [line for _, line in stdin_lines() if line.strip()]


def read_texts(source: str, column: str) -> list[str]:
    """One text a line from a file or standard input, also empty ones; tables and jsonl by their column."""
    if source == "-":
        texts = [line for _, line in stdin_lines()]
    else:
        from firth import api

        texts = list(api.read_texts(source, column))
    if not any(text.strip() for text in texts):
        raise FirthError(f"{source}: no text in it; give one text a line")
    return texts


def all_layers(model: Model, texts: list[str], pool: str) -> NDArray[np.float32]:
    """Every layer of every text, [N, L+1, D]."""
    import numpy as np

    num_layers = len(model.layers("a").hidden)
    return np.stack([model.encode(texts, layer, pool) for layer in range(num_layers)], axis=1)


def write_vectors(model: Model, texts: list[str], out: Path, layer: int | None, pool: str) -> tuple[int, ...]:
    """A float32 ``.npy`` file that appears when it is whole; returns its shape. No layer means all of them."""
    import numpy as np

    if out.suffix != ".npy":
        raise FirthError(f"{out}: vectors are written as NumPy arrays; choose a name that ends in .npy")
    if not out.parent.is_dir():
        raise FirthError(f"{out}: the folder {out.parent} does not exist; make it first")
    shape = (len(texts), model.dim) if layer is not None else (len(texts), len(model.layers("a").hidden), model.dim)
    with atomic_file(out) as handle:
        np.lib.format.write_array_header_1_0(handle, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for start in range(0, len(texts), _TOGETHER):
            some = texts[start : start + _TOGETHER]
            found = model.encode(some, layer, pool) if layer is not None else all_layers(model, some, pool)
            handle.write(found.astype("<f4").tobytes())
    return shape
