"""Measuring models: ``evaluate``, ``compare`` and ``probe``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firth.api.using import PlainData, load, loaded
from firth.core.config import AnyPath, Settings, as_paths, cluster_for, collect, optional_path
from firth.core.errors import FirthError
from firth.core.types import Progress

if TYPE_CHECKING:
    from firth.evaluation.compare.compare import Stage
    from firth.evaluation.compare.ranking import ComparisonTable
    from firth.evaluation.probe_report import ProbeTable
    from firth.models.shared.model import Model
    from firth.tasks.data import Reading


def evaluate(
    run: AnyPath,
    corpus: AnyPath | None = None,
    *,
    num_texts: int = 50,
    data: AnyPath | None = None,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    label_separator: str | None = None,
    encoding: str | None = None,
    min_confidence: float | None = None,
    examples: AnyPath | None = None,
    template: str | None = None,
    similarity: AnyPath | Sequence[AnyPath] = (),
    analogies: AnyPath | Sequence[AnyPath] = (),
    limit: int | None = None,
    source: AnyPath | None = None,
    reference: AnyPath | None = None,
    beams: int = 5,
    tokenize: str | None = None,
    minimal_pairs: AnyPath | None = None,
    num: int | None = None,
    scoring: str | None = None,
    cache: int | None = None,
    progress: Progress | None = None,
) -> PlainData:
    """Measures a model by what it is given: held-out text, labelled texts, word pairs, translations, or minimal pairs.

    Args:
        run: A finished run, a model directory or a file of word vectors.
        corpus: For pre-trained runs: the corpus whose held-out part is used; by default the run's own.
        num_texts: The number of sentences for the pseudo-perplexity.
        data: For tasks: a labelled file; gives all scores, and the 95 % confidence interval of the main one. For models of
            texts: scored pairs (Spearman; average precision of 0 and 1), pairs of a question and its passage (nDCG@10, recall,
            MRR), or texts with a class (V-measure of clusters). For a search index: questions with the ids of the right
            documents, one a row (nDCG@10, recall, MRR by words, by vectors and by both).
        text, second, label: Its columns; by default those of the training file.
        label_separator: The separator of several labels of a text; by default as for the training file.
        min_confidence: For classes: also the share of texts whose label is that probable (``coverage``), and the accuracy on
            these.
        encoding: Of that file, by default that of the training file; or of ``minimal_pairs``, by default UTF-8.
        examples: For decoders on ``data``: labelled texts for a few-shot prompt; nothing is trained.
        template: The format of an example in the prompt; has ``{text}`` and ``{label}``.
        similarity: For static vectors: word-similarity files (Spearman).
        analogies: For static vectors: analogy files (accuracy by section).
        limit: Answer analogies among the first ``limit`` words only.
        source, reference: For translation models: two line-aligned files (BLEU and chrF of sacrebleu).
        beams: The width of its beam search.
        tokenize: The tokenization of sacrebleu; by default chosen by the language.
        minimal_pairs: For language models and masked models: pairs of an acceptable and an unacceptable sentence, a file or a
            folder of files, as BLiMP is published or with two sentences per line. Gives the share of pairs whose acceptable
            sentence is more probable, by set, phenomenon and field, and baselines that know no grammar.
        num: Use the first ``num`` pairs of each set only.
        scoring: How sentences are scored, if a model supports several ways: ``masked``, ``masked-word`` or ``left-to-right``.
        cache: For recurrent language models on held-out text: remember so many of the tokens before (a continuous cache).
        progress: Called with progress events of minimal pairs.

    Returns:
        The scores by name; for a task also ``interval``, for word files ``similarity`` and ``analogies``.

    Example::

        firth.evaluate("runs/mood", data="test.tsv")["accuracy"]
    """
    _check_one_kind(corpus, data, similarity, analogies, source, reference, examples, template, minimal_pairs)
    if minimal_pairs is None and (num is not None or scoring is not None):
        raise FirthError("--num and --scoring are for minimal pairs: name their file with --minimal-pairs FILE")
    others = (data, source, minimal_pairs)
    if cache is not None and (similarity or analogies or any(other is not None for other in others)):
        raise FirthError("--cache is for the perplexity of held-out text: leave it out here")
    if cache is not None and cache < 1:
        raise FirthError(f"a cache of {cache} tokens remembers nothing: give a number above 0, like --cache 2000")
    if minimal_pairs is not None:
        from firth.evaluation.minimal_pairs import evaluate_minimal_pairs

        return {**evaluate_minimal_pairs(load(run), Path(minimal_pairs), num, scoring, progress, encoding)}
    from firth.api.tasks import reads_images

    if data is not None and reads_images(Path(run)):
        from firth.models.shared.image_model import ImageAnswers

        model = load(run)
        assert isinstance(model, ImageAnswers)
        return {**model.evaluate_images(Path(data))}
    if data is not None:
        from firth.tasks.data import Reading

        reading = Reading(text, second, label, encoding=encoding, separator=label_separator)
        return _evaluate_labelled(run, Path(data), reading, optional_path(examples), template, min_confidence)
    if min_confidence is not None:
        raise FirthError("--min-confidence is for a labelled file: name it with --data FILE")
    if similarity or analogies:
        from firth.evaluation.words import evaluate_words

        return evaluate_words(load(run), as_paths(similarity), as_paths(analogies), limit, str(run))
    if source is not None and reference is not None:
        from firth.evaluation.words import evaluate_translations

        return evaluate_translations(load(run), Path(source), Path(reference), beams, tokenize, str(run))
    from firth.core.run import Run
    from firth.models.pretrain import evaluate_run
    from firth.tasks.write.model import score_heldout

    score_pairs = score_heldout if Run.open(Path(run)).record.kind == "write" else None
    return evaluate_run(Path(run), optional_path(corpus), num_texts, score_pairs, cache)


def _check_one_kind(
    corpus: AnyPath | None,
    data: AnyPath | None,
    similarity: AnyPath | Sequence[AnyPath],
    analogies: AnyPath | Sequence[AnyPath],
    source: AnyPath | None,
    reference: AnyPath | None,
    examples: AnyPath | None,
    template: str | None,
    minimal_pairs: AnyPath | None,
) -> None:
    """Raises an error for arguments that exclude each other."""
    if examples is not None and data is None:
        raise FirthError(
            "--examples are for the prompt before each text of a labelled file: name that file with --data FILE"
        )
    if template is not None and examples is None:
        raise FirthError("--template is the format of prompt examples: name these with --examples FILE")
    if (source is None) != (reference is None):
        raise FirthError("--source and --reference belong together: name both files")
    kinds = {
        "--corpus": corpus is not None,
        "--data": data is not None,
        "--similarity or --analogies": bool(similarity or analogies),
        "--source": source is not None,
        "--minimal-pairs": minimal_pairs is not None,
    }
    given = [name for name, is_given in kinds.items() if is_given]
    if len(given) > 1:
        raise FirthError(f"{' and '.join(given)} measure different things: give one of them")


def _evaluate_labelled(
    run: AnyPath,
    data: Path,
    reading: Reading,
    examples: Path | None,
    template: str | None,
    min_confidence: float | None,
) -> PlainData:
    from firth.retrieval.search import IndexModel
    from firth.tasks.model import TaskModel
    from firth.tasks.predict import evaluate_prompt, evaluate_task
    from firth.tasks.write.model import WritingModel

    model = load(run)
    if examples is not None:
        return evaluate_prompt(model, examples, data, template, reading)
    if isinstance(model, TaskModel | WritingModel):
        return evaluate_task(model, Path(run), data, reading, min_confidence)
    if min_confidence is not None:
        raise FirthError(f"{run}: --min-confidence is for a task that gives classes: leave it out")
    if isinstance(model, IndexModel):
        from firth.evaluation.words import evaluate_index

        return {**evaluate_index(model.index, data, reading)}
    if "encode" not in model.abilities:
        raise FirthError(f"{run}: {model.kind} has neither a task nor vectors of texts that {data} could be scored by")
    from firth.evaluation.words import evaluate_sentences

    return {**evaluate_sentences(model, data, reading)}


def compare(
    task: str,
    *,
    train: AnyPath,
    corpus: AnyPath | Sequence[AnyPath] = (),
    dev: AnyPath | None = None,
    test: AnyPath | None = None,
    out: AnyPath = "compare",
    budget: str = "30m",
    recipes: str | Sequence[str] | None = None,
    seeds: int = 3,
    shares: Sequence[float] = (),
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    encoding: str | None = None,
    layout: str = "auto",
    column: str = "text",
    vocab_size: int = 8000,
    cased: bool | None = None,
    skip_bad: bool = False,
    max_test: int = 3000,
    engine: str = "local",
    address: str | None = None,
    cores: int = 1,
    stage: Stage | None = None,
    note: Callable[[str], None] | None = None,
    settings: Settings | None = None,
    **keywords: object,
) -> ComparisonTable:
    """Says which representation is worth its cost for your text and your labels.

    Recipes are pre-trained on the same text and fine-tuned on the same labels within a time budget, and compared with
    simple baselines. Finished parts are kept below ``out``; the same call continues an interrupted comparison.

    Args:
        task: ``classify``, ``score``, ``tag`` or ``answer``.
        train, dev, test: Labelled examples; without ``test`` the scores are those on ``dev``, without ``dev`` a fifth of
            ``train`` is held out for it.
        corpus: Raw text (files, folders, globs) or a prepared corpus, for recipes that learn from it.
        out: The folder for all files, with ``report.html``.
        budget: The time for all trainings together.
        recipes: Recipes (``"bert-mini num_layers=2"``), runs, model directories, files of vectors, or ``"scratch"``.
        seeds: The number of fine-tunings of each.
        shares: Fine-tune on these shares of the labels as well.
        text, second, label: The columns of the labelled files.
        encoding: The encoding of all files; by default UTF-8, or what a byte order mark says.
        layout, column, vocab_size, cased: How raw text is prepared.
        skip_bad: Whether to skip answers that are not at their place in the passage.
        max_test: The largest number of examples to score.
        engine: ``local``, or ``ray`` for a cluster on which the trainings are jobs; ``out``, files and models lie at the same path
            on every node.
        address: Of the Ray cluster; without it one is started on this machine.
        cores: Of each job of the cluster.
        stage: Called with the name of each step; returns a context manager with its progress callback.
        note: Called with remarks, one sentence each.
        settings: Settings of the task by name.
        **keywords: The same as keywords, for example ``max_len=128``.

    Returns:
        A dictionary with ``rows`` (scores, intervals and costs), ``best`` and ``cheapest``; shown as a table.

    Example::

        firth.compare("classify", corpus="news.txt", train="train.tsv", dev="dev.tsv", budget="30m", out="compared")
    """
    from firth.data.readers import ReadingConfig
    from firth.evaluation.compare.bases import split_recipes
    from firth.evaluation.compare.compare import Comparison
    from firth.evaluation.compare.ranking import ComparisonTable
    from firth.evaluation.compare.tasks import CompareConfig
    from firth.tasks.config import task_config
    from firth.tasks.data import Reading

    given = collect(settings, keywords)
    config = task_config(task).update(given)
    if "max_len" not in given and config.task != "answer":
        config = config.replace(max_len=256)
    options = CompareConfig(
        config,
        corpus=tuple(as_paths(corpus)),
        train=Path(train),
        dev=optional_path(dev),
        test=optional_path(test),
        budget=budget,
        recipes=None if recipes is None else tuple(split_recipes(recipes) if isinstance(recipes, str) else recipes),
        seeds=seeds,
        shares=tuple(shares),
        given=frozenset(given),
        reading=Reading(text, second, label, skip_bad, encoding=encoding),
        raw=ReadingConfig.build({"layout": layout, "column": column, "encoding": encoding or "utf-8"}, "reading"),
        vocab_size=vocab_size,
        cased=config.task == "tag" if cased is None else cased,
        max_test=max_test,
    )
    cluster = cluster_for(engine, address, cores)
    return ComparisonTable(Comparison(options, Path(out), stage, note, cluster).run())


def probe(
    model: AnyPath | Model,
    *,
    out: AnyPath | None = None,
    pos: AnyPath | None = None,
    pos_test: AnyPath | None = None,
    tag: str = "upos",
    senses: AnyPath | Sequence[AnyPath] = (),
    senses_test: AnyPath | Sequence[AnyPath] = (),
    first_senses: AnyPath | None = None,
    texts: AnyPath | None = None,
    encoding: str | None = None,
    similarity: AnyPath | Sequence[AnyPath] = (),
    analogies: AnyPath | Sequence[AnyPath] = (),
    language: str = "en",
    most: int = 20_000,
    num_texts: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProbeTable:
    """Probes each layer of a model: parts of speech, senses, perplexity, attention and single words, with baselines.

    Args:
        model: A run, a model directory, a file of vectors, or a loaded model.
        out: A folder for report.html and probe.json; by default ``probe`` inside a run.
        pos, pos_test: Words with parts of speech (CoNLL-U, columns, jsonl).
        tag: Which tags of CoNLL-U: ``upos`` or ``xpos``.
        senses, senses_test: XML with senses; the key file is in the same folder.
        first_senses: First senses for words not in training: WordNet's index.sense.
        texts: Text for perplexity and attention.
        encoding: The encoding of the text; by default UTF-8, or what a byte order mark says.
        similarity, analogies: Files for static vectors.
        language: Of the built-in sample that replaces missing files: ``en`` or ``zh``.
        most: The largest number of words of a file that a probe reads.
        num_texts: The largest number of sentences for perplexity and attention.
        seed: Of the control task and the probes.
        progress: Called with progress events.

    Returns:
        A dictionary with ``rows`` (a value per layer and reference values), ``notes`` on missing probes, and the details of
        each probe; shown as a table.

    Example::

        firth.probe("runs/bert", pos="train.conllu", pos_test="test.conllu")
    """
    from firth.evaluation.probe import ProbeConfig, probe_run
    from firth.evaluation.probe_report import ProbeTable

    files = {"pos": pos, "pos_test": pos_test, "first_senses": first_senses, "texts": texts}
    several = {"senses": senses, "senses_test": senses_test, "similarity": similarity, "analogies": analogies}
    config = ProbeConfig.build(
        {
            **{name: None if path is None else str(path) for name, path in files.items()},
            **{name: tuple(as_paths(paths)) for name, paths in several.items()},
            "tag": tag,
            "encoding": encoding or "utf-8",
            "language": language,
            "most": most,
            "num_texts": num_texts,
            "seed": seed,
        },
        "probe",
    )
    if not isinstance(model, str | Path):
        return ProbeTable(probe_run(model, model.kind, config, optional_path(out), progress))
    folder = Path(model) / "probe" if out is None and (Path(model) / "firth.json").is_file() else optional_path(out)
    return ProbeTable(probe_run(loaded(model), Path(model).name, config, folder, progress))
