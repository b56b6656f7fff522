"""Several labels of one text: reading, thresholds, scores, training, files, and what is refused."""

import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

import firth
from firth.core.errors import FirthError
from firth.core.run import Run
from firth.data.labelled import read_texts
from firth.tasks.linear import fit_several, stratified_folds
from firth.tasks.several import best_threshold, find_thresholds, several_scores

WORDS = {
    "sport": "match goal team coach league striker".split(),
    "money": "bank shares profit market price trade".split(),
    "law": "court judge ruling appeal lawyer verdict".split(),
}
OTHER = "the a on today report said after city people week".split()


def rows(count: int, seed: int) -> list[tuple[str, list[str]]]:
    """Texts about none to three of the subjects; the third is rare."""
    pick = random.Random(seed)
    found = []
    for _ in range(count):
        labels = [label for label, share in zip(WORDS, (0.5, 0.4, 0.15), strict=True) if pick.random() < share]
        words = [pick.choice(OTHER) for _ in range(6)] + [pick.choice(WORDS[one]) for one in labels for _ in range(2)]
        pick.shuffle(words)
        found.append((" ".join(words), labels))
    return found


def jsonl(path: Path, found: list[tuple[str, list[str]]]) -> Path:
    path.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in found))
    return path


def table(path: Path, found: list[tuple[str, list[str]]], between: str = ";") -> Path:
    with open(path, "w", newline="") as handle:
        csv.writer(handle).writerows([("text", "labels"), *((text, between.join(labels)) for text, labels in found)])
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    firth.finetune("classify", base="counts", train=jsonl(folder / "train.jsonl", rows(200, 0)), out=folder / "run")
    return folder / "run"


# -- formulas


@pytest.mark.slow
def test_the_best_threshold_by_trying_all() -> None:
    random_ = np.random.default_rng(0)
    for _ in range(20):
        chances = np.round(random_.random(40), 1)  # with equals
        true = random_.random(40) < chances
        threshold = best_threshold(chances, true)
        scores = [f1_score(true, chances >= cut, zero_division=0) for cut in np.arange(0.005, 1, 0.01)]
        assert f1_score(true, chances >= threshold) == pytest.approx(max(scores))


def test_a_rare_label_takes_the_threshold_of_all() -> None:
    chances = np.asarray([[0.3, 0.9]] * 12 + [[0.1, 0.2]] * 12)
    true = np.zeros((24, 2), bool)
    true[:12, 0] = True
    true[0, 1] = True
    own, common = find_thresholds(chances, true)
    assert own == pytest.approx(0.2)
    assert common == pytest.approx(best_threshold(chances.reshape(-1), true.reshape(-1)))
    assert best_threshold(chances[:, 0], np.zeros(24, bool)) == 0.5


