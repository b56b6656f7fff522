"""Using a trained task: loading it, predictions for a file or standard input in constant memory, evaluation on a labelled
file, and classification by a few-shot prompt."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from firth.core.errors import FirthError
from firth.core.files import read_json, stdin_lines
from firth.core.registry import spec_of_model_type
from firth.core.run import Run
from firth.core.storage import Cluster
from firth.core.types import Prediction
from firth.data.answers import read_answers
from firth.data.labelled import AnswerExample, Columns, TextExample, has_column, stream_texts
from firth.data.sources import Source, find_sources, numbered_lines
from firth.data.tables import table_format
from firth.data.tagged import stream_tagged, tag_layout
from firth.models.shared.model import Model, PromptedLabel
from firth.tasks.checking import AnyExample, all_of
from firth.tasks.config import TaskConfig
from firth.tasks.counts import CountsTask
from firth.tasks.data import Reading, build_data, read_examples, tag_columns
from firth.tasks.fasttext import FASTTEXT, FastTextTask, is_fasttext
from firth.tasks.model import ADDED, SETTINGS, TaskModel, TaskSettings, load_published, tag_example
from firth.tasks.scores import (
    accuracy,
    calibration_error,
    chances_of,
    classify_scores,
    confusion_interval,
    coverage,
    coverage_curve,
)
from firth.tasks.tag_linear import CountsTagger
from firth.tasks.training import CHUNK, OneExample
from firth.tasks.write.data import WritingExample, read_writing
from firth.tasks.write.model import WritingModel
from firth.tokenizers.pieces import READ

_PRETRAINED = ("Model", "ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction")  # classes without a task


def has_task(path: Path) -> bool:
    """Whether what lies here, and is no run, has learned a task: a model of one, the head of a published directory, or a file
    of fastText's classifier."""
    if (path / SETTINGS).is_file() or is_fasttext(path):
        return True
    return (path / "config.json").is_file() and _has_head(path)


def _has_head(path: Path) -> bool:
    data = read_json(path / "config.json")
    spec = spec_of_model_type(str(data.get("model_type"))) if isinstance(data, dict) else None
    if spec is None or not spec.has_task_heads:
        return False
    classes = data.get("architectures")
    if classes:
        return not str(classes[0]).endswith(_PRETRAINED)
    from firth.models.shared.published import load_encoder

    return bool({"classifier", "spans"} & load_encoder(path)[2].keys())


def load_task(path: Path) -> TaskModel | WritingModel:
    """A run of ``firth finetune``, a model of a task, a published directory with the head of one, or a classifier of fastText."""
    run = Run.find(path)
    if run is None and not (path / SETTINGS).is_file():
        return FastTextTask.load(path) if is_fasttext(path) else load_published(path)
    if run is not None and run.record.kind == "write":
        return WritingModel.load(path)
    if run is not None and run.record.kind != "task":
        raise FirthError(f"{path}: no task was learned here; name a run that firth finetune made")
    if run is not None and run.record.base == FASTTEXT:
        return FastTextTask.load(path)
    settings = TaskSettings.read(path)
    if settings.form == "counts":
        return (CountsTagger if settings.config.task == "tag" else CountsTask).load(path)
    model = TaskModel.load(path)
    model.counts = CountsTask.load(path / ADDED) if settings.adds_counts else None
    return model


def stored_reading(run: Path) -> Reading:
    """How the files that a run learned from were read."""
    found = Run.find(run)
    if found is None or found.record.made_from is None:
        return Reading()
    try:
        return TypeAdapter(Reading).validate_python(found.record.made_from.reading)
    except ValidationError as error:
        name = ".".join(map(str, error.errors()[0]["loc"]))
        raise FirthError(f"{found.path}: damaged ('made_from.reading.{name}'); train it again") from None


def check_confidence(least: float | None) -> None:
    if least is not None and not 0 < least < 1:
        raise FirthError(f"--min-confidence {least:g}: not between 0 and 1; give a probability such as 0.8")


def withheld(found: Prediction, least: float | None) -> Prediction:
    """Without the label where the model is less sure of it than ``least``; the probabilities stay."""
    if least is None:
        return found
    label = found.get("label")
    if not isinstance(label, str):
        raise FirthError("--min-confidence is for classes, one of which a text has: leave it out for this task")
    return found if found["probabilities"][label] >= least else {**found, "label": None}


