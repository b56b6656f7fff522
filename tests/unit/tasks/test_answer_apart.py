"""Answers from models that read one text at a time: rows, comparison against a plain twin, what is learned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.core.errors import FirthError
from firth.data.labelled import Answer, AnswerExample
from firth.models.shared.static import ScratchModel
from firth.tasks.answer import AnswerApart
from firth.tasks.config import TaskConfig
from firth.tasks.data import build_data
from firth.tasks.finetune import default_settings, load_base, train_model
from firth.tasks.model import TaskModel, build_task
from firth.tasks.network import ComparingNetwork
from task_text import questions, write, write_vectors

WORDS = ["who", "found", "a", "map", "the", "nurse", "sold", "clock", ".", "?"]


def asker(**settings: object) -> AnswerApart:
    config = TaskConfig.build({"task": "answer", "body": "bilstm", "body_dim": 6, **settings}, "test")
    task = build_task(config, ScratchModel(WORDS, 4, seed=1).reader())
    assert isinstance(task, AnswerApart)
    return task


def ready(task: AnswerApart, seed: int = 0) -> ComparingNetwork:
    network = task.build()
    assert isinstance(network, ComparingNetwork)
    network.start(torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(3)  # so that attention is not flat
    return network.eval()


def example(passage: str, answer: str, question: str = "Who found a map?") -> AnswerExample:
    return AnswerExample("1", question, passage, [Answer(answer, passage.index(answer))])


def test_rows_of_a_window() -> None:
    item = asker().item(example("The Nurse found an atlas. Who?", "Nurse"), 0)
    question, passage = item.rows
    assert question.shared is not None
    assert passage.shared is not None
    assert question.shared.tolist() == [1, 1, 0, 0, 1]  # Who, found, ?
    assert passage.shared.tolist() == [0, 0, 1, 0, 0, 0, 1, 1]
    assert item.target[0] == [(2, 2)]  # behind the column of no answer
    unknown = asker().item(example("Zanzibar sold Quito.", "Quito", "Quito?"), 0)  # neither is in the vocabulary
    assert unknown.rows[1].shared is not None
    assert unknown.rows[1].shared.tolist() == [0, 0, 1, 0]


def test_scratch_knows_the_words_of_questions_and_passages() -> None:
    train = [example(f"The nurse sold {number} clocks.", "nurse", f"Who sold {number}?") for number in (2, 3)]
    data = build_data("answer", train, [])
    base = load_base("scratch", data, TaskConfig.build({"task": "answer"}, "test"))
    assert isinstance(base, ScratchModel)
    assert {"the", "nurse", "sold", "clocks", "who"} <= set(base.words)  # what occurs twice


def test_windows_without_the_answer_say_so() -> None:
    task = asker(max_len=8)
    passage = "clock " * 30 + "nurse " + "clock " * 30
    item = task.item(example(passage, "nurse"), 0)
    assert len(item.rows) == 2 * len(item.target[0])
    for source, (first, last) in zip(task._sources(item.rows), item.target[0], strict=True):
        assert first == last
        assert source[first] == (30 if 30 in source else -1)
    covered = {int(token) for source in task._sources(item.rows) for token in source}
    assert covered == {-1, *range(61)}
    items = task.training_items(item)
    assert [len(one.rows) for one in items] == [2] * len(item.target[0])
    assert [one.target[0][0] for one in items] == item.target[0]


@pytest.mark.parametrize("answer", ["一本书", "👩‍👧", "Rene\u0301"])
def test_perfect_scores_give_the_answer_back(answer: str) -> None:
    passage = "We met 👩‍👧 there, Rene\u0301 saw 一本书 and left."
    task = asker()
    one = example(passage, answer)
    item = task.item(one, 0)
    output = np.zeros((1, 2, len(task._sources(item.rows)[0])), np.float32)
    (first, last), *_ = item.target[0]
    output[0, 0, first] = output[0, 1, last] = 9.0
    found = task.prediction(one, item, output)
    assert found["answer"] == answer
    assert found["start"] == passage.index(answer)


def test_against_a_plain_twin() -> None:
    """One window, one row at a time, in NumPy; the body is PyTorch's own."""
    task = asker(body="none")
    network = ready(task)
    item = task.item(example("The nurse found a map. The clock sold.", "nurse"), 0)
    table = network.reader_module.state_dict()
    vectors = next(iter(table.values())).double().numpy()
    weight = {name: tensor.detach().double().numpy() for name, tensor in network.named_parameters()}
    below = [vectors[row.ids] for row in item.rows]
    keys = [np.maximum(side @ weight["align.weight"].T + weight["align.bias"], 0) for side in below]

    def softmax(scores: np.ndarray) -> np.ndarray:
        grown = np.exp(scores - scores.max(-1, keepdims=True))
        return grown / grown.sum(-1, keepdims=True)

    alike = keys[0] @ keys[1].T
    others = [softmax(alike) @ below[1], softmax(alike.T) @ below[0]]
    shared = [row.shared for row in item.rows]
    asked, passage = (
        np.concatenate((one, other, np.asarray(mark)[:, None]), 1)
        for one, other, mark in zip(below, others, shared, strict=True)
    )
    question = softmax((asked @ weight["asked.weight"].T + weight["asked.bias"])[:, 0]) @ asked
    start, end = np.split(weight["out.weight"] @ question + weight["out.bias"], 2)
    nothing = weight["nothing.weight"] @ np.concatenate((question, passage.max(0))) + weight["nothing.bias"]
    wanted = np.concatenate((nothing[None], np.stack((passage @ start, passage @ end), 1)))
    with torch.inference_mode():
        found = network.token_scores(task.batch([item]).to("cpu").tensors)[0].numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("body", ["none", "bilstm"])
