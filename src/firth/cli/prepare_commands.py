"""Commands on text and corpora: quickstart, prepare, prepare-pairs, prepare-images, tokens, info."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.main import PREPARE, START, Address, Engine, Json, Overwrite, app

if TYPE_CHECKING:
    from firth.corpus.format import CorpusInfo

Inputs = Annotated[
    list[str],
    typer.Argument(
        help="Text files, folders or globs (txt, jsonl, csv, tsv, parquet, docx, pdf, tar, folders of datasets; also .gz, .zst and .zip), or - for standard input."
    ),
]
PairInputs = Annotated[
    list[Path],
    typer.Argument(help="Two files whose lines belong together, or .tsv, .jsonl or .tmx files (also .gz, .zst)."),
]
CorpusOut = Annotated[Path, typer.Option(help="The new corpus folder.")]
Tokens = Annotated[str, typer.Option(help="wordpiece, bpe, unigram, words or characters.")]
PairTokens = Annotated[str, typer.Option(help="bpe, unigram or wordpiece.")]
VocabSize = Annotated[int, typer.Option(help="The number of subwords to learn (with words, all are kept).")]
Lowercase = Annotated[bool, typer.Option("--lowercase/--cased", help="Fold upper case, or keep it.")]
StripAccents = Annotated[
    bool,
    typer.Option(
        "--strip-accents",
        help="For wordpiece: strip accents and other marks, as uncased BERT does (über becomes uber).",
    ),
]
ByteFallback = Annotated[
    bool, typer.Option("--byte-fallback", help="Encode unknown words as bytes, so that nothing becomes [UNK].")
]
WordSplit = Annotated[
    str, typer.Option(help="For words: 'words' segments the text, 'whitespace' splits at white space only.")
]
Tokenizer = Annotated[
    Path | None,
    typer.Option(help="Use this tokenizer (folder, tokenizer.json, vocab.txt) instead of learning one."),
]
Dictionary = Annotated[
    Path | None,
    typer.Option(
        help="Words that the Chinese segmenter keeps whole, one per line; they are stored with the corpus and its models."
    ),
]
Segmenter = Annotated[
    str,
    typer.Option(help="For scripts without spaces: auto (what is installed: Sudachi, ICU), icu or none."),
]
Format = Annotated[
    str, typer.Option(help="txt, jsonl, csv, tsv, parquet, arrow, docx, pdf or tar; auto decides by the file name.")
]
Layout = Annotated[
    str,
    typer.Option(
        help="Of txt: file (one document), blank (a sentence per line, blank lines between documents), line (a document per line); auto decides by the content."
    ),
]
Column = Annotated[str, typer.Option(help="The column or key that holds the text.")]
Encoding = Annotated[str, typer.Option(help="The encoding of the files.")]
Heldout = Annotated[
    float | None, typer.Option(help="Share of documents that is held out; by default 0.01, or 0.05 below 20 MB.")
]
PairHeldout = Annotated[float | None, typer.Option(help="Share of pairs that is held out, 0.02 without --dev.")]
Deduplicate = Annotated[bool, typer.Option("--deduplicate", help="Drop exact duplicates of documents.")]
NearDuplicates = Annotated[
    float | None,
    typer.Option(help="Drop documents at least so similar to an earlier one, for example 0.8 (0 to 1)."),
]
Workers = Annotated[
    int | None, typer.Option(help="Processes; by default one per core. The result does not depend on it.")
]
PairDev = Annotated[list[Path] | None, typer.Option(help="Held-out files (give two files as --dev A --dev B).")]
Separate = Annotated[bool, typer.Option("--separate", help="A vocabulary for each language, not one for both.")]
Source = Annotated[str | None, typer.Option(help="The column, key or language of the source.")]
Target = Annotated[str | None, typer.Option(help="The column, key or language of the target.")]
MaxLen = Annotated[int, typer.Option(min=1, help="Drop longer sentences (in tokens).")]
MaxRatio = Annotated[float, typer.Option(min=1, help="Drop pairs whose lengths differ by more than this factor.")]


@app.command(rich_help_panel=START)
def quickstart(
    folder: Annotated[Path, typer.Option(help="The folder for all files.")] = Path("quickstart"),
    lang: Annotated[str, typer.Option(help="en or zh.")] = "en",
    budget: Annotated[str, typer.Option(help="The time for all trainings together.")] = "5m",
    as_json: Json = False,
) -> None:
    """Run the main workflow on a sample: compare models, fill in masked words.

    Example: firth quickstart --lang zh
    """
    from firth.cli.quickstart import run_quickstart

    run_quickstart(folder, lang, budget, as_json)


@app.command(rich_help_panel=PREPARE)
def prepare(
    inputs: Inputs,
    out: CorpusOut,
    tokens: Tokens = "wordpiece",
    vocab_size: VocabSize = 8000,
    lowercase: Lowercase = True,
    strip_accents: StripAccents = False,
    byte_fallback: ByteFallback = False,
    word_split: WordSplit = "words",
    tokenizer: Tokenizer = None,
    dictionary: Dictionary = None,
    segmenter: Segmenter = "auto",
    format: Format = "auto",
    layout: Layout = "auto",
    column: Column = "text",
    encoding: Encoding = "utf-8",
    heldout: Heldout = None,
    deduplicate: Deduplicate = False,
    near_duplicates: NearDuplicates = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Tokenize raw text into a corpus for pre-training.

    Example: firth prepare news/*.txt --out corpora/news
    """
    from firth.api import data
    from firth.cli.progress import progress_display

    with progress_display("prepare", as_json) as progress:
        info = data.prepare(
            inputs,
            out,
            tokens=tokens,
            vocab_size=vocab_size,
            lowercase=lowercase,
            strip_accents=strip_accents,
            byte_fallback=byte_fallback,
            word_split=word_split,
            tokenizer=tokenizer,
            dictionary=dictionary,
            segmenter=segmenter,
            format=format,
            layout=layout,
            column=column,
            encoding=encoding,
            heldout=heldout,
            deduplicate=deduplicate,
            near_duplicates=near_duplicates,
            workers=workers,
            overwrite=overwrite,
            progress=progress,
            engine=engine,
            address=address,
        )
    _say_corpus(info, out, as_json)