def check_pair(example: TextExample, pairs: bool) -> None:
    """An error if an example has two texts and the model reads one, or the other way round."""
    if (example.second is not None) != pairs:
        there, wanted = ("one text", "two") if pairs else ("two texts", "one")
        raise FirthError(
            f"{example.where}: {there} where this model reads {wanted}; give another file, or name its columns with --text and --second"
        )


def evaluate_task(
    model: TaskModel | WritingModel, run: Path, data: Path, reading: Reading, min_confidence: float | None = None
) -> dict[str, object]:
    """All scores of the model of ``run``, and the interval in which the main one lies 95 times in 100. What ``reading``
    does not say is read as it was to learn. With ``min_confidence`` also the share of texts whose label is that probable,
    and the accuracy on these."""
    check_confidence(min_confidence)
    if min_confidence is not None and (model.config.labels == () or getattr(model.config, "several", True)):
        raise FirthError(f"{run}: --min-confidence is for classes, one of which a text has: leave it out for this task")
    given = {name: value for name, value in vars(reading).items() if value}
    reading = replace(stored_reading(run), **given)
    if isinstance(model, WritingModel):
        written = read_writing(model.config, data, None, reading, learning=False).train
        if model.config.form == "classify":
            texts = all_of(TextExample, written)
            for example in texts:
                check_pair(example, model.config.pairs)
            check_labels(model.config.labels, texts, data)
        return {"examples": len(written), **model.score_examples(written)}
    examples = read_examples(model.config.task, data, reading, for_scoring=True)
    if not examples:
        raise FirthError(f"{data}: no examples in it; check the file")
    build_data(model.config.task, examples, []).check.refuse(learning=False)
    if model.config.task in ("classify", "score") and not model.either:
        for example in all_of(TextExample, examples):
            check_pair(example, model.pairs)
    if model.config.scheme == "bio":
        examples = build_data(model.config.task, examples, []).train
    if model.config.task == "classify":
        examples = [*_labelled_alike(model.config, all_of(TextExample, examples), data)]
        check_labels(model.config.labels, all_of(TextExample, examples), data)
    predictions = model.predict_examples(examples)
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    READ.limit = max(READ.limit, model.unknown_limit)
    name, (low, high) = model.task.interval(examples, predictions)
    scores = model.task.score(examples, items, predictions)
    by_label = model.task.by_label(examples, predictions)
    more: dict[str, object] = {}
    if model.config.task == "classify" and not model.config.several:
        truth = [str(example.label) for example in all_of(TextExample, examples)]
        chances_N, right_N = chances_of(predictions, truth)
        scores = {**scores, "calibration_error": calibration_error(chances_N, right_N)}
        more["by_confidence"] = coverage_curve(chances_N, right_N)
        if min_confidence is not None:
            scores["coverage"], scores["covered_accuracy"] = coverage(chances_N, right_N, min_confidence)
    return {
        "examples": len(examples),
        **scores,
        "interval": {"metric": name, "low": low, "high": high},
        **({"by_label": {label: score.model_dump() for label, score in by_label.items()}} if by_label else {}),
        **more,
    }


def check_labels(known: Sequence[str], examples: Sequence[TextExample], data: Path, knows: str = "this model") -> None:
    for example in examples:
        labels = [str(example.label)] if example.labels is None else example.labels
        unknown = next((label for label in labels if label not in known), None)
        if unknown is not None:
            raise FirthError(
                f"{example.where or data}: the label '{unknown}' is unknown to {knows} ({', '.join(known[:8])}); fix the file or train again"
            )


def _labelled_alike(config: TaskConfig, examples: Sequence[TextExample], data: Path) -> list[TextExample]:
    """One label of a text is a list of one for a model of several; the other way round is an error."""
    lists = next((example for example in examples if example.labels is not None), None)
    if config.several and lists is None:
        return [replace(example, labels=(str(example.label),)) for example in examples]
    if not config.several and lists is not None:
        raise FirthError(f"{lists.where or data}: several labels per text, and this model gives one; give another file")
    return list(examples)


Shown = Sequence[tuple[str, str]]


def read_shown(path: Path, reading: Reading) -> list[TextExample]:
    """Examples to be shown or to be scored: one text and its label each."""
    found = [example for example in all_of(TextExample, read_examples("classify", path, reading)) if example.label]
    if not found:
        raise FirthError(f"{path}: no labelled texts in it; check the file")
    for example in found:
        check_pair(example, pairs=False)
    return found


