"""A search index over HTTP: the same passages as in Python, also those that were added while it is served."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import firth
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import load_models
from sample_text import english


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"{english(number)}\t{1990 + number % 5}\n" for number in range(40))
    (tmp_path / "rows.tsv").write_text("text\tyear\n" + rows, encoding="utf-8")
    firth.index(tmp_path / "rows.tsv", tmp_path / "notes")
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    server = Server(load_models([folder / "notes"]), ServeSettings.build({"threads": 1}, "test"))
    server.start()
    yield TestClient(server.app, base_url="http://localhost")
    server.finish()


def test_found_passages(client: TestClient, folder: Path) -> None:
    (facts,) = client.get("/models").json()["models"]
    assert (facts["name"], facts["abilities"], facts["documents"], facts["vectors"]) == ("notes", ["search"], 40, False)
    body = {"question": "the old doctor", "top": 3, "where": ["year>=1992"]}
    answer = client.post("/search", json=body).json()
    hits = firth.search(folder / "notes", "the old doctor", top=3, where=["year>=1992"])
    assert answer["model"] == "notes"
    assert [one["id"] for one in answer["found"]] == [hit.id for hit in hits]
    assert [[*map(tuple, one["marks"])] for one in answer["found"]] == [list(hit.marks) for hit in hits]
    (folder / "more.txt").write_text("A purple zeppelin landed.\n", encoding="utf-8")
    firth.index(folder / "more.txt", folder / "notes", layout="line")
    (found,) = client.post("/search", json={"question": "zeppelin"}).json()["found"]
    assert found["id"] == f"{folder / 'more.txt'}:1"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"question": "x", "where": ["colour=red"]}, "no column 'colour'"),
        ({"question": "x", "mode": "vectors"}, "without vectors"),
        ({"question": " "}, "question is empty"),
        ({"question": "x", "top": 0}, "top"),
        ({}, "question"),
    ],
)
def test_refusals(client: TestClient, body: dict[str, object], words: str) -> None:
    answer = client.post("/search", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert client.post("/encode", json={"text": "x"}).status_code == 422
