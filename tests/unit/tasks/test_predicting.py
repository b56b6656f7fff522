"""Predictions: in the order of the examples, whatever the batches, in constant memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from conftest import Train  # type: ignore[attr-defined]
from firth.data.labelled import TextExample
from firth.tasks import training as predicting
from task_text import questions, tagged, texts


@pytest.mark.parametrize("task", ["classify", "tag", "answer"])
def test_batches_change_nothing(task: str, train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    make: Any = {"classify": texts, "tag": tagged, "answer": questions}[task]
    model, _ = train(task, make(12), epochs=1, long_text="windows")
    some = make(7, seed=4)
    if task == "classify":
        some.append(TextExample("clock map " * 200))
    together = model.predict_examples(some)
    monkeypatch.setattr(predicting, "MAX_ROWS", 1)
    alone = model.predict_examples(some)
    for first, second in zip(together, alone, strict=True):
        assert first.keys() == second.keys()
        if task == "classify":
            assert first["probabilities"] == pytest.approx(second["probabilities"], abs=1e-5)
        elif task == "tag":
            assert first["tags"] == second["tags"]
        else:
            assert first["no_answer_score"] == pytest.approx(second["no_answer_score"], abs=1e-4)


def test_a_stream_is_read_as_it_comes(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "CHUNK", 3)
    model, _ = train("classify", texts(12), epochs=1)
    read: list[int] = []

    def source() -> Iterator[TextExample]:
        for number in range(10):
            read.append(number)
            yield TextExample(f"The {number}.")

    stream = model.stream(source())
    first, _ = next(stream)
    assert (first.text, read) == ("The 0.", [0, 1, 2])
    assert [example.text for example, _ in stream] == [f"The {number}." for number in range(1, 10)]


def test_costs_are_padded_tokens(train: Train) -> None:
    model, _ = train("classify", texts(12), epochs=1, long_text="windows")
    item = model.task.item(TextExample("clock map " * 100), 0)
    assert predicting.item_cost(item) == len(item.rows) * 48
    assert predicting.item_cost(item) >= sum(np.size(row.ids) for row in item.rows)