def label_by_prompt(
    model: Model, shown: Path | Shown, texts: Sequence[str], template: str | None
) -> list[PromptedLabel]:
    """The label of each text after the examples of a file, or after pairs of text and label."""
    if isinstance(shown, Path):
        shown = [(example.text, str(example.label)) for example in read_shown(shown, Reading())]
    return model.classify_by_prompt(list(shown), list(texts), template)


def evaluate_prompt(model: Model, shown: Path, data: Path, template: str | None, reading: Reading) -> dict[str, object]:
    """The scores that ``firth evaluate`` gives for a classifier, so that both can be compared."""
    examples = [(example.text, str(example.label)) for example in read_shown(shown, reading)]
    asked = read_shown(data, reading)
    labels = list(dict.fromkeys(label for _, label in examples))
    check_labels(labels, asked, data, "these examples")
    found = label_by_prompt(model, examples, [example.text for example in asked], template)
    true = np.asarray([labels.index(str(example.label)) for example in asked])
    guessed = np.asarray([labels.index(one.label) for one in found])
    low, high = confusion_interval(true, guessed, len(labels), accuracy)
    scores = classify_scores(true, guessed, len(labels))
    return {
        "examples": len(asked),
        "shown": len(examples),
        **scores,
        "interval": {"metric": "accuracy", "low": low, "high": high},
    }


_TAGGED = (".conll", ".conllu", ".bio", ".bioes", ".bmes", ".iob", ".iob2")
_HEAD_LINES = 200


def predict_source(
    model: TaskModel | WritingModel,
    run: Path,
    source: str,
    text: str | None,
    second: str | None,
    encoding: str | None = None,
    cluster: Cluster | None = None,
    min_confidence: float | None = None,
    unlabelled: bool = False,
) -> Iterator[Prediction]:
    """``{"text": ..., prediction}`` for every example; in plain text files every line is one, a tab parts two. Columns of
    tables are those that the task was trained with, unless some are named. On a cluster the run lies at the same path on
    every node. A label that is less probable than ``min_confidence`` is left out (None). ``unlabelled``: without examples that have
    a label which the model knows, and with the place of each."""
    stored = stored_reading(run)
    if text is None and second is None:
        text, second = stored.text, stored.second
    reading = Reading(text, second, encoding=encoding or stored.encoding or "utf-8")
    if unlabelled:
        reading = replace(reading, label=stored.label, separator=stored.separator)
    if isinstance(model, WritingModel):
        if cluster is not None:
            raise FirthError(f"{run}: a task that writes runs on one machine: leave out --engine ray")
        for asked, written in model.stream(_examples_to_write(model, source, reading)):
            yield {**_shown(asked), **withheld(written, min_confidence)}
        return
    examples = _examples(model, source, reading)
    if unlabelled:
        examples = _without_labels(examples, model.config.labels)
    for example, found in stream_on(cluster, run, examples) if cluster else model.stream(examples):
        place: Prediction = {"where": example.where} if unlabelled else {}
        yield {**_shown(example), **place, **withheld(found, min_confidence)}


def stream_on(cluster: Cluster, run: Path, examples: Iterator[OneExample]) -> Iterator[tuple[OneExample, Prediction]]:
    """What ``TaskModel.stream`` yields, by the workers of a cluster, in the same chunks."""
    path = str(run.absolute())
    blocks = iter(lambda: list(islice(examples, CHUNK)), [])
    for some, found in cluster.paired(_predict_there, blocks, lambda some: (path, some)):
        yield from zip(some, found, strict=True)


@lru_cache(maxsize=1)
def _task_there(path: str) -> TaskModel:
    found = load_task(Path(path))
    assert isinstance(found, TaskModel)
    return found


def _predict_there(path: str, examples: list[AnyExample]) -> list[Prediction]:
    """One job of a cluster; a worker keeps the task for the next."""
    return [found for _, found in _task_there(path).stream(iter(examples))]


def _without_labels(examples: Iterator[AnyExample], labels: Sequence[str]) -> Iterator[AnyExample]:
    """Those that are labelled already are recognised by labels that the model knows: a column may have another meaning."""
    for example in examples:
        known = isinstance(example, TextExample) and (example.label in labels or bool(example.labels))
        if not known:
            yield example


