"""Predictions for a file or standard input, one after the other, in constant memory."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.system import stdin_lines
from firth.data.answers import read_answers
from firth.data.examples import AnswerExample, TextExample
from firth.data.labelled import Columns, stream_texts
from firth.data.sources import Source, find_sources, numbered_lines
from firth.data.tables import table_format
from firth.data.tagged import stream_tagged, tag_layout
from firth.tasks.data import tag_columns
from firth.tasks.evaluate import check_pair, stored_reading
from firth.tasks.model import TaskModel, tag_example
from firth.tasks.write.model import WritingModel

_TAGGED = (".conll", ".conllu", ".bio", ".bioes", ".bmes", ".iob", ".iob2")
_HEAD_LINES = 200


def predict_source(
    model: TaskModel | WritingModel, run: Path, source: str, text: str | None, second: str | None
) -> Iterator[dict[str, Any]]:
    """``{"text": ..., prediction}`` for every example; in plain text files every line is one, a tab parts two. Columns of
    tables are those that the task was taught with, unless some are named."""
    if text is None and second is None:
        taught = stored_reading(run)
        text, second = taught.text, taught.second
    if isinstance(model, WritingModel):
        for example, found in model.stream(_examples_to_write(model, source, text, second)):
            yield {**_shown(example), **found}
        return
    for example, found in model.stream(_examples(model, source, text, second)):
        yield {**_shown(example), **found}


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


def _examples(model: TaskModel, source: str, text: str | None, second: str | None) -> Iterator[Any]:
    task = model.config.task
    if _is_plain(task, source):
        for where, line in _lines(source):
            yield _of_line(model, line, where)
    elif task == "tag":
        yield from stream_tagged(source, tag_columns(text, None))
    elif task == "answer":
        yield from read_answers(source, only_references=True).examples
    else:
        for example in stream_texts(source, Columns(text, second)):
            if not model.either:
                check_pair(example, model.pairs)
            yield example


def _examples_to_write(model: WritingModel, source: str, text: str | None, second: str | None) -> Iterator[Any]:
    """Lines of plain text, or the rows of a table."""
    form, pairs = model.config.form, model.config.pairs
    if not _is_plain(form, source):
        if form == "tag":
            yield from stream_tagged(source, tag_columns(text, None))
            return
        for example in stream_texts(source, Columns(text, second)):
            check_pair(example, pairs)
            yield example
        return
    for where, line in _lines(source):
        parts = line.split("\t") if pairs else [line]
        if pairs and len(parts) != 2:
            raise FirthError(f"{where}: {len(parts)} texts where there should be two; put a tab between them")
        yield model.example(parts if pairs else line)


def _lines(source: str) -> Iterator[tuple[str, str]]:
    """Every line and where it stands."""
    if source == "-":
        yield from ((f"standard input:{number}", line) for number, line in stdin_lines())
        return
    for found in find_sources([source]):
        yield from ((f"{found.name}:{number}", line) for number, line in numbered_lines(found, "utf-8"))


def _is_plain(task: str, source: str) -> bool:
    """Whether every line is a text of its own; else it is laid out as files to learn from are."""
    return source == "-" or all(_has_plain_lines(task, found) for found in find_sources([source]))


def _has_plain_lines(task: str, source: Source) -> bool:
    name = source.path.name.lower().removesuffix(source.packing)
    if source.format != "txt":
        return False
    if task == "tag":  # columns of words and tags cannot be told from words by what is in them
        head = [line for _, line in islice(numbered_lines(source, "utf-8"), _HEAD_LINES)]
        return not name.endswith(_TAGGED) and tag_layout(source, head) == "columns"
    return not name.endswith(".json") and table_format(source, "utf-8") != "jsonl"


def _of_line(model: TaskModel, line: str, where: str) -> Any:
    """A line is a text; for pairs two with a tab between, for answers question and passage."""
    if model.config.task == "tag":
        return tag_example(line, model.config.characters)
    if model.config.task != "answer" and not model.pairs and not (model.either and "\t" in line):
        return TextExample(line, None, None, where)
    first, tab, second = line.partition("\t")
    if not tab:
        raise FirthError(f"{where}: one text where there should be two; put a tab between them")
    return (
        AnswerExample("", first, second, where=where) if model.config.task == "answer" else TextExample(first, second)
    )


def _shown(example: Any) -> dict[str, Any]:
    if isinstance(example, TextExample):
        return {"text": example.text} | ({} if example.second is None else {"second": example.second})
    if isinstance(example, AnswerExample):
        return {"question": example.question}
    return {"text": example.text} if example.text else {}
