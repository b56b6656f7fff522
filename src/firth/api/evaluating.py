"""How good it is: ``evaluate``, ``compare`` and ``probe``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.api.using import AnyPath, Settings, as_paths, collect, load, load_trained_task, loaded, optional_path
from firth.core.errors import FirthError
from firth.core.types import Progress

if TYPE_CHECKING:
    from firth.evaluation.compare.compare import Stage
    from firth.evaluation.compare.ranking import ComparisonTable
    from firth.models.shared.model import Model


def evaluate(
    run: AnyPath,
    corpus: AnyPath | None = None,
    *,
    num_texts: int = 50,
    data: AnyPath | None = None,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    encoding: str | None = None,
    examples: AnyPath | None = None,
    template: str | None = None,
    similarity: AnyPath | Sequence[AnyPath] = (),
    analogies: AnyPath | Sequence[AnyPath] = (),
    limit: int | None = None,
    source: AnyPath | None = None,
    reference: AnyPath | None = None,
    beams: int = 5,
    tokenize: str | None = None,
) -> dict[str, Any]:
    """Measures a model by what it is given: held-out text, labelled texts, word pairs, or translations.

    Args:
        run: A finished run, a model directory or a file of word vectors.
        corpus: A pre-trained run on the held-out part of this corpus; by default the run's own.
        num_texts: Sentences for the pseudo-perplexity.
        data: A task on this labelled file: all scores, and the 95 % interval of the main one.
        text, second, label: Its columns; by default those that the task was trained with.
        encoding: Of that file; by default that of the files that the task was trained with.
        examples: A decoder on ``data``, after these labelled texts were shown to it; nothing is trained.
        template: How such an example is written; has ``{text}`` and ``{label}``.
        similarity: Static vectors on word-similarity files (Spearman).
        analogies: Static vectors on analogy files (accuracy by section).
        limit: Analogies are answered among the first so many words.
        source, reference: A translator on two line-aligned files (BLEU and chrF of sacrebleu).
        beams: The width of its beam search.
        tokenize: The tokenization of sacrebleu; by default by the language.

    Example::

        firth.evaluate("runs/mood", data="test.tsv")["accuracy"]
    """
    _check_one_kind(corpus, data, similarity, analogies, source, reference, examples, template)
    if data is not None:
        from firth.tasks.data import Reading

        return _evaluate_labelled(
            run, Path(data), Reading(text, second, label, encoding=encoding), optional_path(examples), template
        )
    if similarity or analogies:
        from firth.evaluation.words import evaluate_words

        return evaluate_words(load(run), as_paths(similarity), as_paths(analogies), limit, str(run))
    if source is not None and reference is not None:
        from firth.evaluation.words import evaluate_translations

        return evaluate_translations(load(run), Path(source), Path(reference), beams, tokenize, str(run))
    from firth.models.pretrain import evaluate_run
    from firth.tasks.write.model import SETTINGS, score_heldout

    score_pairs = score_heldout if (Path(run) / SETTINGS).is_file() else None
    return evaluate_run(Path(run), optional_path(corpus), num_texts, score_pairs)


def _check_one_kind(
    corpus: AnyPath | None,
    data: AnyPath | None,
    similarity: AnyPath | Sequence[AnyPath],
    analogies: AnyPath | Sequence[AnyPath],
    source: AnyPath | None,
    reference: AnyPath | None,
    examples: AnyPath | None,
    template: str | None,
) -> None:
    """Refuses what does not go together."""
    if examples is not None and data is None:
        raise FirthError("--examples are shown before the texts of a labelled file: name that with --data FILE")
    if template is not None and examples is None:
        raise FirthError("--template says how examples are written: name them with --examples FILE")
    if (source is None) != (reference is None):
        raise FirthError("--source and --reference belong together: name both files")
    kinds = {
        "--corpus": corpus is not None,
        "--data": data is not None,
        "--similarity or --analogies": bool(similarity or analogies),
        "--source": source is not None,
    }
    given = [name for name, is_given in kinds.items() if is_given]
    if len(given) > 1:
        raise FirthError(f"{' and '.join(given)} measure different things: ask for one of them at a time")


def _evaluate_labelled(
    run: AnyPath, data: Path, reading: Any, examples: Path | None, template: str | None
) -> dict[str, Any]:
    from firth.tasks.predict import evaluate_prompt, evaluate_task

    if examples is not None:
        return evaluate_prompt(load(run), examples, data, template, reading)
    return evaluate_task(load_trained_task(Path(run)), Path(run), data, reading)


def compare(
    task: str,
    *,
    corpus: AnyPath | Sequence[AnyPath],
    train: AnyPath,
    dev: AnyPath,
    test: AnyPath | None = None,
    out: AnyPath = "compare",
    budget: str = "30m",
    recipes: str | Sequence[str] | None = None,
    seeds: int = 3,
    shares: Sequence[float] = (),
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    layout: str = "auto",
    column: str = "text",
    vocab_size: int = 8000,
    cased: bool | None = None,
    skip_bad: bool = False,
    max_test: int = 3000,
    stage: Stage | None = None,
    note: Callable[[str], None] | None = None,
    settings: Settings | None = None,
    **keywords: object,
) -> ComparisonTable:
    """Says which representation is worth its cost for your text and your labels.

    Recipes are pre-trained on the same text and fine-tuned on the same labels within a budget, beside simple
    baselines. What is finished below ``out`` is kept, so that the same call goes on.

    Args:
        task: ``classify``, ``score``, ``tag`` or ``answer``.
        corpus: Raw text (files, folders, globs) or a prepared corpus.
        train, dev, test: Labelled examples; without ``test`` the scores are those on ``dev``.
        out: Where everything is put, with ``report.html``.
        budget: How long all trainings may take together.
        recipes: Recipes (``"bert-mini num_layers=2"``), runs, model directories, files of vectors, or ``"scratch"``.
        seeds: How often each is fine-tuned.
        shares: Shares of the labels to learn from as well.
        text, second, label: The columns of the labelled files.
        layout, column, vocab_size, cased: How raw text is prepared.
        skip_bad: Whether answers that do not stand where the file says are left out.
        max_test: How many examples are scored at the most.
        stage: Makes a progress display for a step of this name.
        note: Called with remarks on the way.
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
    options = CompareConfig(
        config if "max_len" in given or config.task == "answer" else config.replace(max_len=256),
        tuple(as_paths(corpus)),
        Path(train),
        Path(dev),
        optional_path(test),
        budget,
        None if recipes is None else tuple(split_recipes(recipes) if isinstance(recipes, str) else recipes),
        seeds,
        tuple(shares),
        frozenset(given),
        Reading(text, second, label, skip_bad),
        ReadingConfig.build({"layout": layout, "column": column}, "reading"),
        vocab_size,
        config.task == "tag" if cased is None else cased,
        max_test=max_test,
    )
    return ComparisonTable(Comparison(options, Path(out), stage, note).run())


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
    similarity: AnyPath | Sequence[AnyPath] = (),
    analogies: AnyPath | Sequence[AnyPath] = (),
    language: str = "en",
    most: int = 20_000,
    num_texts: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Asks each layer of a model what it knows, beside baselines.

    Args:
        model: A run, a model directory, a file of vectors, or a loaded model.
        out: A folder for report.html and probe.json; by default ``probe`` inside a run.
        pos, pos_test: Words with parts of speech (CoNLL-U, columns, jsonl).
        tag: Which tags of CoNLL-U: ``upos`` or ``xpos``.
        senses, senses_test: XML with senses, its key file beside it.
        first_senses: First senses for words not in training: WordNet's index.sense.
        texts: Text for perplexity and attention.
        similarity, analogies: Files for static vectors.
        language: Of the small sample used where files are missing: ``en`` or ``zh``.
        most: The most words of a file that a probe reads.
        num_texts: The most sentences for perplexity and attention.
        seed: Of the control task and the probes.
        progress: Called with events on the way.

    Example::

        firth.probe("runs/bert", pos="train.conllu", pos_test="test.conllu")
    """
    from firth.evaluation.probe import ProbeConfig, probe_run

    files = {"pos": pos, "pos_test": pos_test, "first_senses": first_senses, "texts": texts}
    several = {"senses": senses, "senses_test": senses_test, "similarity": similarity, "analogies": analogies}
    config = ProbeConfig.build(
        {
            **{name: None if path is None else str(path) for name, path in files.items()},
            **{name: tuple(as_paths(paths)) for name, paths in several.items()},
            "tag": tag,
            "language": language,
            "most": most,
            "num_texts": num_texts,
            "seed": seed,
        },
        "probe",
    )
    if not isinstance(model, str | Path):
        return probe_run(model, model.kind, config, optional_path(out), progress)
    folder = Path(model) / "probe" if out is None and (Path(model) / "firth.json").is_file() else optional_path(out)
    return probe_run(loaded(model), Path(model).name, config, folder, progress)