def test_scores_are_those_of_scikit_learn() -> None:
    random_ = np.random.default_rng(1)
    true, guessed = random_.random((50, 4)) < 0.3, random_.random((50, 4)) < 0.4
    found = several_scores(true, guessed)
    assert found["micro_f1"] == pytest.approx(f1_score(true, guessed, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(true, guessed, average="macro"))
    assert found["exact_match"] == (true == guessed).all(1).mean()


def test_each_label_has_a_regression_of_its_own() -> None:
    random_ = np.random.default_rng(2)
    features = random_.normal(size=(80, 5))
    targets = (features @ random_.normal(size=(5, 3)) + random_.normal(size=(80, 3)) > 0).astype(np.int64)
    found = fit_several(features, targets, stratified_folds([0] * 80, 5, 0), strengths=[3.0])
    scaled = (features - features.mean(0)) / features.std(0) / 5**0.5
    for place in range(3):
        own = LogisticRegression(C=3.0, tol=1e-8).fit(scaled, targets[:, place])
        scores = features @ found.weights[place] + found.bias[place]
        assert scores == pytest.approx(own.decision_function(scaled), abs=1e-3)
    assert ((found.outside > 0.5) == targets).mean() > 0.7


# -- files


def test_lists_and_separators_are_the_same(tmp_path: Path) -> None:
    found = rows(30, 3)
    lists = read_texts(str(jsonl(tmp_path / "a.jsonl", found)))
    separated = read_texts(str(table(tmp_path / "a.csv", found)), separator=";")
    written = read_texts(str(table(tmp_path / "b.csv", [(text, [json.dumps(labels)]) for text, labels in found])))
    assert [one.labels for one in lists] == [one.labels for one in separated] == [one.labels for one in written]
    assert [one.labels for one in lists] == [tuple(labels) for _, labels in found]
    assert () in [one.labels for one in lists]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"text": "a", "labels": ["x"]}\n{"text": "b", "labels": "y"}\n', "2: 'y' is no list of labels"),
        ('{"text": "a", "labels": ["x", ["y"]]}\n', "1: a list of labels must hold names"),
        ('{"text": "a", "labels": ["x"]}\n{"text": "b", "labels": "[y"}\n', "[y is not a whole JSON list"),
    ],
)
def test_lists_that_do_not_parse(lines: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(lines)
    with pytest.raises(FirthError, match=r"bad\.jsonl") as caught:
        read_texts(str(tmp_path / "bad.jsonl"))
    assert said in str(caught.value)


# -- a run


def test_a_run_predicts_several(run: Path, tmp_path: Path) -> None:
    config = Run.open(run).record.config
    assert config["several"]
    thresholds = config["thresholds"]
    assert isinstance(thresholds, list)
    assert len(thresholds) == 3
    first, second, third = firth.predict(
        run, ["the coach and the judge, a league verdict", "profit market", "said week"]
    )
    assert sorted(first["labels"]) == ["law", "sport"]
    assert second["labels"] == ["money"]
    assert third["labels"] == []
    assert sum(first["probabilities"].values()) > 1
    scores = firth.evaluate(run, data=jsonl(tmp_path / "test.jsonl", rows(100, 9)))
    assert scores["micro_f1"] > 0.95
    assert scores["interval"]["metric"] == "micro_f1"
    assert set(scores["by_label"]) == set(WORDS)
    assert scores["by_label"]["law"]["true"] == sum("law" in labels for _, labels in rows(100, 9))


def test_a_table_gets_lists(run: Path, tmp_path: Path) -> None:
    source = table(tmp_path / "in.csv", rows(5, 4))
    for ending in ("csv", "jsonl", "parquet"):
        firth.predict(run, file=source, out=tmp_path / f"out.{ending}")
        again = read_texts(
            str(tmp_path / f"out.{ending}"), firth.data.labelled.Columns("text", None, "predicted_labels")
        )
        assert [set(one.labels or ()) for one in again] == [set(labels) for _, labels in rows(5, 4)]


def test_a_network_learns_several(tmp_path: Path) -> None:
    train, dev = jsonl(tmp_path / "train.jsonl", rows(120, 0)), jsonl(tmp_path / "dev.jsonl", rows(60, 1))
    firth.finetune("classify", base="scratch", train=train, dev=dev, out=tmp_path / "run", epochs=40, dropout_prob=0.0)
    found = firth.load(tmp_path / "run")
    labels = [one["labels"] for one in found.predict([text for text, _ in rows(60, 1)])]
    right = np.mean([set(ours) == set(theirs) for ours, (_, theirs) in zip(labels, rows(60, 1), strict=True)])
    assert right > 0.8
    metrics = Run.open(tmp_path / "run").record.metrics
    assert metrics["exact_match"] == pytest.approx(right)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "By label" in page
    assert "Confusions" not in page


def test_what_gives_one_label_refuses_lists(run: Path, tmp_path: Path) -> None:
    train = jsonl(tmp_path / "train.jsonl", rows(60, 0))
    with pytest.raises(FirthError, match="several labels per text, and fasttext gives one"):
        firth.finetune("classify", base="fasttext", train=train, out=tmp_path / "run")
    plain = tmp_path / "plain.tsv"
    plain.write_text("text\tlabel\n" + "".join(f"{text}\t{bool(labels)}\n" for text, labels in rows(60, 0)))
    with pytest.raises(FirthError, match="write both files alike"):
        firth.finetune("classify", base="counts", train=train, dev=plain, out=tmp_path / "run")
    firth.finetune("classify", base="counts", train=plain, out=tmp_path / "one")
    with pytest.raises(FirthError, match="several labels per text, and this model gives one"):
        firth.evaluate(tmp_path / "one", data=train)
    with pytest.raises(FirthError, match="thresholds: 2 for 3 labels"):
        firth.finetune("classify", base="counts", train=train, out=tmp_path / "x", thresholds=(0.5, 0.5))
    with pytest.raises(FirthError, match="thresholds"):
        firth.finetune("classify", base="counts", train=train, out=tmp_path / "x", thresholds=(0.5, 0.5, 1.5))
    with pytest.raises(FirthError, match="min-confidence"):
        firth.predict(run, ["a"], min_confidence=0.5)
    assert not (tmp_path / "x").exists()
