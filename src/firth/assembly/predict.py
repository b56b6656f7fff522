"""Predictions for a file or standard input, one after the other, in constant memory."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from firth.assembly.evaluate_task import load_task
from firth.assembly.task_model import TaskModel, tag_example
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
    for example, found in model.stream(_examples(model, source, text, second)):
        yield {**_shown(example), **found}


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
