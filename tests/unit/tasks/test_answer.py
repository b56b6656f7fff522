"""Answers: targets in windows, offsets in any script, passages that do not answer."""

import numpy as np
import pytest
import torch

from conftest import Train  # type: ignore[attr-defined]
from firth.core.types import TextReader
from firth.data.labelled import Answer, AnswerExample
from firth.tasks.answer import AnswerQuestions
from firth.tasks.config import TaskConfig
from task_text import questions


def asker(reader: TextReader, **settings: object) -> AnswerQuestions:
    return AnswerQuestions(TaskConfig.build({"task": "answer", **settings}, "test"), reader)


def example(passage: str, answer: str, question: str = "Who?") -> AnswerExample:
    return AnswerExample("1", question, passage, [Answer(answer, passage.index(answer))])


@pytest.mark.parametrize(
    ("passage", "answer"),
    [
        ("The nurse found a map.", "map"),
        ("老师看见了一本书，小王买了船。", "一本书"),
        ("We met 👩‍👧 and Ana there.", "👩‍👧"),
        ("The cafe\u0301 of Rene\u0301 closed.", "Rene\u0301"),
        ("clock " * 150 + "the nurse " + "map " * 80, "the nurse"),
    ],
)
def test_perfect_scores_give_the_answer_back(passage: str, answer: str, bert_reader: TextReader) -> None:
    task = asker(bert_reader, max_answer_len=10)
    item = task.item(example(passage, answer), 0)
    longest = task.batch([item]).arrays["ids"].shape[1]
    output = np.zeros((len(item.rows), 2, longest), np.float32)
    places = item.target[0]
    assert any(place != (0, 0) for place in places)
    for number, (first, last) in enumerate(places):
        output[number, 0, first] = output[number, 1, last] = 9.0
    found = task.prediction(example(passage, answer), item, output)
    assert found["answer"] == answer
    assert passage[found["start"] : found["end"]] == answer
    assert found["start"] == passage.index(answer)


def test_windows_cover_the_passage(bert_reader: TextReader) -> None:
    task = asker(bert_reader)
    passage = "clock map " * 100
    item = task.item(AnswerExample("1", "What did the nurse find?", passage), 0)
    size = len(bert_reader.tokenize(passage).ids)
    assert {place for row in item.rows for place in row.source.tolist()} == {-1, *range(size)}
    assert all(len(row.ids) <= 48 for row in item.rows)
    assert len(task.training_items(item)) == len(item.rows)


def test_a_long_question_leaves_room(bert_reader: TextReader) -> None:
    item = asker(bert_reader).item(AnswerExample("1", "why " * 200, "The nurse found a map."), 0)
    assert all(len(row.ids) <= 48 for row in item.rows)


def test_padding_is_never_pointed_at(bert_reader: TextReader) -> None:
    task = asker(bert_reader)
    network = task.build().eval()
    items = [
        task.item(one, number) for number, one in enumerate([example("A map.", "map"), example("A map. " * 5, "map")])
    ]
    with torch.inference_mode():
        outputs = task.outputs(network, task.batch(items).to("cpu"))
    short = len(items[0].rows[0].ids)
    assert (outputs[0][:, :, short:] < -1e30).all()


@pytest.mark.slow
def test_toy_answers_are_found(train: Train) -> None:
    examples = questions(30)
    model, trainable = train("answer", examples, examples, epochs=60)
    assert trainable.best is not None
    assert trainable.best["exact"] > 0.9
    assert model.config.null_threshold is not None
    found = model.predict([(one.question, one.passage) for one in examples])
    right = [
        guess["answer"] == ("" if one.impossible else one.answers[0].text)
        for guess, one in zip(found, examples, strict=True)
    ]
    assert np.mean(right) == pytest.approx(trainable.best["exact"])


def test_the_threshold_serves_the_dev_set(bert_reader: TextReader) -> None:
    task = asker(bert_reader)
    some = questions(3)
    guesses = [
        {"best": [{"answer": one.answers[0].text if one.answers else "boat"}], "no_answer_score": score}
        for one, score in zip(some, (-2.0, 1.0, 3.0), strict=True)
    ]
    found = task.tune_threshold(some, guesses)
    assert found is not None
    assert 1.0 <= found < 3.0
    assert task.tune_threshold(some[:2], guesses[:2]) is None
