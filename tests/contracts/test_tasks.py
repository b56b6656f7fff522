"""What every task must do on every representation: train, save, load, the same predictions."""

from pathlib import Path
from typing import Any

import pytest

import firth
from firth.core.registry import find_run_recipe
from firth.tasks.model import TaskModel
from task_text import files, write_vectors

KINDS = ("classify", "pair", "score", "tag", "crf", "answer")
TASKS = {"pair": "classify", "crf": "tag"}
INPUTS: dict[str, list[Any]] = {
    "classify": ["The doctor found a map.", "老师看见了书。", "", "🙂"],
    "pair": [("The doctor slept.", "A doctor found a map."), ("", "")],
    "score": ["the nurse and map and book", "the nurse"],
    "tag": [["the", "old", "nurse", "found", "a", "map"], "The old nurse.", "", []],
    "answer": [("What did the nurse find?", "The nurse found a map."), ("What?", "")],
}


@pytest.fixture(scope="session")
def bases(
    run_folder: Path,
    gpt_folder: Path,
    corpus_folder: Path,
    words_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """A small one of each kind."""
    folder = tmp_path_factory.mktemp("bases")
    small = ["steps=2", "batch_size=4", "evaluations=1"]
    shapes = {
        "modern": ("bert-tiny-modern", corpus_folder, ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64"]),
        "elmo": (
            "elmo-tiny",
            words_folder,
            ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=12", "num_samples=32"],
        ),
        "recurrent": ("lstm-lm", words_folder, ["num_layers=2", "hidden_dim=32", "embedding_dim=24", "seq_len=8"]),
    }
    for name, (recipe, corpus, settings) in shapes.items():
        firth.pretrain(find_run_recipe(recipe).override([*settings, *small]), corpus=corpus, out=folder / name)
    return {
        "bert": str(run_folder),
        "gpt": str(gpt_folder),
        "vectors": str(write_vectors(folder / "words.vec")),
        "scratch": "scratch",
        **{name: str(folder / name) for name in shapes},
    }


@pytest.mark.parametrize("base", ["bert", "modern", "gpt", "elmo", "recurrent", "vectors", "scratch"])
@pytest.mark.parametrize("kind", KINDS)
def test_train_save_load_same_predictions(kind: str, base: str, bases: dict[str, str], tmp_path: Path) -> None:
    task = TASKS.get(kind, kind)

    trained = firth.finetune(
        task,
        base=bases[base],
        **files(tmp_path, kind, 12, 6),  # type: ignore[arg-type]
        out=tmp_path / "run",
        epochs=1,
        crf=kind == "crf",
    )
    loaded = firth.load(tmp_path / "run")
    assert isinstance(loaded, TaskModel)
    texts = INPUTS.get(kind, INPUTS[task])
    found = loaded.predict(texts)
    assert found == trained.predict(texts)
    assert len(found) == len(texts)
    for text, one in zip(texts, found, strict=True):
        _check(task, text, one, loaded)


def _check(task: str, text: Any, one: dict[str, Any], model: TaskModel) -> None:
    if task == "classify":
        assert sum(one["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert one["label"] == max(one["probabilities"], key=one["probabilities"].get)
    elif task == "score":
        assert abs(one["score"]) < 100
    elif task == "tag":
        assert len(one["tags"]) == len(one["words"])
        assert set(one["tags"]) <= set(model.config.labels)
        source = text if isinstance(text, str) else " ".join(text)
        for entity in one["entities"]:
            assert source[entity["start"] : entity["end"]] == entity["text"]
    else:
        assert text[1][one["start"] : one["end"]] == one["answer"]
