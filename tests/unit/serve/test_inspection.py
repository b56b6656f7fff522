"""The language that a model reads, explanations, neighbours by layer, suggestions, and answers in parts."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from test_runs import RECORD, write

from firth.core.run import Run
from firth.serve.models import language_of
from firth.serve.runs import run_row
from firth.tasks.report import entity_errors
from sample_text import english


def test_the_language_of_texts() -> None:
    english = ["The king is here.", "A dog and a cat ran.", "It was late.", "Yes!"]
    chinese = ["今天的天气很好。", "他在市场上买了苹果。"]
    assert language_of(english) == "en"
    assert language_of(chinese) == "zh"
    assert language_of([*english[:2], *chinese]) is None
    assert language_of(["Der König ist hier.", "Ein Hund und eine Katze."]) is None


def test_entity_errors_have_a_kind() -> None:
    words = "Marie Curie lives in New York with Anna".split()
    true = ["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O", "B-PER"]
    guessed = ["B-PER", "I-PER", "B-LOC", "O", "O", "B-LOC", "O", "B-LOC"]
    assert [kind for kind, _ in entity_errors(words, true, guessed)] == ["border", "type", "invented"]
    assert entity_errors(words, true, ["O"] * 8)[0] == ("missed", "Marie Curie (PER)")
    assert entity_errors(words, true, true) == []


def test_a_row_of_a_run_in_training(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", RECORD.replace(base="/secret/place/base", config={"model": {"dim": 8}, "seed": 1}))
    write(tmp_path / "run" / "metrics.jsonl", [9.0, 8.0])
    with open(tmp_path / "run" / "metrics.jsonl", "a", encoding="utf-8") as handle:
        handle.write(json.dumps({"event": "samples", "step": 1, "texts": ["a [b] c"]}) + "\n")
    row = run_row(tmp_path / "run", "run")
    assert (row["status"], row["step"], row["steps"]) == ("training", 1, 9)
    assert row["samples"] == ["a [b] c"]
    assert row["base"] == "base"
    assert row["settings"] == {"model.dim": 8, "seed": 1}
    assert row["curve"] == [{"step": 0, "loss": 9.0}, {"step": 1, "loss": 8.0}]
    assert "/secret" not in json.dumps(row)


def test_neighbours_in_every_layer(client: TestClient) -> None:
    sentence = english(3)
    word = sentence.split()[1].strip(".,")
    found: dict[str, Any] = client.post("/neighbours", json={"sentence": sentence, "word": word, "top": 3}).json()
    assert len(found["layers"]) >= 2
    for some in found["layers"]:
        assert 0 < len(some) <= 3
        assert len({one["word"].lower() for one in some}) == len(some)  # no word twice
        assert [one["score"] for one in some] == sorted((one["score"] for one in some), reverse=True)
        assert all(one["sentence"][one["start"] : one["end"]] == one["word"] for one in some)


def test_a_classifier_explains_and_suggests(client: TestClient) -> None:
    text = english(1)
    found = client.post("/explain", json={"text": text, "model": "mood"}).json()
    assert found["label"] in ("good", "bad")
    assert all(text[word["start"] : word["end"]] == word["text"] for word in found["words"])
    texts = [english(number) for number in range(8)]
    rows = client.post("/suggest", json={"texts": [*texts, texts[0]], "num": 3, "model": "mood"}).json()["found"]
    assert len(rows) == len({row["text"] for row in rows}) == 3
    assert all(row["text"] in texts and 0 <= row["uncertainty"] <= 1 for row in rows)


@pytest.mark.parametrize("route", ["/explain", "/suggest"])
def test_only_classifiers_are_asked(client: TestClient, route: str) -> None:
    body = {"text": "a", "model": "bert"} if route == "/explain" else {"texts": ["a"], "model": "bert"}
    assert client.post(route, json=body).status_code == 422
