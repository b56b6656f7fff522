"""A whole comparison at small size: every task, killed and gone on with, changed inputs, nothing trained twice."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import firth
from compare_text import RECIPES, SMALL, settings
from firth.cli.main import main
from firth.evaluation.compare.bases import base_inputs, find_base
from task_text import files, write_vectors

TESTS = Path(__file__).parents[1]


def snapshot(folder: Path) -> dict[str, str]:
    """Every file below a folder with its checksum."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def kinds(found: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["kind"] for row in found["rows"]}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("compared")
    return folder, firth.compare("classify", **settings(folder), shares=[0.5, 1])


def test_the_table(done: tuple[Path, dict[str, Any]]) -> None:
    folder, found = done
    assert kinds(found) == {
        "majority": "floor",
        "tf-idf + logistic": "floor",
        RECIPES[0]: "trained",
        RECIPES[1]: "trained",
        "scratch": "scratch",
    }
    for row in found["rows"]:
        assert 0 <= row["low"] <= row["score"] + 1e-9 <= row["high"] + 2e-9 <= 1 + 3e-9
        assert len(row["scores"]) == (1 if row["kind"] == "floor" else 2)
        if row["kind"] != "floor":
            assert row["parameters"] > 0
            assert row["num_bytes"] > 0
            assert row["ms_per_text"] > 0
            assert len(row["by_share"]["0.5"]) == 2
            assert (row["pretrain_s"] > 0) == (row["kind"] == "trained")
            assert firth.load(folder / "out" / row["folder"]).predict(["The nurse found a map."])[0]["label"] in "en zh"
    assert json.loads((folder / "out" / "compare.json").read_text())["best"] == found["best"]
    assert found["cached"] is False


def test_the_report(done: tuple[Path, dict[str, Any]]) -> None:
    page = (done[0] / "out" / "report.html").read_text(encoding="utf-8")
    for word in ("Accuracy against cost", "Accuracy against labels", "Worst errors side by side", "tf-idf + logistic"):
        assert word in page
    assert page.count("<svg") == 5  # the sign of the page, and both charts wide and narrow
    assert "<script" not in page
    assert "http" not in page


