"""The language that a model reads, explanations, neighbours by layer, suggestions, and answers in parts."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from test_runs import RECORD, write

import firth.serve
from firth.core.run import Run
from firth.data.labelled import read_texts
from firth.serve.inspection import entity_facts
from firth.serve.models import language_of
from firth.serve.runs import run_row
from firth.tasks.report import entity_errors
from firth.tokenizers.pieces import unknown_warning
from sample_text import english


def test_the_language_of_texts() -> None:
    english = ["The king is here.", "A dog and a cat ran.", "It was late.", "Yes!"]
    chinese = ["今天的天气很好。", "他在市场上买了苹果。"]
    assert language_of(english) == "en"
    assert language_of(chinese) == "zh"
    assert language_of([*english[:2], *chinese]) is None
    assert language_of(["Der König ist hier.", "Ein Hund und eine Katze."]) is None


def test_the_page_knows_the_warning_of_the_server() -> None:
    """It says it in Chinese by its pattern."""
    script = Path(firth.serve.__file__).parent / "page" / "words" / "server.js"
    (pattern,) = re.findall(r'\["(\^.*% of the tokens.*)", ', script.read_text(encoding="utf-8"))
    found = re.match(pattern.replace("\\\\", "\\"), unknown_warning(0.67) or "")
    assert found is not None
    assert found[1] == "67"


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


def test_labels_are_appended_to_a_table(start: Callable[..., TestClient], tmp_path: Path) -> None:
    """Quotes stay, tabs and lines become spaces: what firth finetune reads. A table of something else is left alone."""
    table = tmp_path / "labels.tsv"
    client = start(labels=table)
    assert client.get("/models").json()["models"][0]["labels_file"] == "labels.tsv"
    first = [{"text": 'a "fine"\tfilm', "label": "good"}, {"text": "two\nlines", "label": "bad"}]
    assert client.post("/labelled", json={"rows": first}).json() == {"file": "labels.tsv", "rows": 2}
    table.write_text(table.read_text(encoding="utf-8").rstrip("\n"), encoding="utf-8")  # as some editors leave it
    client.post("/labelled", json={"rows": [{"text": "more", "label": "good"}]})
    found = [(one.text, one.label) for one in read_texts(str(table))]
    assert found == [('a "fine" film', "good"), ("two lines", "bad"), ("more", "good")]
    table.write_text("text\tlabel", encoding="utf-8")
    client.post("/labelled", json={"rows": [{"text": "more", "label": "good"}]})
    assert table.read_text(encoding="utf-8") == "text\tlabel\nmore\tgood\n"
    table.write_bytes("text\tlabel\ncafé\tgood\n".encode("latin-1"))
    assert "not in UTF-8" in client.post("/labelled", json={"rows": first}).text
    table.write_text("id\tnumber\n1\t2\n", encoding="utf-8")
    answer = client.post("/labelled", json={"rows": first})
    assert answer.status_code == 422
    assert "not the columns text and label" in answer.text
    assert table.read_text(encoding="utf-8") == "id\tnumber\n1\t2\n"


def test_no_table_no_labels(client: TestClient) -> None:
    answer = client.post("/labelled", json={"rows": [{"text": "a", "label": "b"}]})
    assert answer.status_code == 422
    assert "--labels FILE.tsv" in answer.text
    assert client.post("/labelled", json={"rows": []}).status_code == 422


def test_entities_by_type_and_errors_by_kind() -> None:
    """Worked by hand: one right, one with another type, one too long, one missed, one invented."""
    rows = [
        {"words": "Anna met Bo in Rome".split(), "true": ["B-PER", "O", "B-PER", "O", "B-LOC"]},
        {"words": "old New York is big".split(), "true": ["O", "B-LOC", "I-LOC", "O", "O"]},
        {"words": "Ada ran home".split(), "true": ["B-PER", "O", "O"]},
    ]
    guesses = [["B-PER", "O", "B-LOC", "O", "O"], ["B-LOC", "I-LOC", "I-LOC", "O", "O"], ["B-PER", "O", "B-LOC"]]
    found = entity_facts([{**row, "tags": tags} for row, tags in zip(rows, guesses, strict=True)])
    assert found is not None
    assert found["sentences"] == 3
    scores = {one["type"]: (one["true"], one["guessed"], one["recall"]) for one in found["types"]}  # type: ignore[attr-defined]
    assert scores == {"PER": (3, 2, pytest.approx(2 / 3)), "LOC": (2, 3, 0.0)}
    errors = {one["kind"]: one["examples"] for one in found["errors"]}  # type: ignore[attr-defined]
    assert errors == {
        "missed": ["Rome (LOC)"],
        "invented": ["home (LOC)"],
        "type": ["Bo: PER → LOC"],
        "border": ["New York → old New York (LOC)"],
    }
    assert entity_facts([{"words": ["a"], "true": ["NOUN"], "tags": ["VERB"]}]) is None
    assert entity_facts([]) is None
