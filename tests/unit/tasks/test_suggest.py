"""What to label next: uncertainty, diversity, the file; probably wrong labels as a file."""

import csv
import json
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


@pytest.mark.parametrize("column", ["label", "Sorte"])
def test_one_table_that_is_labelled_little_by_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    """Rows without a label are refused unless they are to be left out, and only they are suggested; a column of other values is
    none of labels."""
    words = [("pays money", "bank"), ("won a game", "sport")]
    rows = [f"{number},the team {words[number % 2][0]} {number},{words[number % 2][1]},9" for number in range(30)]
    rows += [f"{number},a game of money {number},,9" for number in range(30, 40)]
    (tmp_path / "all.csv").write_text("\n".join([f"id,text,{column},rating", *rows]) + "\n")
    asked = ["finetune", "classify", "--base", "counts", "--train", str(tmp_path / "all.csv"), "--label", column]
    with pytest.raises(SystemExit, match="2"):
        main([*asked, "--out", str(tmp_path / "run")])
    assert "--skip-bad" in capsys.readouterr().err
    main([*asked, "--out", str(tmp_path / "run"), "--skip-bad"])
    assert "10 × texts without a label, left out, first at" in capsys.readouterr().out
    found = firth.suggest(tmp_path / "run", tmp_path / "all.csv", num=40)
    assert sorted(one.text for one in found) == [f"a game of money {number}" for number in range(30, 40)]
    (tmp_path / "pool.csv").write_text("text,rating\nthe team of money,9\n")
    assert len(firth.suggest(tmp_path / "run", tmp_path / "pool.csv", num=2)) == 1
    (tmp_path / "done.csv").write_text(f"text,{column}\nthe team of money,bank\n")
    with pytest.raises(FirthError, match="no texts without a label"):
        firth.suggest(tmp_path / "run", tmp_path / "done.csv")


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


def test_rows_with_several_labels_are_labelled(tmp_path: Path) -> None:
    rows = [f"{kind} story {number}\t{kind};short" for number in range(15) for kind in ("sad", "fun", "dull")]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    firth.finetune("classify", base="counts", train=tmp_path / "train.tsv", out=tmp_path / "run", label_separator=";")
    (tmp_path / "pool.tsv").write_text("text\tlabel\nlabelled twice\tfun;short\na fun story\t\n")
    assert [one.text for one in firth.suggest(tmp_path / "run", tmp_path / "pool.tsv")] == ["a fun story"]


def test_a_table_keeps_its_columns(tmp_path: Path) -> None:
    """What was suggested can be put back: id, names and order of the pool, the column of labels, and what is said of it."""
    rows = [f'"{kind}, number {number}",{kind}' for number in range(12) for kind in ("good", "bad")]
    train, pool, out = tmp_path / "train.csv", tmp_path / "pool.csv", tmp_path / "out.csv"
    train.write_text("comment,mood\n" + "\n".join(rows) + "\n")
    firth.finetune("classify", base="counts", train=train, out=tmp_path / "run", text="comment", label="mood")
    asked = [f'{number},"good or, bad {number}",{number % 5},2026-01-{number:02}' for number in range(1, 20)]
    pool.write_text("id,comment,rating,date\n" + "\n".join(asked) + "\n")
    firth.suggest(tmp_path / "run", pool, num=5, out=out)
    found = list(csv.DictReader(out.open()))
    assert list(found[0]) == ["id", "comment", "rating", "date", "mood", "predicted", "probability", "uncertainty"]
    for one in found:
        assert f'{one["id"]},"{one["comment"]}",{one["rating"]},{one["date"]}' in asked
        assert one["mood"] == ""
        assert one["predicted"] in ("good", "bad")
    again = tmp_path / "again.csv"
    firth.suggest(tmp_path / "run", out, num=2, out=again)  # what is filled in later, from the same table
    assert next(iter(csv.DictReader(again.open()))).keys() == found[0].keys()


def test_a_column_of_another_meaning_is_not_filled_in(tmp_path: Path) -> None:
    """An empty rating is no place for moods; what is labelled stays out."""
    from firth.tasks.suspects import _label_place

    names = ["text", "rating"]
    assert _label_place(names, None, {"p:2": ["good", ""]}) == 2
    assert names == ["text", "rating", "label"]
    assert _label_place(["text", "Label"], None, {"p:2": ["good", ""]}) == 1
    assert _label_place(named := ["text", "label"], None, {"p:2": ["good", "urgent"]}) == 2
    assert named[2] == "label_"
    assert _label_place(["text", "mood"], "mood", {"p:2": ["good", "?"]}) == 1


def test_labels_of_zero_and_tables_that_change(tmp_path: Path) -> None:
    """A label 0 is a label; a pool whose rows later get another field is written without its columns, and that is said."""
    from firth.tasks.suspects import _label_place

    assert _label_place(names := ["text", "label"], None, {"p:2": ["good", 0]}) == 2
    assert names[2] == "label_"
    assert _label_place(["column_1", "column_2"], "2", {"p:1": ["good", ""]}) == 1
    paths = files(tmp_path, "classify", 30, 20)
    firth.finetune("classify", base="counts", train=paths["train"], out=tmp_path / "run")
    pool, out = tmp_path / "pool.jsonl", tmp_path / "out.jsonl"
    lines = [f'{{"text": "the old map {number}"}}' for number in range(1200)]
    pool.write_text("\n".join([*lines, '{"text": "a late row", "late": 1}']) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="without the other columns"):
        found = firth.suggest(tmp_path / "run", pool, num=3, out=out)
    assert [json.loads(line)["text"] for line in out.read_text(encoding="utf-8").splitlines()] == [
        one.text for one in found
    ]
