"""Predictions for a file or standard input, one after the other, in constant memory."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from firth.assembly.evaluate_task import load_task
from firth.assembly.task_model import TaskModel, tag_example
from firth.assembly.writing_model import WritingModel
from firth.core.errors import FirthError
from firth.core.examples import AnswerExample, TextExample
from firth.text.answers import read_answers
from firth.text.columns import Columns
from firth.text.labelled import stream_texts
from firth.text.lines import numbered_lines
from firth.text.sources import find_sources
from firth.text.tagged import stream_tagged


def predict_source(run: Path, source: str, text: str | None, second: str | None) -> Iterator[dict[str, Any]]:
    """``{"text": ..., prediction}`` for every example; in plain text files every line is one, a tab parts two."""
    model = load_task(run)
    if isinstance(model, WritingModel):
        for example, found in model.stream(_examples_to_write(model, source, text, second)):
            yield {**_shown(example), **found}
        return
    for example, found in model.stream(_examples(model, source, text, second)):
        yield {**_shown(example), **found}


def find_names(run: Path, source: str, text: str | None = None) -> list[tuple[str, int]]:
    """The distinct names that a tagger finds, and how often, the most frequent first."""
    counts: Counter[str] = Counter()
    for found in predict_source(run, source, text, None):
        if "entities" not in found:
            raise FirthError(
                f"{run}: finds no names; use a run of firth finetune tag that learned entities (B-PER, ...)"
            )
        counts.update(" ".join(entity["text"].split()) for entity in found["entities"])
    if not counts:
        raise FirthError(f"{source}: {run} finds no name in it; give more text, or a tagger that has learned more")
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _examples(model: TaskModel, source: str, text: str | None, second: str | None) -> Iterator[Any]:
    if source == "-":
        for line in sys.stdin:
            yield _of_line(model, line.rstrip("\n"), "standard input")
        return
    task = model.config.task
    plain = all(found.format == "txt" for found in find_sources([source]))
    if task == "tag" and not plain:
        yield from stream_tagged(source)
    elif task == "answer" and not plain:
        yield from read_answers(source, only_references=True).examples
    elif plain:
        for found in find_sources([source]):
            for number, line in numbered_lines(found, "utf-8"):
                yield _of_line(model, line, f"{found.name}:{number}")
    else:
        yield from stream_texts(source, Columns(text, second))


def _examples_to_write(model: WritingModel, source: str, text: str | None, second: str | None) -> Iterator[Any]:
    """Lines of plain text, or the rows of a table."""
    form, pairs = model.config.form, model.config.pairs
    if source != "-" and not all(found.format == "txt" for found in find_sources([source])):
        yield from stream_tagged(source) if form == "tag" else stream_texts(source, Columns(text, second))
        return
    for line in sys.stdin if source == "-" else _lines(source):
        line = line.rstrip("\r\n")
        parts = line.split("\t") if pairs else [line]
        if pairs and len(parts) != 2:
            raise FirthError(
                f"{source}: a line has {len(parts)} texts where there should be two; put a tab between them"
            )
        yield model.example(parts if pairs else line)


def _lines(source: str) -> Iterator[str]:
    for found in find_sources([source]):
        yield from (line for _, line in numbered_lines(found, "utf-8"))


def _of_line(model: TaskModel, line: str, where: str) -> Any:
    """A line is a text; for pairs two with a tab between, for answers question and passage."""
    if model.config.task == "tag":
        return tag_example(line, model.config.characters)
    if model.config.task != "answer" and not model.pairs:
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
