"""A search index over HTTP: the same passages as in Python, also those that were added while it is served; images near an image;
topics and near duplicates."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

import firth
from firth.core.registry import find_run_recipe
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import load_models
from image_samples import make_folder
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


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of images, and a classifier of them that was fine-tuned on a folder."""
    folder = tmp_path_factory.mktemp("pictures")
    firth.prepare_images(make_folder(folder / "in"), folder / "corpus", image_size=16)
    shape = ["hidden_dim=32", "num_layers=2", "num_heads=2", "ffn_dim=64", "steps=2", "batch_size=8", "evaluations=1"]
    firth.pretrain(find_run_recipe("vit-tiny").override(shape), corpus=folder / "corpus", out=folder / "vit")
    paths = sorted((folder / "in").rglob("*.png"))
    (folder / "paths.txt").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    firth.index(folder / "paths.txt", folder / "photos", model=folder / "vit", layout="line")
    firth.finetune(
        "classify", base=folder / "vit", train=folder / "in", dev=folder / "in", out=folder / "kinds", epochs=1
    )
    return folder


@pytest.fixture
def gallery(pictures: Path) -> Iterator[TestClient]:
    server = Server(load_models([pictures / "photos", pictures / "kinds"]), ServeSettings.build({"threads": 1}, "test"))
    server.start()
    yield TestClient(server.app, base_url="http://localhost")
    server.finish()


def test_images_near_an_image(gallery: TestClient, pictures: Path) -> None:
    path = sorted((pictures / "in").rglob("*.png"))[3]
    upload = {"content": path.read_bytes(), "headers": {"content-type": "image/png"}}
    answer = gallery.post("/search", params={"model": "photos", "top": 3}, **upload)
    assert answer.status_code == 200, answer.text
    found = answer.json()["found"]
    assert found[0]["text"] == str(path)
    assert found[0]["cosine"] == pytest.approx(1, abs=1e-5)
    hits = firth.search(pictures / "photos", str(path), top=3)
    assert [one["id"] for one in found] == [hit.id for hit in hits]
    with Image.open(io.BytesIO(base64.b64decode(found[0]["image"]))) as small:
        assert small.size == (96, 96)
    assert gallery.post("/search", params={"top": "x"}, **upload).status_code == 422
    assert "not a whole png" in gallery.post("/search", **{**upload, "content": b"none"}).json()["error"]


def test_a_question_to_images_is_never_taken_for_a_path(gallery: TestClient, pictures: Path) -> None:
    path = str(sorted((pictures / "in").rglob("*.png"))[0])
    assert gallery.post("/search", json={"question": path}).status_code == 422
    answer = gallery.post("/search", json={"question": path, "model": "photos"})
    assert answer.status_code == 422
    assert "reads images" in answer.json()["error"]
    with pytest.raises(firth.FirthError, match="search_image"):
        firth.load(pictures / "photos").search(path)  # type: ignore[attr-defined]


def test_the_page_begins_with_an_indexed_image_and_one_of_the_labelled_files(
    gallery: TestClient, pictures: Path
) -> None:
    facts = {one["name"]: one for one in gallery.get("/models").json()["models"]}
    assert facts["photos"]["abilities"] == ["search", "group"]
    assert facts["photos"]["images"]
    assert facts["photos"]["reads"] is None
    for name in ("photos", "kinds"):
        with Image.open(io.BytesIO(base64.b64decode(facts[name]["examples"]["image"]))) as found:
            assert found.size == (224, 224)


def test_dev_images(gallery: TestClient, pictures: Path) -> None:
    """Named without the folders of this machine; each can be looked at."""
    (first, *_) = gallery.get("/runs/kinds/dev").json()["examples"]
    assert first["text"] == "columns/001.png"
    assert first["image"] is True
    answer = gallery.get("/runs/kinds/dev/0/image")
    assert answer.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(answer.content)) as found:
        assert found.size == (224, 224)
    for number in ("99", "-1", "x"):
        assert gallery.get(f"/runs/kinds/dev/{number}/image").status_code == 404


def test_groups(gallery: TestClient, folder: Path, vectors_folder: Path) -> None:
    """The same topics and near duplicates as in Python; of images without words."""
    firth.index(folder / "rows.tsv", folder / "grouped", model=vectors_folder)
    server = Server(load_models([folder / "grouped", folder / "notes"]), ServeSettings.build({"threads": 1}, "test"))
    server.start()
    client = TestClient(server.app, base_url="http://localhost")
    found = client.post("/topics", json={}).json()
    assert len(found["points"]) == 40
    assert sum(topic["documents"] for topic in found["topics"]) == 40
    assert {point["topic"] for point in found["points"]} == {topic["number"] for topic in found["topics"]}
    pairs = client.post("/duplicates", json={"least": 0.9}).json()
    expected = firth.duplicates(folder / "rows.tsv", vectors_folder, least=0.9)
    assert pairs["count"] == len(expected)
    assert [one["cosine"] for one in pairs["pairs"]] == pytest.approx(
        [cosine for *_, cosine in expected[:50]], abs=1e-5
    )
    assert "ask grouped" in client.post("/topics", json={"model": "notes"}).json()["error"]
    server.finish()
    images = gallery.post("/topics", json={}).json()
    assert all(topic["words"] == [] for topic in images["topics"])
    assert images["points"][0]["text"] == "columns/001.png"
