"""Commands that use a trained model: fill, encode, nearest, analogy, similarity, occurrences, generate, translate."""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.main import USE, Address, AnyModel, Encoding, Engine, Json, Layer, Top, app
from firth.core.errors import FirthError
from firth.core.files import stdin_lines

_BLOCK = 500  # lines that are translated as one batch, sorted by length

VectorsPath = Annotated[
    Path, typer.Argument(help="A run of static vectors, or a file of vectors (word2vec, GloVe, fastText).")
]
MaskedTexts = Annotated[
    list[str], typer.Argument(help="Sentences with [MASK] in them; - reads them from standard input, one per line.")
]
EncodedFile = Annotated[
    str,
    typer.Argument(
        help="A file with one text per line (or any format that prepare reads), - for standard input, or a text."
    ),
]
VectorsOut = Annotated[
    Path | None,
    typer.Option(help="Write float32 vectors to this .npy file; without it, one JSON line per text is printed."),
]
AllLayers = Annotated[bool, typer.Option("--all-layers", help="Return every layer: texts x layers x dimensions.")]


@app.command(rich_help_panel=USE)
def fill(run: AnyModel, texts: MaskedTexts, top: Top = 5, as_json: Json = False) -> None:
    """Predict the masked words of a sentence.

    Example: firth fill runs/bert "The film was [MASK]."
    """
    from firth.api import using
    from firth.cli.main import say, say_json

    lines = [line for word in texts for line in (full_stdin_lines() if word == "-" else [word]) if line.strip()]
    if not lines:
        raise FirthError("no sentence given: write one with [MASK] in it")
    model = using.load(run)
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
    pool: Annotated[
        str | None, typer.Option(help="mean, cls, max or last.  [default: as the model's modules say, or mean]")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Written before each text: a prompt of the model by name, or any words.")
    ] = None,
    column: Annotated[
        str, typer.Option(help="The column or key that holds the text; without a text, one of another usual name.")
    ] = "text",
    encoding: Encoding = None,
    engine: Engine = "local",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Turn texts into vectors.

    Example: firth encode runs/bert texts.txt --out vectors.npy
    """
    from firth.api import encoding as encoders
    from firth.api import using
    from firth.cli.main import say_json, say_wrapped

    empty = 0

    def counted(texts: Iterator[str]) -> Iterator[str]:
        nonlocal empty
        for text in texts:
            empty += not text.strip()
            yield text

    lines = counted(_encoded(run, file, column, encoding))
    model = using.load(run) if engine == "local" else run
    if out is None and engine == "local":
        for text in lines:
            vectors = encoders.encode(model, text, layer=layer, all_layers=all_layers, pool=pool, prompt=prompt)
            say_json({"text": text, "layers" if all_layers else "vector": vectors[0].tolist()}, indent=None)
        return
    shape = encoders.encode(
        model,
        lines,
        layer=layer,
        all_layers=all_layers,
        pool=pool,
        prompt=prompt,
        out=out,
        engine=engine,
        address=address,
    ).shape
    if as_json:
        layers = {"layers": shape[1]} if all_layers else {}
        say_json(
            {"out": str(out), "texts": shape[0], "dim": shape[-1], **layers, **({"empty": empty} if empty else {})}
        )
    else:
        size = f"{f'{shape[1]} layers of ' if all_layers else ''}{shape[-1]} dimensions"
        none = f", {empty:,} of them of empty texts" if empty else ""
        say_wrapped(f"{out}: {shape[0]:,} vectors of {size}{none}", others="  ")


@app.command(rich_help_panel=USE)
def explain(
    model: AnyModel,
    text: Annotated[str, typer.Argument(help="The text to explain.")],
    second: Annotated[str | None, typer.Option(help="The second text of a pair.")] = None,
    label: Annotated[str | None, typer.Option(help="The label to explain.  [default: the predicted one]")] = None,
    method: Annotated[str, typer.Option(help="occlusion, gradient or both.")] = "both",
    top: Annotated[int, typer.Option(min=1, help="How many words to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Show how much each word adds to what a classifier or scorer answers.

    Example: firth explain runs/mood "A warm and funny film."
    """
    from dataclasses import asdict

    from firth.api import using
    from firth.cli.main import say, say_json

    found = using.explain(model, text, second=second, label=label, method=method)
    if as_json:
        say_json(asdict(found))
        return
    say(f"{found.label or 'score'}  {found.value:.3f}")
    ranked = sorted(
        found.words, key=lambda word: -abs(word.occlusion if word.occlusion is not None else word.gradient or 0)
    )
    columns = [name for name in ("occlusion", "gradient") if getattr(found.words[0], name) is not None]
    say("  " + "  ".join(f"{name:>9}" for name in columns) + "  word")
    for word in ranked[:top]:
        say("  " + "  ".join(f"{getattr(word, name):>+9.3f}" for name in columns) + f"  {word.text}")
    if found.agreement is not None:
        say(f"agreement of both methods (rank correlation): {found.agreement:.2f}")
    if found.note:
        say(found.note)


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
    from firth.api import using
    from firth.cli.main import say_found

    loaded = using.load(model)
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
    from firth.api import using
    from firth.cli.main import say_found

    found = using.load(model).analogy(first, second, third, top, method)
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
    from firth.api import using
    from firth.cli.main import say, say_json

    found = using.load(model).similarity(first, second)
    if as_json:
        say_json({"first": first, "second": second, "similarity": found})
    else:
        say(f"{found:.4f}")


