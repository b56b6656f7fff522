"""Commands that measure: evaluate, compare, probe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firth.cli.main import (
    EVALUATE,
    Address,
    AnyModel,
    Cores,
    Dev,
    Encoding,
    Engine,
    Json,
    Label,
    LabelSeparator,
    MinConfidence,
    Second,
    Settings,
    Shares,
    ShownExamples,
    SkipBad,
    Template,
    Text,
    Train,
    app,
    parse_shares,
    written,
)

if TYPE_CHECKING:
    from firth.api.using import PlainData
    from firth.evaluation.compare.ranking import ComparisonTable

Similarity = Annotated[
    list[Path] | None,
    typer.Option(help="For static vectors: a word-similarity file (two words and a score per line)."),
]
Analogies = Annotated[
    list[Path] | None, typer.Option(help="For static vectors: an analogy file (four words per line).")
]
HeldoutCorpus = Annotated[
    Path | None, typer.Option(help="Evaluate on the held-out part of this corpus; by default the run's own.")
]
NumTexts = Annotated[int, typer.Option(min=1, help="Sentences for the pseudo-perplexity.")]
Data = Annotated[
    Path | None,
    typer.Option(
        help="For tasks: a labelled file. For sentence vectors: scored pairs, questions with passages, or texts with a class."
    ),
]
Limit = Annotated[int | None, typer.Option(help="Answer analogies among this many first words only.")]
SourceFile = Annotated[Path | None, typer.Option(help="For translation models: a file of sentences, one per line.")]
ReferenceFile = Annotated[Path | None, typer.Option(help="For translation models: the reference translations.")]
TranslatorBeams = Annotated[int, typer.Option(min=1, help="For translation models: the width of the beam.")]
MinimalPairs = Annotated[
    Path | None,
    typer.Option(
        help="For language models and masked models: pairs of a right and a wrong sentence, a file or a folder."
    ),
]
NumPairs = Annotated[int | None, typer.Option(min=1, help="Of each set of minimal pairs the first so many.")]
Scoring = Annotated[
    str | None,
    typer.Option(help="How sentences are scored: masked, masked-word or left-to-right, where the model can."),
]

CacheSize = Annotated[
    int | None,
    typer.Option(min=1, help="For recurrent language models: a cache of so many of the tokens before, such as 2000."),
]


@app.command(rich_help_panel=EVALUATE)
def evaluate(
    run: AnyModel,
    corpus: HeldoutCorpus = None,
    num_texts: NumTexts = 50,
    data: Data = None,
    text: Text = None,
    second: Second = None,
    label: Label = None,
    label_separator: LabelSeparator = None,
    encoding: Encoding = None,
    min_confidence: MinConfidence = None,
    examples: ShownExamples = None,
    template: Template = None,
    similarity: Similarity = None,
    analogies: Analogies = None,
    limit: Limit = None,
    source: SourceFile = None,
    reference: ReferenceFile = None,
    beams: TranslatorBeams = 5,
    minimal_pairs: MinimalPairs = None,
    num: NumPairs = None,
    scoring: Scoring = None,
    cache: CacheSize = None,
    as_json: Json = False,
) -> None:
    """Measure a model by what it is given: held-out text, labelled texts (--data), words (--similarity, --analogies),
    translations (--source, --reference) or minimal pairs (--minimal-pairs).

    Example: firth evaluate runs/bert
    """
    from firth.api import evaluating
    from firth.cli.progress import progress_display

    with progress_display("scoring", as_json or minimal_pairs is None) as progress:
        found = evaluating.evaluate(
            run,
            corpus,
            num_texts=num_texts,
            data=data,
            text=text,
            second=second,
            label=label,
            label_separator=label_separator,
            encoding=encoding,
            min_confidence=min_confidence,
            examples=examples,
            template=written(template),
            similarity=similarity or (),
            analogies=analogies or (),
            limit=limit,
            source=source,
            reference=reference,
            beams=beams,
            minimal_pairs=minimal_pairs,
            num=num,
            scoring=scoring,
            cache=cache,
            progress=progress,
        )
    on = "words" if similarity or analogies else str(minimal_pairs or data or source or "held-out text")
    _say_scores(run, on, found, as_json)


def _say_scores(run: Path, what: str, found: "PlainData", as_json: bool) -> None:
    from firth.cli.describe import label_rows, label_warnings, word_rows
    from firth.cli.main import say, say_json, say_wrapped, table
    from firth.core.run import LabelScore
    from firth.reports.card import show_fact

    if as_json:
        say_json({"run": str(run), "on": what, **found})
        return
    say(f"{run}: on {what}")
    if "sets" in found:
        from firth.cli.describe import pair_lines

        for line in pair_lines(found):
            say(line)
        return
    if what == "words":
        table(word_rows(found))
        return
    interval = found.get("interval")
    rows = [
        (name.replace("_", " "), show_fact(value))
        for name, value in found.items()
        if name not in ("interval", "by_label", "by_confidence")
    ]
    if interval is not None:
        rows.append(
            (f"{interval['metric'].replace('_', ' ')}, 95 %", f"{interval['low']:.4f} to {interval['high']:.4f}")
        )
    rows += [
        (f"p at least {one['min_confidence']:g}", f"{one['coverage']:.1%} of texts, accuracy {one['accuracy']:.4f}")
        for one in found.get("by_confidence", [])
        if one["min_confidence"]
    ]
    by_label = {label: LabelScore.model_validate(one) for label, one in found.get("by_label", {}).items()}
    table(rows + label_rows(by_label))
    for warning in label_warnings(by_label):
        say_wrapped(warning, others="  ")


RawText = Annotated[
    list[str] | None, typer.Option(help="Raw text (files, folders, globs) or a prepared corpus; may be repeated.")
]
Test = Annotated[Path | None, typer.Option(help="Labelled examples for the scores; without it, dev.")]
Budget = Annotated[str, typer.Option(help="The time for all trainings together, for example 30m.")]
Recipes = Annotated[
    str | None,
    typer.Option(help="Recipes, runs, Hugging Face directories, files of vectors or scratch, separated by commas."),
]
CompareOut = Annotated[Path, typer.Option(help="The folder for all files; the same command continues there.")]
Layout = Annotated[str, typer.Option(help="Of raw txt: file, blank or line; auto decides by the content.")]
Column = Annotated[str, typer.Option(help="The column or key that holds the raw text.")]
VocabSize = Annotated[int, typer.Option(help="The number of subwords to learn from raw text.")]
Cased = Annotated[bool | None, typer.Option("--cased/--lowercase", help="Keep upper case; by default only for tags.")]


@app.command(rich_help_panel=EVALUATE)
def compare(
    task: Annotated[str, typer.Argument(help="classify, score, tag or answer.")],
    settings: Settings = None,
    corpus: RawText = None,
    train: Train = None,
    dev: Dev = None,
    test: Test = None,
    budget: Budget = "30m",
    recipes: Recipes = None,
    seeds: Annotated[int, typer.Option(min=1, help="The number of fine-tunings of each.")] = 3,
    shares: Shares = None,
    out: CompareOut = Path("compare"),
    text: Text = None,
    second: Second = None,
    label: Label = None,
    encoding: Encoding = None,
    layout: Layout = "auto",
    column: Column = "text",
    vocab_size: VocabSize = 8000,
    cased: Cased = None,
    skip_bad: SkipBad = False,
    max_test: Annotated[int, typer.Option(min=1, help="The largest number of examples to score.")] = 3000,
    engine: Engine = "local",
    address: Address = None,
    cores: Cores = 1,
    as_json: Json = False,
) -> None:
    """Compare models on your text and your labels: which representation is worth its cost?

    Example: firth compare classify --corpus news.txt --train train.tsv --dev dev.tsv --budget 30m --out compared
    """
    from firth.api import evaluating
    from firth.cli.main import say
    from firth.cli.progress import progress_display
    from firth.core.config import parse_settings
    from firth.core.errors import FirthError

    if train is None:
        raise FirthError("compare needs labelled examples: name them with --train")
    found = evaluating.compare(
        task,
        corpus=corpus or (),
        train=train,
        dev=dev,
        test=test,
        out=out,
        budget=budget,
        recipes=recipes,
        seeds=seeds,
        shares=parse_shares(shares),
        text=text,
        second=second,
        label=label,
        encoding=encoding,
        layout=layout,
        column=column,
        vocab_size=vocab_size,
        cased=cased,
        skip_bad=skip_bad,
        max_test=max_test,
        engine=engine,
        address=address,
        cores=cores,
        stage=lambda title: progress_display(title, as_json),
        note=None if as_json else say,
        settings=parse_settings(settings or ()),
    )
    _say_compared(found, out, as_json)


def _say_compared(found: "ComparisonTable", out: Path, as_json: bool) -> None:
    from firth.cli.main import say, say_json

    if as_json:
        say_json(found)
        return
    for line in found.lines():
        say(line)
    if found["cached"]:
        say("nothing was trained: all results existed already")
    say(f"report: {out}/report.html")


Pos = Annotated[Path | None, typer.Option(help="Sentences with parts of speech (CoNLL-U, columns, jsonl).")]
PosTest = Annotated[Path | None, typer.Option(help="The same for the test; without it every fifth sentence of --pos.")]
Tag = Annotated[str, typer.Option(help="Which tags of CoNLL-U: upos or xpos.")]
Senses = Annotated[
    list[Path] | None, typer.Option(help="XML with senses (the key file is in the same folder); may be repeated.")
]
SensesTest = Annotated[
    list[Path] | None, typer.Option(help="The same for the test; without it every fifth of --senses.")
]
FirstSenses = Annotated[
    Path | None, typer.Option(help="First senses for words not in training: WordNet's index.sense.")
]
ProbedTexts = Annotated[Path | None, typer.Option(help="Text for perplexity and attention.")]
Language = Annotated[str, typer.Option(help="Of the built-in sample that replaces missing files: en or zh.")]
Most = Annotated[int, typer.Option(min=1, help="The largest number of words of a file that a probe reads.")]
NumProbed = Annotated[int, typer.Option(min=1, help="The largest number of sentences for perplexity and attention.")]
ProbeOut = Annotated[
    Path | None, typer.Option(help="Folder for report.html and probe.json; for a run of Firth RUN/probe.")
]


@app.command(rich_help_panel=EVALUATE)
def probe(
    model: AnyModel,
    pos: Pos = None,
    pos_test: PosTest = None,
    tag: Tag = "upos",
    senses: Senses = None,
    senses_test: SensesTest = None,
    first_senses: FirstSenses = None,
    texts: ProbedTexts = None,
    encoding: Encoding = None,
    similarity: Similarity = None,
    analogies: Analogies = None,
    language: Language = "en",
    most: Most = 20_000,
    num_texts: NumProbed = 100,
    seed: Annotated[int, typer.Option(help="Of the control task and the probes.")] = 0,
    out: ProbeOut = None,
    as_json: Json = False,
) -> None:
    """Probe each layer of a model: parts of speech, senses, attention, with baselines.

    Example: firth probe runs/bert --pos train.conllu --pos-test test.conllu
    """
    from firth.api import evaluating
    from firth.cli.main import say, say_json, say_wrapped
    from firth.cli.progress import progress_display

    with progress_display("probing", as_json) as progress:
        found = evaluating.probe(
            model,
            out=out,
            pos=pos,
            pos_test=pos_test,
            tag=tag,
            senses=senses or (),
            senses_test=senses_test or (),
            first_senses=first_senses,
            texts=texts,
            encoding=encoding,
            similarity=similarity or (),
            analogies=analogies or (),
            language=language,
            most=most,
            num_texts=num_texts,
            seed=seed,
            progress=progress,
        )
    if as_json:
        say_json({"model": str(model), **found})
        return
    notes = set(found["notes"])
    for line in found.lines():
        if line in notes:
            say_wrapped(line, others="  ")
        else:
            say(line)
