"""Commands that look at words in context: occurrences."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.app import Json, app


@app.command()
def occurrences(
    model: Annotated[Path, typer.Argument(help="A run or model: ELMo, BERT, any that gives vectors for words.")],
    corpus: Annotated[Path, typer.Argument(help="A corpus, or a file of text; its sentences are searched.")],
    sentence: Annotated[str, typer.Argument(help="A sentence with the word in it.")],
    word: Annotated[str, typer.Option(help="The word that is meant.")],
    top: Annotated[int, typer.Option(min=1, help="How many occurrences.")] = 10,
    layer: Annotated[int, typer.Option(help="Which layer: 0 is the token layer, -1 the last.")] = -1,
    sentences: Annotated[int, typer.Option(min=1, help="How many sentences to read; held-out ones come first.")] = 2000,
    same_word: Annotated[bool, typer.Option("--same-word", help="Only occurrences of the word itself.")] = False,
    as_json: Json = False,
) -> None:
    """Show where a corpus uses words most like a word in this sentence: senses come apart.

    Example: firth occurrences runs/elmo corpora/words "She sat on the bank of the river." --word bank
    """
    from firth import api
    from firth.cli.output import say, say_json

    found = api.occurrences(
        model, corpus, sentence, word, top=top, layer=layer, num_sentences=sentences, same_word=same_word
    )
    if as_json:
        say_json([vars(one) for one in found])
        return
    for one in found:
        marked = f"{one.sentence[: one.start]}[{one.word}]{one.sentence[one.end :]}"
        say(f"  {one.score:.4f}  {' '.join(marked.split())}")