def test_the_same_again_trains_nothing(done: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    folder, found = done
    kept = snapshot(folder / "out" / "bases") | snapshot(folder / "out" / "tasks") | snapshot(folder / "out" / "shares")
    again = firth.compare("classify", **settings(folder), shares=[0.5, 1])
    assert again["cached"] is True
    names = ("scores", "low", "high", "pretrain_s", "num_bytes", "by_share")
    for one, other in zip(found["rows"], again["rows"], strict=True):
        assert {name: list(one[name]) if name == "scores" else one[name] for name in names} == {
            name: list(other[name]) if name == "scores" else other[name] for name in names
        }
    assert kept == snapshot(folder / "out" / "bases") | snapshot(folder / "out" / "tasks") | snapshot(
        folder / "out" / "shares"
    )


@pytest.mark.parametrize(
    ("title", "number"), [("text", 1), ("bert", 1), ("classify", 1)], ids=["prepare", "pretrain", "finetune"]
)
def test_killed_and_gone_on_with(title: str, number: int, done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    stage = {"text": f"{RECIPES[1]}: text", "bert": RECIPES[1], "classify": f"{RECIPES[1]}: classify"}[title]
    settings(tmp_path)
    ended = subprocess.run(
        [sys.executable, "compare_text.py", tmp_path, stage, str(number)], cwd=TESTS, capture_output=True, check=False
    )
    assert ended.returncode == -9, ended.stderr.decode()
    before = {
        name: found
        for room in ("bases", "tasks")
        for path in (tmp_path / "out" / room).glob("*")
        if json.loads((path / "firth.json").read_text())["status"] == "finished"
        for name, found in snapshot(path).items()
    }
    assert before
    found = firth.compare("classify", **settings(tmp_path))
    after = snapshot(tmp_path / "out")
    assert set(before.items()) <= {(name.partition("/")[2].partition("/")[2], value) for name, value in after.items()}
    whole = {row["name"]: list(row["scores"]) for row in done[1]["rows"]}
    assert {row["name"]: list(row["scores"]) for row in found["rows"]} == whole


def test_changed_labels_make_new_tasks_only(done: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = done
    kept = snapshot(folder / "out" / "bases")
    path = folder / "train.tsv"
    before = path.read_bytes()
    told: list[str] = []
    try:
        path.write_bytes(before + b"One more clock.\ten\n")
        found = firth.compare("classify", **settings(folder), note=told.append)
    finally:
        path.write_bytes(before)
    assert not found["cached"]
    assert kept == snapshot(folder / "out" / "bases")
    assert any(line.startswith("scratch: train changed: made again in ") for line in told)
    assert {row["folder"] for row in found["rows"] if row["kind"] == "scratch"} == {"tasks/scratch-v2"}
    assert firth.compare("classify", **settings(folder))["cached"]  # the old ones are still there


def test_a_setting_that_is_named_counts_even_if_it_is_usual(done: tuple[Path, dict[str, Any]]) -> None:
    """Settings that nobody names are chosen by the base and the number of labels."""
    folder, _ = done
    wish = settings(folder)
    found = firth.compare(
        "classify",
        **(wish | {"settings": {**wish["settings"], "batch_size": 32}}),
    )
    assert not found["cached"]


@pytest.mark.parametrize("kind", ["pair", "score", "tag", "answer"])
def test_every_task(kind: str, tmp_path: Path) -> None:
    task = "classify" if kind == "pair" else kind
    wish = settings(tmp_path, kind)
    if kind == "answer":
        wish["recipes"] = [f"bert-tiny-modern {SMALL}", f"electra-tiny {SMALL} embedding_dim=32"]
    found = firth.compare(task, **wish)
    assert found["metric"] == {"pair": "accuracy", "score": "spearman", "tag": "f1", "answer": "f1"}[kind]
    assert len(found["rows"]) == 2 + len(wish["recipes"])
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "against cost" in page


SHAPES = {
    "electra-tiny": f"{SMALL} embedding_dim=32",
    "t5-tiny": f"{SMALL} num_decoder_layers=1",
    "gpt-tiny": SMALL,
    "xlnet-tiny": f"{SMALL} memory_len=8",
    "ernie-tiny": SMALL,
    "unilm-tiny": SMALL,
    "lstm-lm": "num_layers=1 hidden_dim=16 embedding_dim=16 seq_len=8 batch_size=4 evaluations=1 steps=2",
    "elmo-tiny": "filters=[[1,4],[3,8]] projection_dim=8 cell_dim=16 seq_len=12 num_samples=32 steps=2 evaluations=1",
    "fasttext": "epochs=1 dim=8 min_count=1 threads=1",
    "glove": "epochs=1 dim=8 min_count=1 threads=1",
}


def test_every_kind_of_base(tmp_path: Path, run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = write_vectors(tmp_path / "words.vec")
    wish = settings(tmp_path)
    recipes = ",".join([*(f"{name} {shape}" for name, shape in SHAPES.items()), str(run_folder), str(vectors)])
    words = [
        "compare",
        "classify",
        *(f"{name}={value}" for name, value in wish["settings"].items()),
        "--recipes",
        recipes,
        "--seeds",
        "1",
        "--json",
        "--max-test",
        "5",
    ]
    words += ["--corpus", str(wish["corpus"]), "--layout", "line", "--vocab-size", "400", "--budget", "2h"]
    words += ["--train", str(wish["train"]), "--dev", str(wish["dev"]), "--test", str(wish["dev"])]
    main([*words, "--out", str(tmp_path / "out")])
    found = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in found["rows"]] == ["floor"] * 2 + ["trained"] * len(SHAPES) + ["given"] * 2
    assert found["num_scored"] == 5
    assert found["scored_on"] == "test"
    elmo = next(row for row in found["rows"] if row["name"].startswith("elmo"))
    assert sum(elmo["layer_weights"]) == pytest.approx(1, abs=1e-5)
    assert {path.name for path in (tmp_path / "out" / "corpora").iterdir()} == {"words", "wordpiece"}


def test_a_prepared_corpus_is_used_where_it_fits(corpus_folder: Path, tmp_path: Path) -> None:
    wish = settings(tmp_path) | {"corpus": corpus_folder, "recipes": None, "budget": "1s", "seeds": 1}
    told: list[str] = []
    found = firth.compare("classify", **wish, note=told.append)
    assert [row["name"] for row in found["rows"]][2:] == ["modernbert-1m", "scratch"]
    assert any(line.startswith("left out: word2vec learns from words") for line in told)
    assert not (tmp_path / "out" / "corpora").exists()


def test_in_words(done: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = done
    wish = settings(folder)
    words = [
        "compare",
        "classify",
        *(f"{name}={value}" for name, value in wish["settings"].items()),
        "--recipes",
        ",".join(RECIPES),
        "--seeds",
        "2",
        "--budget",
        "2h",
    ]
    words += ["--corpus", str(wish["corpus"]), "--layout", "line", "--vocab-size", "400"]
    main([*words, "--train", str(wish["train"]), "--dev", str(wish["dev"]), "--out", str(folder / "out")])
    told = capsys.readouterr().out
    assert "nothing was trained" in told
    assert "* best: " in told
    assert "report.html" in told
    files(folder, "classify")  # as they were


def test_another_list_of_entities_is_another_base(corpus_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("the old doctor\n")
    base = find_base(f"ernie-tiny entities={tmp_path / 'names.txt'}")
    before = base_inputs(base, corpus_folder, "1m")
    (tmp_path / "names.txt").write_text("a map\n")
    assert base_inputs(base, corpus_folder, "1m") != before


def test_models_that_exist_need_no_text_and_labels_no_dev_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = files(tmp_path, "classify")
    words = ["compare", "classify", "--train", str(paths["train"]), "--out", str(tmp_path / "out"), "--budget", "1m"]
    main([*words, "--recipes", "counts", "--seeds", "1"])
    shown = capsys.readouterr().out
    assert "are held out in its place" in shown
    assert "counts" in shown
    found = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert found["scored_on"] == "dev"
    assert found["num_scored"] == (found["num_train"] + found["num_scored"]) // 5
    for more, sentence in (
        (["--recipes", "word2vec"], "word2vec learns from raw text: name it with --corpus"),
        ([], "name raw text with --corpus, or models that exist with --recipes"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main([*words[:-3], str(tmp_path / "other"), "--budget", "1m", *more])
        assert stopped.value.code == 2
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "other").exists()
