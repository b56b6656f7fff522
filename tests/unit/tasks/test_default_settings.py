"""Settings that nobody named go by the base and by how many labels there are."""

from pathlib import Path

import pytest

import firth
from firth.models.shared.static import ScratchModel
from firth.tasks.config import TaskConfig
from firth.tasks.finetune import default_settings
from task_text import write_vectors

NONE: frozenset[str] = frozenset()
TUNED = TaskConfig(candidates=("tuned",))


def test_word_vectors(tmp_path: Path, run_folder: Path) -> None:
    base = firth.load(write_vectors(tmp_path / "words.vec"))
    few = default_settings(TaskConfig(), base, 500, NONE)
    assert (few.body, few.pool, few.tune, few.epochs, few.patience) == ("none", "mean", False, 20, 4)
    many = default_settings(TaskConfig(), base, 50_000, NONE)
    assert (many.body, many.epochs, many.learning_rate) == ("bilstm", 10, 1e-3)
    tags = TaskConfig(task="tag", labels=("a", "b"))
    tagger, taught = (default_settings(tags, base, labels, NONE) for labels in (500, 50_000))
    assert (tagger.body, tagger.batch_size, taught.batch_size) == ("bilstm", 8, tags.batch_size)
    lone, bert = (default_settings(tags, model, 100, NONE) for model in (base, firth.load(run_folder)))
    assert (lone.epochs, lone.patience) == (100, 20)  # until it finds anything at all
    assert (bert.epochs, bert.patience) == (20, 4)
    assert default_settings(TaskConfig(), ScratchModel(["a"], 4), 500, NONE).tune


def test_a_body_that_is_asked_for_is_there(tmp_path: Path) -> None:
    base = firth.load(write_vectors(tmp_path / "words.vec"))
    for given in ({"body_dim"}, {"body"}):
        config = default_settings(TaskConfig(body="bilstm", body_dim=4), base, 500, given)
        assert (config.body, config.pool, config.learning_rate) == ("bilstm", "auto", 1e-3)


@pytest.mark.parametrize(("dim", "rate"), [(64, 1e-3), (192, 1e-3), (256, 4e-4), (384, 1e-4), (385, 5e-5), (768, 5e-5)])
def test_narrow_transformers_learn_faster(dim: int, rate: float, run_folder: Path) -> None:
    base = firth.load(run_folder)
    base.dim = dim
    config = default_settings(TUNED, base, 500, NONE)
    assert (config.learning_rate, config.tune, config.body) == (rate, True, "none")
    frozen = default_settings(TaskConfig(tune=False), base, 500, {"tune"})
    assert frozen.learning_rate == 1e-3  # only the head learns


@pytest.mark.parametrize(("labels", "epochs"), [(10, 20), (800, 20), (1600, 10), (5_000, 3), (100_000, 3)])
def test_few_labels_are_read_more_often(labels: int, epochs: int, run_folder: Path) -> None:
    assert default_settings(TUNED, firth.load(run_folder), labels, NONE).epochs == epochs


def test_transformers_and_what_is_given(run_folder: Path, gpt_folder: Path) -> None:
    bert, gpt = firth.load(run_folder), firth.load(gpt_folder)
    assert bert.reader().pooler is not None  # it was trained on pairs
    assert default_settings(TUNED, bert, 500, NONE).pool == "auto"
    assert default_settings(TUNED, bert, 500, NONE).learning_rate == 1e-3
    assert default_settings(TUNED, gpt, 500, NONE).pool == "auto"
    kept = default_settings(TaskConfig(learning_rate=3e-5, epochs=2), bert, 500, frozenset({"learning_rate", "epochs"}))
    assert (kept.learning_rate, kept.epochs) == (3e-5, 2)


def test_from_a_linear_head_on_less_is_learned(run_folder: Path) -> None:
    """Half the rate and fewer epochs, nothing dropped of what the head reads; but only where there is such a head."""
    base = firth.load(run_folder)
    base.dim = 384
    for labels, epochs in ((50, 10), (200, 10), (400, 5), (1000, 4), (10_000, 4)):
        config = default_settings(TaskConfig(), base, labels, NONE)
        assert (config.epochs, config.learning_rate, config.dropout_prob) == (epochs, 5e-5, 0.0)
    assert default_settings(TaskConfig(task="tag"), base, 200, NONE).learning_rate == 1e-4
