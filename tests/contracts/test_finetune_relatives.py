"""Relatives of BERT under a task: train, save, load, the same predictions, whatever their shape."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.core.registry import find_run_recipe
from firth.core.types import Inputs
from firth.data.labelled import AnswerExample
from firth.models.shared.encoder_model import MaskedModel
from firth.tasks.answer import AnswerQuestions
from firth.tasks.config import TaskConfig
from firth.tasks.training import collate, frame_row
from task_text import files

SHAPE = ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "seq_len=32", "batch_size=4", "evaluations=1"]
KINDS = {
    "electra-narrow": ("electra-tiny", ["embedding_dim=24"]),
    "electra": ("electra-tiny", ["embedding_dim=32"]),
    "ernie-tasks": ("ernie-tiny", ["num_tasks=3"]),
    "unilm": ("unilm-tiny", []),
    "xlnet": ("xlnet-tiny", ["memory_len=8"]),
}
APART = {"t5": ("t5-tiny", ["num_decoder_layers=1"])}  # reads the texts of a pair one at a time
TASKS = ("classify", "pair", "score", "tag", "answer")
INPUTS: dict[str, list[Any]] = {
    "classify": ["The old doctor found a clock.", "老师看见了一本书。", ""],
    "pair": [("The doctor slept.", "A doctor found a map."), ("", "")],
    "score": ["the nurse and map and book", "the nurse"],
    "tag": [["the", "old", "nurse", "slept"], []],
    "answer": [("What did the nurse find?", "The nurse found a map."), ("What?", "A red boat near the river!")],
}


@pytest.fixture(scope="session")
def base(request: pytest.FixtureRequest, corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe, settings = (KINDS | APART)[request.param]
    folder = tmp_path_factory.mktemp("relatives") / request.param
    firth.pretrain(find_run_recipe(recipe).override([*SHAPE, *settings, "steps=2"]), corpus=corpus_folder, out=folder)
    return folder


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("base", sorted(KINDS | APART), indirect=True)
def test_train_save_load(task: str, base: Path, tmp_path: Path) -> None:
    trained = firth.finetune(
        {"pair": "classify"}.get(task, task),
        base=base,
        **files(tmp_path, task, 12, 6),  # type: ignore[arg-type]
        out=tmp_path / "run",
        epochs=1,
    )
    loaded = firth.load(tmp_path / "run")
    found = loaded.predict(INPUTS[task])
    assert found == trained.predict(INPUTS[task])
    if task == "answer":
        for (_, passage), one in zip(INPUTS[task], found, strict=True):
            assert passage[one["start"] : one["end"]] == one["answer"]
            assert len(one["best"]) > 1
    elif task == "tag":
        assert [len(one["tags"]) for one in found] == [4, 0]
    elif task != "score":
        assert {one["label"] for one in found} <= set(loaded.config.labels)  # type: ignore[attr-defined]


@pytest.mark.parametrize("base", sorted(KINDS), indirect=True)
def test_a_task_reads_what_the_model_shows(base: Path) -> None:
    """The same special tokens in the same segments, for one text and for two."""
    model = firth.load(base)
    assert isinstance(model, MaskedModel)
    reader, (first, second) = model.reader(), INPUTS["pair"][0]
    parts = [reader.tokenize(text).ids for text in (first, second)]
    alone = frame_row(reader.frame, parts[0], None, np.arange(len(parts[0])))
    arrays = {name: torch.from_numpy(array) for name, array in collate([alone], reader.pad_id).items()}
    reader.module.eval()
    with torch.inference_mode():
        hidden = reader.module(Inputs.of(arrays)).hidden[:, 0]
    np.testing.assert_allclose(hidden, model.layers(first).hidden, atol=1e-4)  # norms of small values enlarge rounding
    both = frame_row(reader.frame, *parts, np.arange(len(parts[1])))
    wanted = model.pieces.encode(first, second)
    np.testing.assert_array_equal(both.ids, wanted.ids)
    np.testing.assert_array_equal(both.segments, wanted.segments)


@pytest.mark.parametrize("base", sorted(KINDS), indirect=True)
def test_no_answer_stands_where_the_text_is_summed_up(base: Path) -> None:
    """The first token for BERT's kind, the last for XLNet's."""
    reader = firth.load(base).reader()
    task = AnswerQuestions(TaskConfig(task="answer"), reader)
    example = AnswerExample("1", "What?", "The nurse found a map.", [], True)
    item = task.item(example, 0)
    place = item.target[0][0]
    special = reader.frame.before if reader.summary == "cls" else reader.frame.after[-1:]
    assert item.rows[0].ids[place[0]] == special[0]
    assert item.rows[0].source[place[0]] == -1
    output = np.zeros((1, 2, len(item.rows[0].ids)), np.float32)
    assert task.prediction(example, item, output)["no_answer_score"] == 0
    output[:, :, place[0]] = 3
    assert task.prediction(example, item, output)["no_answer_score"] == 6