def _say_corpus(info: CorpusInfo, out: Path, as_json: bool) -> None:
    """Prints the corpus and the next command."""
    from firth.cli.describe import corpus_rows
    from firth.cli.main import say, say_json, table

    if as_json:
        say_json({"corpus": str(out), **info.model_dump(exclude={"checksums"})})
        return
    kind = info.tokens.kind
    say(f"{out}: a corpus of {kind}")
    table(corpus_rows(info))
    _say_next(kind, out)


def _say_next(kind: str, out: Path) -> None:
    """The command that trains on a corpus of this kind."""
    from firth.cli.main import say_wrapped
    from firth.core.registry import suggested_recipe

    recipe, spec = suggested_recipe(kind)
    budget = "" if spec.is_table else f" --budget {'30m' if kind == 'pairs' else '10m'}"
    say_wrapped(
        f"next: firth pretrain {recipe} --corpus {shlex.quote(str(out))} --out runs/{spec.name}{budget}", others="  "
    )


@app.command(rich_help_panel=PREPARE)
def prepare_pairs(
    inputs: PairInputs,
    out: CorpusOut,
    dev: PairDev = None,
    tokens: PairTokens = "bpe",
    vocab_size: VocabSize = 8000,
    lowercase: Lowercase = False,
    byte_fallback: ByteFallback = False,
    separate: Separate = False,
    tokenizer: Tokenizer = None,
    source: Source = None,
    target: Target = None,
    encoding: Encoding = "utf-8",
    heldout: PairHeldout = None,
    max_len: MaxLen = 250,
    max_ratio: MaxRatio = 5.0,
    overwrite: Overwrite = False,
    engine: Engine = "local",
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Tokenize parallel text into a corpus of sentence pairs for translation models.

    Example: firth prepare-pairs train.en train.de --out corpora/ende
    """
    from firth.api import data
    from firth.cli.describe import pairs_rows
    from firth.cli.main import say, say_json, table
    from firth.cli.progress import progress_display

    with progress_display("prepare-pairs", as_json) as progress:
        info = data.prepare_pairs(
            inputs,
            out,
            dev=dev or (),
            tokens=tokens,
            vocab_size=vocab_size,
            lowercase=lowercase,
            byte_fallback=byte_fallback,
            separate=separate,
            tokenizer=tokenizer,
            source=source,
            target=target,
            encoding=encoding,
            heldout=heldout,
            max_len=max_len,
            max_ratio=max_ratio,
            overwrite=overwrite,
            engine=engine,
            address=address,
            progress=progress,
        )
    if as_json:
        say_json({"corpus": str(out), **info.model_dump(exclude={"checksums"})})
        return
    say(f"{out}: a corpus of sentence pairs")
    table(pairs_rows(info))
    _say_next("pairs", out)


@app.command(rich_help_panel=PREPARE)
def prepare_images(
    images: Annotated[
        Path, typer.Argument(help="A folder with a folder per class, a table of paths and labels, or an npz.")
    ],
    out: CorpusOut,
    dev: Annotated[Path | None, typer.Option(help="Held-out images, given in the same way.")] = None,
    image_size: Annotated[int, typer.Option(help="The edge to which every image is resized, in pixels.")] = 32,
    num_channels: Annotated[int, typer.Option(help="3 for colour, 1 for grey.")] = 3,
    heldout: Annotated[float | None, typer.Option(help="Share of images that is held out, 0.05 without --dev.")] = None,
    max_pixels: Annotated[int, typer.Option(min=1, help="Larger images are refused before decoding.")] = 50_000_000,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip images that cannot be read.")] = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Decode images into a corpus for ViT and Swin.

    Example: firth prepare-images photos --out corpora/photos --image-size 64
    """
    from firth.api import data
    from firth.cli.describe import images_rows
    from firth.cli.main import say, say_json, table
    from firth.cli.progress import progress_display

    with progress_display("prepare-images", as_json) as progress:
        info = data.prepare_images(
            images,
            out,
            dev=dev,
            image_size=image_size,
            num_channels=num_channels,
            heldout=heldout,
            max_pixels=max_pixels,
            skip_bad=skip_bad,
            workers=workers,
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        say_json({"corpus": str(out), **info.model_dump(exclude={"checksums"})})
        return
    say(f"{out}: a corpus of images")
    table(images_rows(info))
    _say_next("images" if info.labels else "images without labels", out)


@app.command(rich_help_panel=PREPARE)
def tokens(
    model: Annotated[Path, typer.Argument(help="A corpus, a run, a model directory or a file of vectors.")],
    text: Annotated[str, typer.Argument(help="The text.")],
    as_json: Json = False,
) -> None:
    """Show the tokens of a text: ids, places and words, what is unknown and what is lost.

    Example: firth tokens corpora/news "The café was full."
    """
    from firth.api import data
    from firth.cli.describe import token_rows
    from firth.cli.main import say_json, say_wrapped, table

    found = data.tokens(model, text)
    if as_json:
        say_json(found)
        return
    head = f"{model}: {len(found['tokens'])} tokens ({found['kind']}) of {len(found['words'])} words"
    say_wrapped(head, others="  ")
    table(token_rows(found))


@app.command(rich_help_panel=PREPARE)
def words(
    source: Annotated[str, typer.Argument(help="A corpus, or a text file, folder or glob as for prepare.")],
    top: Annotated[int, typer.Option(min=1, help="How many words to show or write.")] = 50,
    min_count: Annotated[int, typer.Option(min=2, help="How often a word must occur.")] = 5,
    max_len: Annotated[int, typer.Option(min=2, max=8, help="The most characters of a word.")] = 4,
    column: Column = "text",
    encoding: Encoding = "utf-8",
    out: Annotated[Path | None, typer.Option(help="Write the words to this file, one per line.")] = None,
    as_json: Json = False,
) -> None:
    """Propose words of a Chinese text that the segmenter does not know, for prepare --dictionary.

    Example: firth words corpora/news --out words.txt
    """
    from dataclasses import asdict

    from firth.api.data import new_words
    from firth.cli.main import say, say_json, table
    from firth.core.files import write_text

    found = new_words(source, min_count=min_count, max_len=max_len, column=column, encoding=encoding)
    if out is not None:
        write_text(out, "".join(f"{one.word}\n" for one in found[:top]))
    if as_json:
        say_json({"source": source, "words": [asdict(one) for one in found[:top]]})
        return
    if not found:
        say(f"{source}: no new words that occur {min_count} times")
        return
    say(f"{source}: {min(top, len(found)):,} of {len(found):,} new words")
    say("word: count, cohesion, entropy before and behind")
    table(
        [
            (one.word, f"{one.count:>7,}  {one.cohesion:5.2f}  {one.left_entropy:5.2f}  {one.right_entropy:5.2f}")
            for one in found[:top]
        ]
    )
    written = out or Path("words.txt")
    say(
        f"next: {'check' if out else 'write'} them {'in' if out else 'to'} {written}, then firth prepare ... --dictionary {written}"
    )


@app.command(rich_help_panel=PREPARE)
def info(
    path: Annotated[Path, typer.Argument(help="A corpus, a run or a Hugging Face directory.")],
    as_json: Json = False,
) -> None:
    """Describe a corpus or a run, and check that its files are intact.

    Example: firth info corpora/news
    """
    from firth.cli.describe import describe
    from firth.cli.main import say, say_json, table
    from firth.core.files import foreign_errors

    with foreign_errors(path, "a corpus, run or model that can be read"):
        kind, rows, data = describe(path)
    if as_json:
        say_json({"path": str(path), "kind": kind, **data})
        return
    say(f"{path}: {kind}")
    table(rows)
