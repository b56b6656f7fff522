"""Classes and scores: targets, weights, long texts by all policies, what is learned."""

import numpy as np
import pytest
import torch

from conftest import Train  # type: ignore[attr-defined]
from firth.core.types import TextReader
from firth.data.labelled import TextExample
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from task_text import pairs, scores, texts

LONG = " ".join(f"clock {number}" for number in range(120))


def test_rare_classes_weigh_more(bert_reader: TextReader) -> None:
    task = Classify(TaskConfig(labels=("a", "b"), class_weights=True), bert_reader)
    task.learn_from([TextExample("x", None, label) for label in "aaab"])
    assert task.class_weights is not None
    assert task.class_weights.tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1)])
    network = task.build(False).eval()
    batch = task.batch([task.item(TextExample("x", None, label), 0) for label in "ab"]).to("cpu")
    logs = network.text_scores(batch.tensors, 2).log_softmax(-1)
    wanted = -(task.class_weights[0] * logs[0, 0] + task.class_weights[1] * logs[1, 1])
    torch.testing.assert_close(task.loss(network, batch).sums["task"], wanted)


def test_scores_begin_at_their_mean(bert_reader: TextReader) -> None:
    task = Classify(TaskConfig(task="score"), bert_reader)
    network = task.build(False)
    task.start(network, [TextExample("x", None, 2.0), TextExample("y", None, 4.0)])
    assert network.out.bias.tolist() == [3.0]


@pytest.mark.parametrize("policy", ["head", "tail", "head_tail", "windows"])
def test_long_texts(policy: str, bert_reader: TextReader) -> None:
    """48 positions, two of them special."""
    task = Classify(TaskConfig(labels=("a", "b"), long_text=policy), bert_reader)  # type: ignore[arg-type]
    ids = bert_reader.tokenize(LONG).ids
    assert len(ids) > 200
    item = task.item(TextExample(LONG), 0)
    rows = [row.ids[1:-1] for row in item.rows]
    assert all(len(row.ids) == 48 for row in item.rows)
    for row in item.rows:
        np.testing.assert_array_equal(ids[row.source[1:-1]], row.ids[1:-1])
    if policy == "windows":
        assert {place for row in item.rows for place in row.source.tolist()} == {-1, *range(len(ids))}
        return
    kept = 46
    head = {"head": kept, "tail": 0, "head_tail": round(kept * 256 / 510)}[policy]
    assert len(rows) == 1
    np.testing.assert_array_equal(rows[0], np.concatenate((ids[:head], ids[len(ids) - (kept - head) :])))


def test_pairs_share_the_room(bert_reader: TextReader) -> None:
    task = Classify(TaskConfig(labels=("a", "b")), bert_reader)
    (row,) = task.item(TextExample(LONG, "the nurse"), 0).rows
    assert len(row.ids) == 48
    second = bert_reader.tokenize("the nurse").ids
    np.testing.assert_array_equal(row.ids[-1 - len(second) : -1], second)
    assert row.segments.sum() == len(second) + 1


def test_a_small_bert_learns_30_sentences(train: Train) -> None:
    examples = texts(30)
    model, _ = train("classify", examples)
    assert [found["label"] for found in model.predict_examples(examples)] == [one.label for one in examples]


@pytest.mark.slow
def test_pairs_are_learned(train: Train) -> None:
    examples = pairs(24)
    model, _ = train("classify", examples, epochs=90)
    found = model.predict([(one.text, one.second) for one in examples])
    assert np.mean([guess["label"] == one.label for guess, one in zip(found, examples, strict=True)]) > 0.9


@pytest.mark.slow
def test_scores_are_learned(train: Train) -> None:
    examples = scores(24)
    model, _ = train("score", examples, epochs=40)  # the order is right long before the numbers are
    found = [one["score"] for one in model.predict_examples(examples)]
    assert np.mean(np.abs(np.asarray(found) - [float(one.label or 0) for one in examples])) < 0.5
