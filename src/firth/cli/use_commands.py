"""Commands that ask a trained model: fill, encode, nearest, analogy, similarity, occurrences."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import app
from firth.cli.options import USE, AnyModel, Json, Layer, Top
from firth.core.errors import FirthError
from firth.core.system import stdin_lines

VectorsPath = Annotated[
    Path, typer.Argument(help="A run of static vectors, or a file of vectors (word2vec, GloVe, fastText).")
]
MaskedTexts = Annotated[
    list[str], typer.Argument(help="Sentences with [MASK] in them; - reads them from standard input, one per line.")
]
EncodedFile = Annotated[
    str,
    typer.Argument(help="A file with one text per line (or any format that prepare reads), or - for standard input."),
]
VectorsOut = Annotated[
    Path | None,
    typer.Option(help="Write float32 vectors to this .npy file; without it, one JSON line per text is printed."),
]
AllLayers = Annotated[bool, typer.Option("--all-layers", help="Every layer instead: texts x layers x dimensions.")]


@app.command(rich_help_panel=USE)
def fill(run: AnyModel, texts: MaskedTexts, top: Top = 5, as_json: Json = False) -> None:
    """Guess the masked words of a sentence.

    Example: firth fill runs/bert "The film was [MASK]."
    """
    import firth
    from firth.cli.app import say, say_json

    lines = [line for word in texts for line in (full_stdin_lines() if word == "-" else [word]) if line.strip()]
    if not lines:
        raise FirthError("no sentence given: write one with [MASK] in it")
    model = firth.load(run)
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


@app.command(rich_help_panel=USE)
def encode(
    run: AnyModel,
    file: EncodedFile,
    out: VectorsOut = None,
    layer: Layer = -1,
    all_layers: AllLayers = False,
    pool: Annotated[str, typer.Option(help="mean, cls or max.")] = "mean",
    column: Annotated[str, typer.Option(help="The column or key that holds the text.")] = "text",
    as_json: Json = False,
) -> None:
    """Turn texts into vectors.

    Example: firth encode runs/bert texts.txt --out vectors.npy
    """
    import firth
    from firth.cli.app import say, say_json

    lines = read_lines(file, column)
    model = firth.load(run)
    if out is None:
        for text in lines:
            vectors = firth.encode(model, text, layer=layer, all_layers=all_layers, pool=pool)
            say_json({"text": text, "layers" if all_layers else "vector": vectors[0].tolist()}, indent=None)
        return
    shape = firth.encode(model, lines, layer=layer, all_layers=all_layers, pool=pool, out=out).shape
    if as_json:
        say_json({"out": str(out), "texts": shape[0], "dim": shape[-1], **({"layers": shape[1]} if all_layers else {})})
    else:
        say(f"{out}: {shape[0]:,} vectors of {f'{shape[1]} layers of ' if all_layers else ''}{shape[-1]} dimensions")


@app.command(rich_help_panel=USE)
def nearest(
    model: VectorsPath,
    words: Annotated[list[str], typer.Argument(help="Words to look up.")],
    top: Top = 10,
    as_json: Json = False,
) -> None:
    """Show the words nearest to a word.

    Example: firth nearest runs/word2vec king queen
    """
    import firth
    from firth.cli.app import say_found

    loaded = firth.load(model)
    say_found({word: loaded.nearest(word, top) for word in words}, as_json)


@app.command(rich_help_panel=USE)
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
    import firth
    from firth.cli.app import say_found

    found = firth.load(model).analogy(first, second, third, top, method)
    say_found({f"{first} : {second} = {third} : ?": found}, as_json)


@app.command(rich_help_panel=USE)
def similarity(
    model: AnyModel,
    first: Annotated[str, typer.Argument(help="A word (a text, for models of texts).")],
    second: Annotated[str, typer.Argument(help="Another one.")],
    as_json: Json = False,
) -> None:
    """Show how similar two words or texts are (cosine).

    Example: firth similarity runs/word2vec king queen
    """
    import firth
    from firth.cli.app import say, say_json

    found = firth.load(model).similarity(first, second)
    if as_json:
        say_json({"first": first, "second": second, "similarity": found})
    else:
        say(f"{found:.4f}")


@app.command(rich_help_panel=USE)
def occurrences(
    model: AnyModel,
    corpus: Annotated[Path, typer.Argument(help="A corpus, or a file of text; its sentences are searched.")],
    sentence: Annotated[str, typer.Argument(help="A sentence with the word in it.")],
    word: Annotated[str, typer.Option(help="The word that is meant.")],
    top: Top = 10,
    layer: Layer = -1,
    num_sentences: Annotated[int, typer.Option(min=1, help="Sentences to read; held-out ones come first.")] = 2000,
    same_word: Annotated[bool, typer.Option("--same-word", help="Only occurrences of the word itself.")] = False,
    as_json: Json = False,
) -> None:
    """Show where a corpus uses words most like a word in this sentence: senses come apart.

    Example: firth occurrences runs/elmo corpora/words "She sat on the bank of the river." --word bank
    """
    import firth
    from firth.cli.app import say, say_json

    found = firth.occurrences(
        model, corpus, sentence, word, top=top, layer=layer, num_sentences=num_sentences, same_word=same_word
    )
    if as_json:
        say_json([vars(one) for one in found])
        return
    for one in found:
        marked = f"{one.sentence[: one.start]}[{one.word}]{one.sentence[one.end :]}"
        say(f"  {one.score:.4f}  {' '.join(marked.split())}")


def full_stdin_lines() -> list[str]:
    """The lines of standard input that hold something."""
    return [line for _, line in stdin_lines() if line.strip()]


def read_lines(source: str, column: str) -> list[str]:
    """One text per line from a file or standard input, also empty ones; tables and jsonl by their column."""
    from firth.data.texts import read_texts

    texts = [line for _, line in stdin_lines()] if source == "-" else list(read_texts(source, column))
    if not any(text.strip() for text in texts):
        raise FirthError(f"{source}: no text in it; give one text per line")
    return texts
