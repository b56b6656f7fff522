"""What to label next: uncertainty, diversity, the file; probably wrong labels as a file."""

import csv
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.cli.main import main
from firth.core.errors import FirthError
from firth.core.types import Prediction
from firth.tasks.suspects import choose_diverse, uncertainty
from task_text import files


def test_uncertainty_by_hand() -> None:
    even: Prediction = {"label": "a", "probabilities": {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}}
    sure: Prediction = {"label": "a", "probabilities": {"a": 1.0, "b": 0.0}}
    several: Prediction = {"labels": ["a"], "probabilities": {"a": 0.5, "b": 1.0}}
    assert uncertainty(even) == pytest.approx(1.0)
    assert uncertainty(sure) == pytest.approx(0.0, abs=1e-9)
    assert uncertainty(several) == pytest.approx(0.5, abs=1e-9)


def test_unsure_and_different_ones_are_chosen() -> None:
    """By hand: the copy of the first is worth nothing, the one across beats a surer one that is further away."""
    vectors = np.asarray([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    unsure = np.asarray([0.9, 0.8, 0.5, 0.2])
    assert choose_diverse(unsure, vectors, 4).tolist() == [0, 2, 3]
    assert choose_diverse(unsure, vectors, 2).tolist() == [0, 2]
    assert choose_diverse(np.zeros(4), vectors, 2).tolist() == []


def test_a_file_to_fill_in(tmp_path: Path) -> None:
    paths = files(tmp_path, "classify", 30, 20)
    firth.finetune("classify", base="counts", train=paths["train"], out=tmp_path / "run")
    pool = tmp_path / "pool.txt"
    pool.write_text(
        "the old map\nthe old map\n老师看见小王\nsomething else entirely, qwerty\n\nthe 老师 map\n", encoding="utf-8"
    )
    found = firth.suggest(tmp_path / "run", pool, num=3, out=tmp_path / "next.tsv")
    assert len({one.text for one in found}) == 3
    assert found[0].uncertainty == max(one.uncertainty for one in found)
    with open(tmp_path / "next.tsv", newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle, delimiter="\t"))
    assert [row["text"] for row in rows] == [one.text for one in found]
    assert all(row["label"] == "" for row in rows)
    with pytest.raises(FirthError, match="at least one"):
        firth.suggest(tmp_path / "run", pool, num=0)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(FirthError, match="is empty"):
        firth.suggest(tmp_path / "run", tmp_path / "empty.txt")
    with pytest.raises(FirthError, match="ending"):
        firth.suggest(tmp_path / "run", pool, out=tmp_path / "next.xyz")


def test_wrong_labels_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Planted: all of them are in the file, and first."""
    lines = [f"the bank pays {number} percent\tmoney" for number in range(20)]
    lines += [f"the team won game {number}\tsport" for number in range(20)]
    lines[3], lines[25] = "the bank pays 3 percent\tsport", "the team won game 5\tmoney"
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    words = ["finetune", "classify", "--train", str(tmp_path / "train.tsv"), "--check"]
    main([*words, "--suspects", str(tmp_path / "wrong.csv")])
    with open(tmp_path / "wrong.csv", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["where"].rpartition(":")[2] for row in rows[:2]} == {"5", "27"}
    assert {row["likely"] for row in rows[:2]} == {"money", "sport"}
    assert "labels that are probably wrong" in capsys.readouterr().out
