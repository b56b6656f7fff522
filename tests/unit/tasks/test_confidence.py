"""Labels that are left out in doubt, coverage against accuracy, reliability; cosines of pairs."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

import firth
from firth.core.errors import FirthError
from firth.core.types import Prediction
from firth.tasks.config import TaskConfig
from firth.tasks.counts import frozen_config, text_features
from firth.tasks.model import build_model, load_base_model
from firth.tasks.predict import withheld
from firth.tasks.scores import chances_of, coverage, coverage_curve, reliability
from task_text import files, pairs, texts


def said(label: str, chance: float) -> Prediction:
    other = "b" if label == "a" else "a"
    return {"label": label, "probabilities": {label: chance, other: 1 - chance}}


def test_coverage_by_hand() -> None:
    found = [said("a", 0.9), said("b", 0.8), said("a", 0.6), said("b", 0.55)]
    chances, right = chances_of(found, ["a", "b", "b", "b"])
    assert coverage(chances, right, 0.7) == (0.5, 1.0)
    assert coverage(chances, right, 0.6) == (0.75, pytest.approx(2 / 3))
    assert coverage(chances, right, 0.95) == (0.0, 0.0)
    curve = coverage_curve(chances, right)
    assert curve[0] == {"min_confidence": 0.0, "coverage": 1.0, "accuracy": 0.75}
    assert [one["min_confidence"] for one in curve] == [0.0, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert reliability(chances, right, bins=2) == [(pytest.approx(0.7125), 0.75, 4)]
    assert [count for _, _, count in reliability(chances, right)] == [1, 1, 1, 1]


def test_doubt() -> None:
    assert withheld(said("a", 0.7), 0.6)["label"] == "a"
    kept = withheld(said("a", 0.7), 0.8)
    assert kept["label"] is None
    assert kept["probabilities"]["a"] == 0.7
    assert withheld(said("a", 0.7), None)["label"] == "a"
    with pytest.raises(FirthError, match="for classes"):
        withheld({"score": 1.0}, 0.5)


def test_commands_in_doubt(tmp_path: Path) -> None:
    paths = files(tmp_path, "classify", 40, 20)
    firth.finetune("classify", base="counts", train=paths["train"], dev=paths["dev"], out=tmp_path / "run")
    asked = [str(example.text) for example in texts(20, seed=1)]
    sure = [max(one["probabilities"].values()) for one in firth.predict(tmp_path / "run", asked)]
    least = float(np.median(sure))
    found = firth.predict(tmp_path / "run", asked, min_confidence=least)
    assert [one["label"] is None for one in found] == [chance < least for chance in sure]
    firth.predict(tmp_path / "run", file=paths["dev"], out=tmp_path / "out.csv", min_confidence=least)
    with open(tmp_path / "out.csv", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert sum(row["predicted_label"] == "" for row in rows) == sum(chance < least for chance in sure)
    assert all(float(row["predicted_probability"]) > 0 for row in rows)
    scores = firth.evaluate(tmp_path / "run", data=paths["dev"], min_confidence=least)
    assert scores["coverage"] == pytest.approx(np.mean(np.asarray(sure) >= least))
    assert scores["by_confidence"][0]["accuracy"] == pytest.approx(scores["accuracy"])
    assert "Reliability" in (tmp_path / "run" / "report.html").read_text()
    with pytest.raises(FirthError, match="not between 0 and 1"):
        firth.predict(tmp_path / "run", asked, min_confidence=1.5)


@pytest.mark.parametrize("layers", ["last", "all"])
def test_cosines_of_pairs(layers: str, run_folder: Path) -> None:
    """Against NumPy: what compares two texts ends with the cosine of each layer."""
    base = load_base_model(run_folder)
    config = frozen_config(TaskConfig(task="classify", labels=("a", "b")), "mean", layers)
    with torch.inference_mode():
        found = text_features(build_model(config, base, pairs=True), pairs(4))
    num = base.reader().num_layers if layers == "all" else 1
    width = (found.shape[1] - num) // 4
    first, second = (found[:, place * width : (place + 1) * width].reshape(len(found), num, -1) for place in (0, 1))
    lengths = np.linalg.norm(first, axis=2) * np.linalg.norm(second, axis=2)
    assert found[:, -num:] == pytest.approx((first * second).sum(2) / lengths, abs=1e-5)