@app.command(rich_help_panel=USE)
def occurrences(
    model: AnyModel,
    corpus: Annotated[Path, typer.Argument(help="A corpus, or a file of text; its sentences are searched.")],
    sentence: Annotated[str, typer.Argument(help="A sentence with the word in it.")],
    word: Annotated[str, typer.Option(help="The word of the sentence.")],
    top: Top = 10,
    layer: Layer = -1,
    num_sentences: Annotated[int, typer.Option(min=1, help="Sentences to read; held-out ones come first.")] = 2000,
    same_word: Annotated[bool, typer.Option("--same-word", help="Only occurrences of the word itself.")] = False,
    as_json: Json = False,
) -> None:
    """Find the words of a corpus that are most similar in context to a word of a sentence, to tell its senses apart.

    Example: firth occurrences runs/elmo corpora/words "She sat on the bank of the river." --word bank
    """
    from firth.api import using
    from firth.cli.main import say_json, say_wrapped

    found = using.occurrences(
        model, corpus, sentence, word, top=top, layer=layer, num_sentences=num_sentences, same_word=same_word
    )
    if as_json:
        say_json([vars(one) for one in found])
        return
    for one in found:
        marked = f"{one.sentence[: one.start]}[{one.word}]{one.sentence[one.end :]}"
        say_wrapped(" ".join(marked.split()), f"  {one.score:.4f}  ", "          ")


def full_stdin_lines() -> list[str]:
    """The lines of standard input that are not empty."""
    return [line for _, line in stdin_lines() if line.strip()]


def _encoded(run: Path, file: str, column: str, encoding: str | None) -> Iterator[str]:
    """The texts to encode, or for a model of images the paths of these."""
    from firth.api.tasks import reads_images
    from firth.cli.main import is_text
    from firth.data.images import find_images

    if reads_images(run):
        return (str(example.path) for example in find_images(Path(file)) if example.path is not None)
    return iter([file]) if is_text(file) else stream_lines(file, column, encoding)


def stream_lines(source: str, column: str, encoding: str | None = None) -> Iterator[str]:
    """As ``read_lines``, as they are needed; a source without any text is refused before the first one is used."""
    from firth.data.readers import read_texts

    texts = (line for _, line in stdin_lines()) if source == "-" else read_texts(source, column, encoding or "utf-8")
    blank: list[str] = []
    for text in texts:
        if text.strip():
            return chain(blank, [text], texts)
        blank.append(text)
    raise FirthError(f"{source}: no text in it; give one text per line")


def read_lines(source: str, column: str) -> list[str]:
    """One text per line from a file or standard input, empty ones included; of tables and jsonl a column."""
    from firth.data.readers import read_texts

    texts = [line for _, line in stdin_lines()] if source == "-" else list(read_texts(source, column))
    if not any(text.strip() for text in texts):
        raise FirthError(f"{source}: no text in it; give one text per line")
    return texts


Writer = Annotated[Path, typer.Argument(help="A run of a language model or a Hugging Face GPT-2 directory.")]
Prompt = Annotated[
    str, typer.Argument(help="The beginning of the text; - reads one text per line from standard input.")
]
Num = Annotated[int, typer.Option(help="The number of continuations.")]
MaxTokens = Annotated[int, typer.Option(help="The largest number of new tokens.")]
Beams = Annotated[int, typer.Option(help="The width of beam search; 0 samples instead.")]
LengthPenalty = Annotated[float, typer.Option(help="Of beam search, as in GNMT; 0 favours short texts.")]
Temperature = Annotated[float, typer.Option(help="Of sampling; below 1 favours likely tokens, 0 is greedy.")]
TopK = Annotated[int, typer.Option(help="Sample among the k most likely tokens; 0 means all.")]
TopP = Annotated[float, typer.Option(help="Sample among the most likely tokens that have this probability together.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same text.")]
MinTokens = Annotated[int, typer.Option(help="The smallest number of new tokens.")]
NoRepeat = Annotated[int, typer.Option(help="n-grams of this length do not repeat; 0 allows them.")]
Repetition = Annotated[float, typer.Option(help="Above 1 makes tokens that were used less likely.")]
TraceFile = Annotated[Path | None, typer.Option(help="Write the tree of the beam search to this JSON file.")]


