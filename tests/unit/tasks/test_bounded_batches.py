"""However long a text is, no more of it is computed at once than a batch may hold."""

from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Train  # type: ignore[attr-defined]
from firth.core.types import TextReader
from firth.data.labelled import Answer, AnswerExample, TagExample, TextExample
from firth.models.shared.model import load_model
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.training import Finetuning, predict_items
from task_text import questions, tagged, texts

LIMIT, LONG = 64, "The doctor found a boat near the old gate. " * 60  # some 600 pieces
WINDOWS = {"long_text": "windows", "max_len": 16, "stride": 7, "max_batch_tokens": LIMIT}


def noted(module: torch.nn.Module) -> list[int]:
    """The tokens of each pass through the model, from now on."""
    seen: list[int] = []
    embeddings = module.embeddings
    assert isinstance(embeddings, torch.nn.Module)
    embeddings.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].numel()))
    return seen


@pytest.fixture
def fresh_reader(run_folder: Path) -> TextReader:
    return load_model(run_folder).reader()


LONG_EXAMPLES: dict[str, tuple[list[Any], Any]] = {
    "classify": (texts(6), TextExample(LONG, None, "en")),
    "tag": (tagged(6), TagExample(LONG.split(), ["O"] * len(LONG.split()))),
    "answer": (questions(6), AnswerExample("x", "What?", LONG, [Answer("boat", LONG.rindex("boat"))])),
}


@pytest.mark.parametrize("task", sorted(LONG_EXAMPLES))
def test_training_and_prediction_stay_within_the_limit(
    task: str, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firth.tasks import finetune as finetune_file

    some, long = LONG_EXAMPLES[task]
    build = finetune_file.build_model

    def built(*arguments: Any) -> Any:
        model = build(*arguments)
        model.noted = noted(model.network.reader_module)  # type: ignore[attr-defined]
        return model

    monkeypatch.setattr(finetune_file, "build_model", built)
    model, trainable = train(task, [*some, long], [*some, long], epochs=1, **WINDOWS)
    learned = list(model.noted)  # type: ignore[attr-defined]
    assert len(trainable.dev_items[-1].rows) > 50
    assert 0 < max(learned) <= LIMIT
    model.predict_examples([long])
    assert len(model.noted) > len(learned)  # type: ignore[attr-defined]
    assert max(model.noted) <= LIMIT  # type: ignore[attr-defined]


@pytest.mark.parametrize("window_pool", ["mean", "max"])
def test_the_gradient_is_that_of_the_whole(window_pool: str, fresh_reader: TextReader) -> None:
    found = []
    for limit in (LIMIT, 1 << 20):
        settings = {**WINDOWS, "max_batch_tokens": limit, "window_pool": window_pool, "labels": ["en", "zh"]}
        config = TaskConfig.build(settings, "test")
        task = Classify(config, fresh_reader)
        trainable = Finetuning(config, task, task.build(False), [TextExample(LONG, None, "en")], [])
        trainable.network.start(torch.Generator().manual_seed(1))
        trainable.network.eval()
        trainable.network.zero_grad()
        trainable.loss(trainable.batch(0).to("cpu")).sums["task"].backward()
        found.append({name: parameter.grad.clone() for name, parameter in trainable.network.named_parameters()})  # type: ignore[union-attr]
    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=1e-4)


def test_dropout_is_the_same_on_the_way_back(fresh_reader: TextReader) -> None:
    """What is computed twice drops the same numbers twice: a step along the gradient lowers the very loss that it is of."""
    config = TaskConfig.build({**WINDOWS, "dropout_prob": 0.5, "labels": ["en", "zh"]}, "test")
    task = Classify(config, fresh_reader)
    trainable = Finetuning(config, task, task.build(False), [TextExample(LONG, None, "en")], [])
    trainable.network.start(torch.Generator().manual_seed(1))
    trainable.network.train()
    batch = trainable.batch(0).to("cpu")

    def loss() -> torch.Tensor:
        torch.manual_seed(5)
        return trainable.loss(batch).sums["task"]

    before = loss()
    before.backward()
    with torch.no_grad():
        squares = sum(float(parameter.grad.square().sum()) for parameter in trainable.network.parameters())  # type: ignore[union-attr]
        rate = 1e-4
        for parameter in trainable.network.parameters():
            parameter -= rate * parameter.grad  # type: ignore[operator]
        drop = float(before) - float(loss())
    assert drop == pytest.approx(rate * squares, rel=0.05)


def test_a_frozen_model_keeps_no_windows_of_giants(fresh_reader: TextReader) -> None:
    config = TaskConfig.build({**WINDOWS, "tune": False, "labels": ["en", "zh"]}, "test")
    task = Classify(config, fresh_reader)
    trainable = Finetuning(config, task, task.build(False), [TextExample(LONG, None, "en"), *texts(3)], [])
    seen = noted(fresh_reader.module)
    for number in range(trainable.steps):
        trainable.loss(trainable.batch(number).to("cpu"))
    assert trainable.cache is not None
    assert len(trainable.cache) == 3  # the short ones
    assert max(seen) <= LIMIT
    items = [task.item(TextExample(LONG), 0)]
    predict_items(task, trainable.network, [TextExample(LONG)], items)
    assert max(seen) <= LIMIT