def test_padding_and_neighbours_change_nothing(body: str) -> None:
    task = asker(body=body)
    network = ready(task)
    short = task.item(example("A map.", "map", "Who?"), 0)
    long = task.item(example("The nurse sold a clock. " * 6, "clock", "Who found a map and the nurse?"), 1)
    empty = task.item(AnswerExample("1", "", ""), 2)
    with torch.inference_mode():
        alone = task.outputs(network, task.batch([short]).to("cpu"))[0]
        beside = task.outputs(network, task.batch([long, short, empty]).to("cpu"))
        network.config = network.config.replace(max_batch_tokens=8)
        parts = task.outputs(network, task.batch([long, short, empty]).to("cpu"))
    size = alone.shape[2]
    np.testing.assert_allclose(beside[1][:, :, :size], alone, atol=1e-5)
    assert (beside[1][:, :, size:] < -1e30).all()
    for one, other in zip(beside, parts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        assert np.isfinite(one).all()


def trained(base: str, tmp_path: Path) -> TaskModel:
    data = build_data("answer", questions(120), questions(30, seed=5))
    config = data.configured(TaskConfig.build({"task": "answer", "batch_size": 8, "epochs": 20}, "test"))
    loaded = load_base(base, data, config)
    config = default_settings(config, loaded, 120, {"batch_size", "epochs"})
    model, trainable, _ = train_model(config, loaded, data, tmp_path, None)
    assert trainable.best is not None
    assert trainable.best["exact"] > 0.9, trainable.best
    return model


@pytest.mark.slow
def test_what_was_learned_is_learned(tmp_path: Path) -> None:
    """Passages that were not seen, a third of them without an answer."""
    model = trained("scratch", tmp_path)
    assert model.config.null_threshold is not None
    asked, passage = "What did the nurse find?", "The nurse found a map. The doctor sold a boat."
    assert model.predict([(asked, passage)])[0]["answer"] == "map"


def test_what_is_refused(work: Path) -> None:
    write(work / "train.json", questions(12))
    write(work / "dev.json", questions(6, seed=5))
    wish: dict[str, Any] = {"train": "train.json", "dev": "dev.json", "epochs": 1}
    firth.finetune("answer", base=write_vectors(work / "words.vec", 8), **wish, out="run")
    with pytest.raises(FirthError, match="reads question and passage apart"):
        firth.finetune("answer", base="scratch", **wish, teacher="run", out="student")
    with pytest.raises(FirthError, match="which is not exported"):
        firth.export("run", "onnx", to="onnx")
