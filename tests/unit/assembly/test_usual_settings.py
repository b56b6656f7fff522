"""Settings that nobody named go by the base and by how many labels there are."""

from pathlib import Path

import firth
from firth.assembly.usual_settings import usual_settings
from firth.core.task_configs import TaskConfig
from firth.representations.scratch import ScratchRepresentation
from task_text import write_vectors

NONE: frozenset[str] = frozenset()


def test_word_vectors(tmp_path: Path) -> None:
    base = firth.load(write_vectors(tmp_path / "words.vec"))
    few = usual_settings(TaskConfig(), base, 500, NONE)
    assert (few.body, few.pool, few.tune, few.epochs, few.patience) == ("none", "mean", False, 20, 4)
    many = usual_settings(TaskConfig(), base, 50_000, NONE)
    assert (many.body, many.epochs, many.learning_rate) == ("bilstm", 10, 1e-3)
    assert usual_settings(TaskConfig(task="tag", labels=("a", "b")), base, 500, NONE).body == "bilstm"
    assert usual_settings(TaskConfig(), ScratchRepresentation(["a"], 4), 500, NONE).tune


def test_transformers_and_what_is_given(run_folder: Path, gpt_folder: Path) -> None:
    bert, gpt = firth.load(run_folder), firth.load(gpt_folder)
    assert bert.reader().pooler is not None  # it was trained on pairs
    assert usual_settings(TaskConfig(), bert, 500, NONE).pool == "auto"
    assert usual_settings(TaskConfig(), bert, 500, NONE).learning_rate == 1e-3
    assert usual_settings(TaskConfig(), gpt, 500, NONE).pool == "auto"
    kept = usual_settings(TaskConfig(learning_rate=3e-5, epochs=2), bert, 500, frozenset({"learning_rate", "epochs"}))
    assert (kept.learning_rate, kept.epochs) == (3e-5, 2)
