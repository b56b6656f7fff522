"""Scores of sentence vectors against worked examples and scikit-learn, and a file of each kind."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

import firth
from firth.core.errors import FirthError
from firth.evaluation.words import average_precision, retrieval_scores
from sample_text import english


def test_average_precision() -> None:
    random = np.random.default_rng(0)
    scores, right = random.standard_normal(50).astype(np.float32), random.random(50) < 0.3
    assert average_precision(scores, right.tolist()) == pytest.approx(average_precision_score(right, scores))
    assert average_precision(scores, [False] * 50) == 0


def test_retrieval() -> None:
    found = retrieval_scores([[3, 1, 2], [0, 4, 5]], [{1, 7}, {0}])
    gain = 1 / np.log2(3)
    assert found["ndcg_at_10"] == pytest.approx((gain / (1 + gain) + 1) / 2)
    assert (found["mrr_at_10"], found["recall_at_1"], found["recall_at_10"]) == (0.75, 0.5, 0.75)
    random = np.random.default_rng(1)
    scores, right = random.standard_normal((4, 30)), random.random((4, 30)) < 0.2
    rankings = np.argsort(-scores, axis=1).tolist()
    wanted = [set(np.flatnonzero(row).tolist()) for row in right]
    assert retrieval_scores(rankings, wanted)["ndcg_at_10"] == pytest.approx(ndcg_score(right, scores, k=10))


def write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_files(run_folder: Path, tmp_path: Path) -> None:
    texts = [english(number) for number in range(12)]
    same = write(tmp_path / "same.tsv", "question\tpassage", [f"{text}\t{text}" for text in texts])
    found = firth.evaluate(run_folder, data=same)
    assert (found["recall_at_1"], found["ndcg_at_10"], found["passages"]) == (1, 1, len(set(texts)))
    rows = [f"{text}\t{texts[number - number % 2]}\t{number % 2}" for number, text in enumerate(texts)]
    binary = firth.evaluate(run_folder, data=write(tmp_path / "pairs.tsv", "sentence1\tsentence2\tscore", rows))
    assert list(binary) == ["average_precision", "spearman", "examples"]
    rows = [f"{'apple banana fruit' if number % 2 else '老师看书'} {number}\t{number % 2}" for number in range(12)]
    clustered = firth.evaluate(run_folder, data=write(tmp_path / "classes.tsv", "text\tlabel", rows))
    assert clustered["v_measure"] == pytest.approx(1.0)
    alone = write(tmp_path / "alone.tsv", "text\tlabel", [f"{text}\tx" for text in texts])
    with pytest.raises(FirthError, match="only one class"):
        firth.evaluate(run_folder, data=alone)


def test_a_search_index(run_folder: Path, tmp_path: Path) -> None:
    texts = [english(number) for number in range(30)]
    rows = write(tmp_path / "rows.tsv", "key\ttext", [f"d{number}\t{text}" for number, text in enumerate(texts)])
    firth.index(rows, tmp_path / "plain", id="key")
    firth.index(rows, tmp_path / "index", id="key", model=run_folder)
    asked = [f"{texts[number]}\td{number}" for number in (3, 8, 20)] + [f"{texts[3]}\td4"]
    judged = write(tmp_path / "judged.tsv", "question\tid", asked)
    found = firth.evaluate(tmp_path / "index", data=judged)
    assert {"both_ndcg_at_10", "words_ndcg_at_10", "vectors_ndcg_at_10", "weight"} <= found.keys()
    assert (found["questions"], found["documents"]) == (3, 30)
    index = firth.load(tmp_path / "index").index  # type: ignore[attr-defined]
    ranking = index.rank([texts[3]], 100, "words")[0]
    assert found["words_mrr_at_10"] == pytest.approx(1.0)
    places = sorted(ranking.index(name) for name in ("d3", "d4") if name in ranking[:10])
    gains = sum(1 / np.log2(2 + place) for place in places)
    assert found["words_ndcg_at_10"] == pytest.approx((2 + gains / (1 + 1 / np.log2(3))) / 3)
    alone = firth.evaluate(tmp_path / "plain", data=judged)
    assert {name: alone[name] for name in alone if name.startswith("words")} == {
        name: found[name] for name in found if name.startswith("words")
    }
    assert not any(name.startswith("both") for name in alone)
    with pytest.raises(FirthError, match=r"wrong.tsv:3: no document with the id 'd99'"):
        firth.evaluate(tmp_path / "plain", data=write(tmp_path / "wrong.tsv", "question\tid", [asked[0], "a\td99"]))
    with pytest.raises(FirthError, match="no column 'qeustion': did you mean"):
        firth.evaluate(tmp_path / "plain", data=judged, text="qeustion")
    turned = write(tmp_path / "turned.tsv", "id\tasked", [f"d3\t{texts[3]}", f"d8\t{texts[8]}"])
    assert firth.evaluate(tmp_path / "plain", data=turned)["questions"] == 2  # the other column is the question
    three = write(tmp_path / "three.tsv", "note\tid\tasked", [f"x\td3\t{texts[3]}"])
    with pytest.raises(FirthError, match="which columns are the question and the id"):
        firth.evaluate(tmp_path / "plain", data=three)
