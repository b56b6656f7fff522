"""Relatives of BERT under a task: train, save, load, the same predictions, whatever their shape."""

from pathlib import Path

import pytest

import firth
from firth import api
from firth.recipes.registry import find_recipe

SHAPE = ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "row_len=32", "batch_rows=4", "evaluations=1"]
KINDS = {
    "electra-narrow": ("electra-tiny", ["embedding_dim=24"]),
    "electra": ("electra-tiny", ["embedding_dim=32"]),
    "ernie-tasks": ("ernie-tiny", ["num_tasks=4"]),
    "unilm": ("unilm-tiny", []),
    "xlnet": ("xlnet-tiny", ["memory_len=8"]),
}
TEXTS = ["The old doctor found a clock.", "老师看见了一本书。", "A red boat near the river!"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_classify(kind: str, corpus_folder: Path, tmp_path: Path) -> None:
    recipe, settings = KINDS[kind]
    config = find_recipe(recipe).override([*SHAPE, *settings, "steps=2"])
    api.pretrain(config, corpus=corpus_folder, out=tmp_path / "base")
    lines = [
        f"{label}\t{text} {number}\n" for number in range(6) for label, text in (("en", TEXTS[0]), ("zh", TEXTS[1]))
    ]
    (tmp_path / "train.tsv").write_text("label\ttext\n" + "".join(lines), encoding="utf-8")
    trained = firth.finetune(
        "classify",
        base=tmp_path / "base",
        train=tmp_path / "train.tsv",
        dev=tmp_path / "train.tsv",
        out=tmp_path / "run",
        epochs=1,
    )
    loaded = firth.load(tmp_path / "run")
    assert loaded.predict(TEXTS) == trained.predict(TEXTS)
    assert {found["label"] for found in loaded.predict(TEXTS)} <= {"en", "zh"}
