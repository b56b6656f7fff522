"""Commands to begin with: quickstart, prepare, prepare-pairs, info."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.main import PREPARE, START, Json, Overwrite, app

if TYPE_CHECKING:
    from firth.corpus.format import CorpusInfo

Inputs = Annotated[
    list[str],
    typer.Argument(
        help="Text files, folders or globs (txt, jsonl, csv, tsv, parquet; also .gz, .zst and .zip), or - for standard input."
    ),
]
PairInputs = Annotated[
    list[Path],
    typer.Argument(help="Two files whose lines belong together, or .tsv, .jsonl or .tmx files (also .gz, .zst)."),
]
CorpusOut = Annotated[Path, typer.Option(help="The corpus folder to make.")]
Tokens = Annotated[str, typer.Option(help="wordpiece, bpe, unigram, words or characters.")]
PairTokens = Annotated[str, typer.Option(help="bpe, unigram or wordpiece.")]
VocabSize = Annotated[int, typer.Option(help="Pieces to learn (not for words: all are kept).")]
Lowercase = Annotated[bool, typer.Option("--lowercase/--cased", help="Fold upper case, or keep it.")]
StripAccents = Annotated[
    bool,
    typer.Option("--strip-accents", help="For wordpiece: take marks off letters as BERT does (über becomes uber)."),
]
ByteFallback = Annotated[
    bool, typer.Option("--byte-fallback", help="Spell what is unknown in bytes, so that nothing becomes [UNK].")
]
WordSplit = Annotated[
    str, typer.Option(help="For words: 'words' finds them, 'whitespace' takes the text as split already.")
]
Tokenizer = Annotated[
    Path | None,
    typer.Option(help="Use this tokenizer (folder, tokenizer.json, vocab.txt) instead of learning one."),
]
Format = Annotated[str, typer.Option(help="txt, jsonl, csv, tsv or parquet; auto goes by the name.")]
Layout = Annotated[
    str,
    typer.Option(
        help="Of txt: file (one document), blank (a sentence per line, blank lines between documents), line (a document per line); auto looks."
    ),
]
Column = Annotated[str, typer.Option(help="The column or key that holds the text.")]
Encoding = Annotated[str, typer.Option(help="The encoding of the files.")]
Heldout = Annotated[
    float | None, typer.Option(help="Share of documents kept for testing; by default 0.01, or 0.05 below 20 MB.")
]
PairHeldout = Annotated[float | None, typer.Option(help="Share of pairs kept for testing, 0.02 without --dev.")]
Deduplicate = Annotated[
    bool, typer.Option("--deduplicate", help="Leave out documents that were there before, letter for letter.")
]
Workers = Annotated[
    int | None, typer.Option(help="Processes; by default one per core. The result does not depend on it.")
]
PairDev = Annotated[list[Path] | None, typer.Option(help="Files for testing (give two files as --dev A --dev B).")]
Separate = Annotated[bool, typer.Option("--separate", help="A vocabulary for each side, not one for both.")]
Source = Annotated[str | None, typer.Option(help="The column, key or language of the source.")]
Target = Annotated[str | None, typer.Option(help="The column, key or language of the target.")]
MaxLen = Annotated[int, typer.Option(min=1, help="Leave out longer sentences (tokens).")]
MaxRatio = Annotated[float, typer.Option(min=1, help="Leave out pairs whose lengths differ more.")]


@app.command(rich_help_panel=START)
def quickstart(
    folder: Annotated[Path, typer.Option(help="Where to put everything.")] = Path("quickstart"),
    lang: Annotated[str, typer.Option(help="en or zh.")] = "en",
    budget: Annotated[str, typer.Option(help="How long all trainings may take together.")] = "5m",
    as_json: Json = False,
) -> None:
    """Do the main job once, on text that is already here: compare representations, fill in masked words.

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
    format: Format = "auto",
    layout: Layout = "auto",
    column: Column = "text",
    encoding: Encoding = "utf-8",
    heldout: Heldout = None,
    deduplicate: Deduplicate = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Turn raw text into a corpus that every model trains on.

    Example: firth prepare news/*.txt --out corpora/news
    """
    import firth
    from firth.cli.describe import progress_display

    with progress_display("prepare", as_json) as progress:
        info = firth.prepare(
            inputs,
            out,
            tokens=tokens,
            vocab_size=vocab_size,
            lowercase=lowercase,
            strip_accents=strip_accents,
            byte_fallback=byte_fallback,
            word_split=word_split,
            tokenizer=tokenizer,
            format=format,
            layout=layout,
            column=column,
            encoding=encoding,
            heldout=heldout,
            deduplicate=deduplicate,
            workers=workers,
            overwrite=overwrite,
            progress=progress,
        )
    _say_corpus(info, out, as_json)


def _say_corpus(info: CorpusInfo, out: Path, as_json: bool) -> None:
    """What was made, and a recipe that trains on it."""
    from firth.cli.describe import corpus_rows
    from firth.cli.main import say, say_json, table

    if as_json:
        say_json({"corpus": str(out), **info.model_dump(exclude={"checksums"})})
        return
    kind = info.tokens.kind
    say(f"{out}: a corpus of {kind}")
    table(corpus_rows(info))
    if kind == "words":
        say(f"next: firth pretrain word2vec --corpus {out} --out runs/word2vec")
    else:
        recipe = {"bpe": "gpt-tiny", "characters": "gpt-char"}.get(kind, "bert-tiny")
        say(f"next: firth pretrain {recipe} --corpus {out} --out runs/{recipe[: recipe.index('-')]} --budget 10m")


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
    as_json: Json = False,
) -> None:
    """Turn parallel text into a corpus of sentence pairs that translators train on.

    Example: firth prepare-pairs train.en train.de --out corpora/ende
    """
    import firth
    from firth.cli.describe import pairs_rows, progress_display
    from firth.cli.main import say, say_json, table

    with progress_display("prepare-pairs", as_json) as progress:
        info = firth.prepare_pairs(
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
            progress=progress,
        )
    if as_json:
        say_json({"corpus": str(out), **info.model_dump(exclude={"checksums"})})
        return
    say(f"{out}: a corpus of sentence pairs")
    table(pairs_rows(info))
    say(f"next: firth pretrain transformer-tiny --corpus {out} --out runs/mt --budget 30m")


@app.command(rich_help_panel=PREPARE)
def info(
    path: Annotated[Path, typer.Argument(help="A corpus, a run or a Hugging Face directory.")],
    as_json: Json = False,
) -> None:
    """Show what a corpus or a run is, and check that its files are whole.

    Example: firth info corpora/news
    """
    from firth.cli.describe import describe
    from firth.cli.main import say, say_json, table

    kind, rows, data = describe(path)
    if as_json:
        say_json({"path": str(path), "kind": kind, **data})
        return
    say(f"{path}: {kind}")
    table(rows)
