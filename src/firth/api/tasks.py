"""Tasks on top of a pre-trained model: ``finetune`` and ``predict``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from firth.api.using import load, load_trained_task, loaded, split_grid
from firth.core.config import AnyPath, Config, Settings, check_engine, cluster_for, collect, optional_path
from firth.core.errors import FirthError
from firth.core.storage import Cluster
from firth.core.types import Prediction, Progress
from firth.training.checkpoints import event_files

if TYPE_CHECKING:
    from firth.core.run import Run
    from firth.models.shared.model import Model
    from firth.tasks.run import Source
    from firth.tasks.score_table import Scored
    from firth.tasks.suspects import Suggestion

Texts: TypeAlias = str | Sequence[str | Sequence[str]]
"""Texts, pairs of texts, or sentences as lists of words."""


def finetune(
    task: str,
    *,
    train: AnyPath,
    out: AnyPath,
    base: AnyPath = "scratch",
    dev: AnyPath | None = None,
    epochs: float | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    budget: str | None = None,
    folds: int | None = None,
    extra_vectors: AnyPath | None = None,
    teacher: AnyPath | None = None,
    unlabelled: AnyPath | None = None,
    seeds: int | None = None,
    sweep: bool | Mapping[str, Sequence[object]] = False,
    shares: Sequence[float] = (),
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    label_separator: str | None = None,
    encoding: str | None = None,
    skip_bad: bool = False,
    repair_tags: bool = False,
    overwrite: bool = False,
    tensorboard: bool = False,
    engine: str = "local",
    address: str | None = None,
    cores: int = 1,
    progress: Progress | None = None,
    settings: Settings | None = None,
    **keywords: object,
) -> Model:
    """Fine-tunes a pre-trained model on labelled examples.

    Args:
        task: ``classify``, ``score``, ``tag``, ``answer``, ``embed`` (sentence vectors) or (T5, UniLM) ``write``.
        train: Labelled examples: tsv, csv, jsonl, CoNLL, SQuAD json; for a base that reads images a folder per class, a
            table of paths and labels, or an npz.
        out: The run folder to make.
        base: A run, a Hugging Face directory, a file of word vectors, ``"counts"`` (TF-IDF), ``"fasttext"`` (fastText's
            classifier), or ``"scratch"`` for no pre-training.
        dev: Labelled examples for choosing the best epoch.
        epochs, learning_rate, batch_size: By default chosen by the base and the number of examples; if one is given,
            only that training runs and no other candidate is tried.
        budget: Time for all candidates of a training, such as ``"90s"``; by default 10 minutes. With ``"fasttext"``: how long
            settings are searched (autotune).
        folds: Without ``dev``: judge by cross-validation in so many folds, with the spread.
        seed: The same seed gives the same result.
        extra_vectors: Frozen word vectors as additional input; with ``"fasttext"`` the initial word vectors.
        teacher: A run of the same task for knowledge distillation into the new model.
        unlabelled: Texts of the task without labels (a text per line, or a table): the base first goes on with its own
            pre-training on them and on the training texts, for a third of the budget, or for ``adapt_epochs`` epochs.
        seeds: The number of trainings with different seeds; the best is kept. By default 1, with ``shares`` 3.
        sweep: Try every combination of a grid of settings, such as ``{"learning_rate": (1e-3, 3e-4), "epochs": (5, 20)}``;
            ``True`` for the usual grid of the base: BERT's published one, of small bases around their usual rate and epochs.
        shares: Train on these shares of the examples as well (``(0.1, 1)``); the model is the best of the largest.
        text, second, label: The columns of the files, by name or by number from 1.
        label_separator: The separator of several labels of a text, such as ``";"``; by default they are JSON lists.
        encoding: Of the files; by default UTF-8, or what a byte order mark says.
        skip_bad: Whether to skip texts without a label, and answers that are not at their place in the passage.
        repair_tags: Whether to repair tag sequences that violate their scheme.
        overwrite: Whether to replace an existing run.
        tensorboard: Whether to write event files for TensorBoard as well, below the run's folder.
        engine: ``local``, or ``ray`` for a cluster on which several trainings (seeds, shares, sweep) or folds are jobs; files and
            base lie at the same path on every node.
        address: Of the Ray cluster; without it one is started on this machine.
        cores: Of each job of the cluster.
        progress: Called with progress events.
        settings: Settings of the task by name (``firth settings classify`` lists them).
        **keywords: The same as keywords, for example ``max_len=128`` or ``labels=("bad", "good")``.

    Returns:
        The fine-tuned model, as ``firth.load(out)`` returns it.

    Example::

        firth.finetune("classify", base="runs/bert", train="train.tsv", dev="dev.tsv", out="runs/mood", epochs=3)
    """
    usual: dict[str, object] = {
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "seed": seed,
    }
    usual |= {"budget": budget, "folds": folds}
    given = collect(settings, keywords, **usual)
    check_names(task, given, str(base))
    from firth.tasks.data import Reading
    from firth.tasks.run import Source

    reading = Reading(text, second, label, skip_bad, repair_tags, encoding, label_separator)
    extras = map(optional_path, (extra_vectors, teacher, unlabelled))
    source = Source(str(base), Path(train), optional_path(dev), reading, *extras)
    with event_files(Path(out) if tensorboard else None):
        cluster = cluster_for(engine, address, cores)
        run = start_task(task, given, source, Path(out), seeds, sweep, shares, overwrite, progress, cluster)
    return load(run.folder)


def check_names(task: str, given: Settings, base: str) -> None:
    """Refuses an unknown task and settings that it does not have, before torch is loaded for it."""
    from firth.tasks.config import task_config

    if task == "write" or base == "fasttext":  # their settings depend on the base
        return
    if task == "embed":
        from firth.tasks.embed.config import EmbedConfig

        config: Config = EmbedConfig()
    else:
        config = task_config(task)
    known = {*config.keys(), "budget", "folds"}  # which embed refuses by itself
    for name in given:
        if name not in known and given[name] is not None:
            config.update({name: given[name]})


def start_task(
    task: str,
    given: Settings,
    source: Source,
    out: Path,
    seeds: int | None = None,
    sweep: bool | Mapping[str, Sequence[object]] = False,
    shares: Sequence[float] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
    cluster: Cluster | None = None,
) -> Run:
    """Trains a task and returns its run; refuses options that its kind does not have."""
    count = seeds if seeds is not None else 3 if shares else 1
    kind = _kind_of(task, source)
    if source.unlabelled is not None and kind != "text":
        raise FirthError("--unlabelled is for classify, score, tag and answer on a base of text: leave it out here")
    if cluster is not None and kind != "text":
        raise FirthError(
            "classify, score, tag and answer on a base of text go to a cluster: leave out --engine ray here"
        )
    names = [name for name in ("folds", "budget") if given.get(name) is not None]
    if kind == "images":
        if count > 1 or sweep or shares or "folds" in names:
            raise FirthError("images are learned from once: leave out --seeds, --sweep, --shares and --folds")
        from firth.tasks.config import task_config
        from firth.tasks.images import finetune_images

        return finetune_images(task_config(task).update(given), set(given), source, out, overwrite, progress)
    if kind == "fasttext":
        if sweep or source.teacher is not None or "folds" in names:
            raise FirthError("fasttext searches its settings with --budget: leave out --sweep, --teacher and --folds")
        from firth.tasks.fasttext_run import start_fasttext

        return start_fasttext(task, given, source, out, count, shares, overwrite, progress)
    if kind in ("embed", "write"):
        extras = source.extra_vectors is not None or source.teacher is not None
        if count > 1 or sweep or shares or extras or names:
            options = "--seeds, --sweep, --shares, --extra-vectors, --teacher, --folds and --budget"
            raise FirthError(f"{task} trains one model once: leave out {options}")
        return (_start_embed if kind == "embed" else _start_writing)(given, source, out, overwrite, progress)
    from firth.tasks.config import task_config
    from firth.tasks.run import start_finetune

    config = task_config(task)
    if sweep is True:
        given, typed = split_grid(given)
        sweep = typed or True
    config = config.update(given)
    teacher = None if source.teacher is None else load(source.teacher)
    return start_finetune(config, set(given), source, out, count, sweep, shares, overwrite, progress, teacher, cluster)


def reads_images(path: Path) -> bool:
    """Whether the model at a path is one of images."""
    from firth.core.registry import find_spec
    from firth.core.run import Run, is_run
    from firth.models.shared.model import find_model

    if not is_run(path) and not (path / "config.json").is_file():
        return False
    try:
        run = Run.find(path)
        return (find_model(path) if run is None else find_spec(run.record.model)).reads_images
    except FirthError:
        return False


def of_images(train: Path, base: str) -> bool:
    """Whether labelled examples are images: by the base; a folder or an npz holds nothing else."""
    if reads_images(Path(base)):
        return True
    if train.is_dir() or train.suffix == ".npz":
        raise FirthError(
            f"{train}: images, which {base} does not read; name a base that does (from nothing: firth prepare-images, then firth pretrain vit-tiny)"
        )
    return False


def _kind_of(task: str, source: Source) -> Literal["images", "fasttext", "embed", "write", "text"]:
    """What trains it; ``text``: the candidates of classify, score, tag and answer."""
    from firth.tasks.fasttext import FASTTEXT

    if of_images(source.train, source.base):
        return "images"
    if source.base == FASTTEXT:
        return "fasttext"
    return "embed" if task == "embed" else "write" if task == "write" else "text"


def _start_embed(given: Settings, source: Source, out: Path, overwrite: bool, progress: Progress | None) -> Run:
    from firth.tasks.embed.config import EmbedConfig
    from firth.tasks.embed.run import start_embed

    return start_embed(EmbedConfig().update(given), source, out, overwrite, progress)


def _start_writing(given: Settings, source: Source, out: Path, overwrite: bool, progress: Progress | None) -> Run:
    from firth.tasks.config import writing_config
    from firth.tasks.write.run import start_writing

    config, training = writing_config(given)
    paths = (Path(source.base), source.train, source.dev, out)
    return start_writing(config, training, *paths, source.reading, overwrite, progress)


@overload
def predict(
    model: AnyPath | Model,
    texts: Texts,
    *,
    file: None = None,
    out: None = None,
    text: str | None = None,
    second: str | None = None,
    encoding: str | None = None,
    min_confidence: float | None = None,
    examples: AnyPath | Sequence[tuple[str, str]] | None = None,
    template: str | None = None,
    engine: str = "local",
    address: str | None = None,
) -> list[Prediction]: ...


@overload
def predict(
    model: AnyPath | Model,
    texts: None = None,
    *,
    file: AnyPath,
    out: None = None,
    text: str | None = None,
    second: str | None = None,
    encoding: str | None = None,
    min_confidence: float | None = None,
    examples: AnyPath | Sequence[tuple[str, str]] | None = None,
    template: str | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Iterator[Prediction]: ...


@overload
def predict(
    model: AnyPath | Model,
    texts: None = None,
    *,
    file: AnyPath,
    out: AnyPath,
    text: str | None = None,
    second: str | None = None,
    encoding: str | None = None,
    min_confidence: float | None = None,
    examples: None = None,
    template: None = None,
    engine: str = "local",
    address: str | None = None,
) -> Scored: ...


def predict(
    model: AnyPath | Model,
    texts: Texts | None = None,
    *,
    file: AnyPath | None = None,
    out: AnyPath | None = None,
    text: str | None = None,
    second: str | None = None,
    encoding: str | None = None,
    min_confidence: float | None = None,
    examples: AnyPath | Sequence[tuple[str, str]] | None = None,
    template: str | None = None,
    engine: str = "local",
    address: str | None = None,
) -> list[Prediction] | Iterator[Prediction] | Scored:
    """Applies a task to texts: label and probabilities, score, tags and entities, answer, or written text.

    Args:
        model: A run of ``firth.finetune``, a Hugging Face directory with a task head, or a loaded model.
        texts: Strings, pairs of strings, or for tags lists of words.
        file: Instead of ``texts``: a file, read in constant memory (``"-"`` is standard input).
        out: For classify and score: write the table ``file`` here (.csv, .tsv, .jsonl, .parquet), every column and row kept,
            with label and probabilities as new columns.
        text, second: The columns of a file; by default those of the training file.
        encoding: Of the file; by default that of the training file.
        min_confidence: Leave out a label that is less probable (``None``, an empty cell); the probabilities stay.
        examples: For decoders: labelled texts (a file, or pairs of text and label) for a few-shot prompt; nothing is trained.
        template: The format of an example in the prompt; has ``{text}`` and ``{label}``.
        engine: ``local``, or ``ray`` for a file on a cluster, where the run lies at the same path on every node.
        address: Of the Ray cluster; without it one is started on this machine.

    Returns:
        A dictionary for each text, as a list; for a file as an iterator; with ``out`` the number of rows and the new columns.

    Example::

        firth.predict("runs/mood", ["A lovely film."])[0]["label"]
        firth.predict("runs/mood", file="reviews.csv", text="review", out="scored.csv").rows
    """
    if (texts is None) == (file is None):
        raise FirthError("predict needs either texts or a file")
    if template is not None and examples is None:
        raise FirthError("--template is the format of prompt examples: name these with --examples FILE")
    if out is not None and (file is None or file == "-" or examples is not None):
        raise FirthError("--out needs a table: name a csv, tsv, jsonl or parquet file, without --examples")
    remote = check_engine(engine, address)
    if remote and (file is None or examples is not None):
        raise FirthError("a cluster predicts for files: name one, without --examples")
    if examples is not None:
        return _predict_by_prompt(model, texts, file, text, examples, template)
    from firth.tasks.predict import check_confidence, withheld

    check_confidence(min_confidence)
    if texts is not None:
        return [withheld(found, min_confidence) for found in loaded(model).predict(texts)]
    if not isinstance(model, str | Path):
        raise FirthError("to read a file, name the run by its path, which has the columns of the file; or give texts")
    from firth.tasks.predict import predict_source

    if reads_images(Path(model)):
        if out is not None:
            raise FirthError(f"{model}: what it says of images is printed as lines of JSON; leave out --out")
        return iter(load(model).predict([str(file)]))
    cluster = Cluster(address) if remote else None
    if out is not None:
        return _score_table(Path(model), str(file), Path(out), (text, second), encoding, cluster, min_confidence)
    task = load_trained_task(Path(model))
    return predict_source(task, Path(model), str(file), text, second, encoding, cluster, min_confidence)


def _predict_by_prompt(
    model: AnyPath | Model,
    texts: Texts | None,
    file: AnyPath | None,
    column: str | None,
    examples: AnyPath | Sequence[tuple[str, str]],
    template: str | None,
) -> list[Prediction]:
    from firth.core.files import stdin_lines
    from firth.data.readers import read_texts
    from firth.tasks.predict import label_by_prompt

    if texts is None:
        read = (line for _, line in stdin_lines()) if file == "-" else read_texts(str(file), column or "text")
        asked = [text for text in read if text.strip()]
    else:
        asked = [text for text in ([texts] if isinstance(texts, str) else texts) if isinstance(text, str)]
        if not isinstance(texts, str) and len(asked) < len(texts):
            raise FirthError("a prompt is for single texts: give a list of strings")
    shown = Path(examples) if isinstance(examples, str | Path) else examples
    found = label_by_prompt(loaded(model), shown, asked, template)
    return [
        {"text": one, "label": label.label, "probabilities": label.probabilities}
        for one, label in zip(asked, found, strict=True)
    ]


def _score_table(
    run: Path,
    file: str,
    out: Path,
    columns: tuple[str | None, str | None],
    encoding: str | None,
    cluster: Cluster | None,
    min_confidence: float | None,
) -> Scored:
    from firth.data.labelled import Columns
    from firth.tasks.model import TaskModel
    from firth.tasks.score_table import score_table

    task = load_trained_task(run)
    if not isinstance(task, TaskModel):
        raise FirthError(f"{run}: a table is scored by classify and score; leave out --out")
    return score_table(task, run, file, out, Columns(*columns), encoding, cluster, min_confidence)


def suggest(
    run: AnyPath,
    pool: AnyPath,
    *,
    num: int = 50,
    out: AnyPath | None = None,
    text: str | None = None,
    second: str | None = None,
    encoding: str | None = None,
) -> list[Suggestion]:
    """Chooses texts of a pool that are worth labelling next: the classifier is unsure of them, and they differ from each other.

    Args:
        run: A run of ``firth.finetune("classify", ...)``.
        pool: A file of texts without labels; it may be larger than memory.
        num: How many texts.
        out: Write them as a table (.tsv, .csv, .jsonl, .parquet) with an empty column of labels to be filled in; a pool that
            is a table keeps its columns and their names.
        text, second: The columns of the file; by default those of the training file.
        encoding: Of the file; by default that of the training file.

    Returns:
        The texts, the most useful first, with what the model predicts and how unsure it is.

    Example::

        firth.suggest("runs/mood", "unlabelled.txt", num=20, out="to_label.tsv")
    """
    from firth.data.labelled import Columns
    from firth.data.tables import output_format
    from firth.tasks.model import TaskModel
    from firth.tasks.suspects import suggest as choose
    from firth.tasks.suspects import write_suggestions

    if num < 1:
        raise FirthError(f"num: {num} texts cannot be suggested; ask for at least one")
    if out is not None:
        output_format(Path(out))
    task = load_trained_task(Path(run))
    if not isinstance(task, TaskModel):
        raise FirthError(f"{run}: texts are suggested for classify; name such a run")
    found = choose(task, Path(run), str(pool), num, text, second, encoding)
    if out is not None:
        write_suggestions(found, Path(out), str(pool), Path(run), Columns(text, second), encoding)
    return found