@app.command(rich_help_panel=USE)
def generate(
    run: Writer,
    text: Prompt,
    num: Num = 1,
    max_tokens: MaxTokens = 50,
    beams: Beams = 0,
    length_penalty: LengthPenalty = 0.6,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    min_tokens: MinTokens = 0,
    no_repeat_ngram: NoRepeat = 0,
    repetition_penalty: Repetition = 1.0,
    trace: TraceFile = None,
    as_json: Json = False,
) -> None:
    """Continue a text.

    Example: firth generate runs/gpt "Once upon a time" --temperature 0.8 --top-k 40
    """
    from firth.api import using

    texts = full_stdin_lines() if text == "-" else [text]
    if trace is not None and not beams:
        raise FirthError("--trace shows a beam search: set its width, for example --beams 4")
    if trace is not None and not trace.parent.is_dir():
        raise FirthError(f"{trace}: the folder {trace.parent} does not exist; make it first")
    found = using.generate(
        run,
        texts,
        num=num,
        max_tokens=max_tokens,
        beams=beams,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        min_tokens=min_tokens,
        no_repeat_ngram=no_repeat_ngram,
        repetition_penalty=repetition_penalty,
        trace=trace,
    )
    _say_continuations([(text, [vars(one) for one in some]) for text, some in zip(texts, found, strict=True)], as_json)


def _say_continuations(found: list[tuple[str, list[dict[str, object]]]], as_json: bool) -> None:
    """Prints the continuations, separated by lines."""
    from firth.cli.main import say, say_json

    if as_json:
        say_json([{"text": text, "continuations": some} for text, some in found])
        return
    say("\n---\n".join(str(one["text"]) for _, some in found for one in some))


@app.command(rich_help_panel=USE)
def translate(
    run: Annotated[Path, typer.Argument(help="A translation model: a run or a Marian directory.")],
    texts: Annotated[
        list[str], typer.Argument(help="Sentences, or one file of them (one per line), or - for standard input.")
    ],
    beams: Annotated[int, typer.Option(min=1, help="The width of the beam; 1 is greedy.")] = 5,
    nbest: Annotated[int, typer.Option(min=1, help="The number of translations of each sentence.")] = 1,
    length_penalty: Annotated[
        float, typer.Option(min=0, help="Larger values favour longer translations; 0: none.")
    ] = 0.6,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="The largest number of tokens of a translation.")
    ] = None,
    copy_unknown: Annotated[
        bool, typer.Option("--copy-unknown", help="Replace unknown target words by their source words.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="The beginning of every translation.")] = "",
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Translate sentences, a file or standard input, in constant memory.

    Example: firth translate runs/mt "A dog runs." --beams 5
    """
    from firth.api import using
    from firth.cli.main import say, say_json

    lines = _lines(texts, encoding)
    model = using.load(run)
    for block in _blocks(lines, 1 if texts == ["-"] and sys.stdin.isatty() else _BLOCK):
        found = model.translations(
            block,
            beams,
            nbest,
            length_penalty=length_penalty,
            max_tokens=max_tokens,
            copy_unknown=copy_unknown,
            prefixes=[prefix] * len(block) if prefix else None,
        )
        for text, best in zip(block, found, strict=True):
            if as_json:
                rows = [{"text": one.text, "score": one.score} for one in best]
                say_json({"source": text, "translations": rows}, indent=None)
            elif nbest == 1:
                say(best[0].text)
            else:
                for one in best:
                    say(f"{one.normalised:.4f}\t{one.text}")
        sys.stdout.flush()


def _lines(texts: list[str], encoding: str | None) -> Iterable[str]:
    """The given sentences, or the lines of a file or of standard input."""
    from firth.data.readers import read_texts

    if texts == ["-"]:
        return (line for _, line in stdin_lines())
    if len(texts) == 1 and os.path.isfile(texts[0]):  # also False for a sentence that is too long for a file name
        return read_texts(texts[0], encoding=encoding or "utf-8")
    return texts


def _blocks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    stream = iter(lines)
    while block := list(islice(stream, size)):
        yield block