def find_names(
    model: TaskModel | WritingModel, run: Path, source: str, text: str | None = None
) -> list[tuple[str, int]]:
    """The distinct names that a tagger finds, and how often, the most frequent first."""
    counts: Counter[str] = Counter()
    for found in predict_source(model, run, source, text, None):
        if "entities" not in found:
            raise FirthError(
                f"{run}: finds no names; use a run of firth finetune tag that learned entities (B-PER, ...)"
            )
        counts.update(" ".join(entity["text"].split()) for entity in found["entities"])
    if not counts:
        raise FirthError(f"{source}: {run} finds no name in it; give more text, or a tagger that has learned more")
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _examples(model: TaskModel, source: str, reading: Reading) -> Iterator[AnyExample]:
    task, encoding = model.config.task, reading.encoding or "utf-8"
    if _is_plain(task, source, encoding):
        for where, line in _lines(source, encoding):
            yield _of_line(model, line, where)
    elif task == "tag":
        yield from stream_tagged(source, tag_columns(reading.text, None), encoding=encoding)
    elif task == "answer":
        yield from read_answers(source, encoding=encoding, only_references=True).examples
    else:
        columns = Columns(reading.text, reading.second)
        if reading.label is not None and has_column(source, reading.label, encoding):
            columns = replace(columns, label=reading.label)
        for example in stream_texts(source, columns, encoding, reading.separator):
            if not model.either:
                check_pair(example, model.pairs)
            yield example


def _examples_to_write(model: WritingModel, source: str, reading: Reading) -> Iterator[WritingExample]:
    """Lines of plain text, or the rows of a table."""
    form, pairs, encoding = model.config.form, model.config.pairs, reading.encoding or "utf-8"
    if not _is_plain(form, source, encoding):
        if form == "tag":
            yield from stream_tagged(source, tag_columns(reading.text, None), encoding=encoding)
            return
        for example in stream_texts(source, Columns(reading.text, reading.second), encoding):
            check_pair(example, pairs)
            yield example
        return
    for where, line in _lines(source, encoding):
        parts = line.split("\t") if pairs else [line]
        if pairs and len(parts) != 2:
            raise FirthError(f"{where}: {len(parts)} texts where there should be two; put a tab between them")
        yield model.example(parts if pairs else line)


def _lines(source: str, encoding: str) -> Iterator[tuple[str, str]]:
    """Every line and where it stands."""
    if source == "-":
        yield from ((f"standard input:{number}", line) for number, line in stdin_lines())
        return
    for found in find_sources([source]):
        yield from ((f"{found.name}:{number}", line) for number, line in numbered_lines(found, encoding))


def _is_plain(task: str, source: str, encoding: str) -> bool:
    """Whether every line is a text of its own; else it is laid out as files to learn from are."""
    return source == "-" or all(_has_plain_lines(task, found, encoding) for found in find_sources([source]))


def _has_plain_lines(task: str, source: Source, encoding: str) -> bool:
    name = source.path.name.lower().removesuffix(source.packing)
    if source.format != "txt":
        return False
    if task == "tag":  # columns of words and tags look like plain words
        head = [line for _, line in islice(numbered_lines(source, encoding), _HEAD_LINES)]
        return not name.endswith(_TAGGED) and tag_layout(source, head) == "columns"
    return not name.endswith(".json") and table_format(source, encoding) != "jsonl"


def _of_line(model: TaskModel, line: str, where: str) -> AnyExample:
    """The example of a line: a text; for pairs, two texts separated by a tab; for answers, question and passage."""
    if model.config.task == "tag":
        return tag_example(line, model.config.characters, model.segmentation, model.config.letters)
    if model.config.task != "answer" and not model.pairs and not (model.either and "\t" in line):
        return TextExample(line, None, None, where)
    first, tab, second = line.partition("\t")
    if not tab:
        raise FirthError(f"{where}: one text where there should be two; put a tab between them")
    return (
        AnswerExample("", first, second, where=where) if model.config.task == "answer" else TextExample(first, second)
    )


def _shown(example: AnyExample) -> Prediction:
    if isinstance(example, TextExample):
        if example.second is None:
            return {"text": example.text}
        return {"text": example.text, "second": example.second}
    if isinstance(example, AnswerExample):
        return {"question": example.question}
    return {"text": example.text} if example.text else {}
