"""Images over HTTP: as the body or in base64; what is too large, damaged, or would be huge is refused in a sentence."""

import base64
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

import firth
from firth.core.registry import find_run_recipe
from firth.models.shared.image_model import look_of
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import load_models
from image_samples import bars, make_folder

PNG = {"content-type": "image/png"}
VIT = ["hidden_dim=32", "num_layers=2", "num_heads=2", "ffn_dim=64", "steps=2", "batch_size=8", "evaluations=1"]
SWIN = [
    "embedding_dim=16",
    "depths=[2,1]",
    "num_heads=[2,2]",
    "window_size=4",
    "steps=2",
    "batch_size=8",
    "evaluations=1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    firth.prepare_images(make_folder(folder / "in"), folder / "corpus", image_size=16)
    for name, settings in (("vit", VIT), ("swin", SWIN)):
        config = find_run_recipe(f"{name}-tiny").override(settings)
        firth.pretrain(config, corpus=folder / "corpus", out=folder / name)
    return folder


@pytest.fixture(scope="module")
def client(folder: Path, vectors_folder: Path) -> Iterator[TestClient]:
    models = load_models([vectors_folder, folder / "vit", folder / "swin"])
    server = Server(models, ServeSettings.build({"threads": 1, "max_image_bytes": 50_000}, "test"))
    server.start()
    yield TestClient(server.app, base_url="http://localhost")
    server.finish()


def png(number: int) -> bytes:
    found = io.BytesIO()
    Image.fromarray(bars(number)).save(found, "PNG")
    return found.getvalue()


def test_predict_and_encode(client: TestClient, folder: Path) -> None:
    """The same answers as the library, for an upload and for several images in JSON."""
    files = sorted((folder / "in").rglob("*.png"))[:3]
    model = firth.load(folder / "vit")
    expected = model.predict([str(path) for path in files])
    one = client.post("/predict", params={"model": "vit"}, content=files[0].read_bytes(), headers=PNG).json()
    assert one["model"] == "vit"
    assert list(one["predictions"][0]) == ["label", "probabilities"]
    assert one["predictions"][0]["probabilities"] == pytest.approx(expected[0]["probabilities"], abs=1e-5)
    encoded = [base64.b64encode(path.read_bytes()).decode() for path in files]
    several = client.post("/predict", json={"images": encoded, "model": "vit"}).json()["predictions"]
    assert [found["label"] for found in several] == [found["label"] for found in expected]
    vectors = client.post("/encode", json={"images": encoded, "model": "swin"}).json()["vectors"]
    np.testing.assert_allclose(vectors, firth.load(folder / "swin").encode([str(path) for path in files]), atol=1e-5)
    assert client.post("/encode", content=files[0].read_bytes(), headers=PNG).json()["model"] == "vit"


def test_look(client: TestClient, folder: Path) -> None:
    found = client.post("/look", content=png(0), headers=PNG).json()
    weights, rollout = np.asarray(found["weights"]), np.asarray(found["rollout"])
    assert found["model"] == "vit"
    assert weights.shape == (2, 2, 4, 4)
    np.testing.assert_allclose(weights.sum((2, 3)), 1, atol=1e-3)
    assert rollout.sum() == pytest.approx(1, abs=1e-3)
    facts = {one["name"]: one for one in client.get("/models").json()["models"]}
    assert facts["vit"]["abilities"] == ["encode", "predict", "look"]
    assert facts["swin"]["abilities"] == ["encode", "predict"]
    assert facts["vit"]["images"]
    assert facts["vit"]["labels"] == ["columns", "rows"]
    assert not facts["word2vec"]["images"]


def test_rollout_by_hand() -> None:
    """Two layers of one head over a class token and two patches (Abnar & Zuidema 2020): half of each layer is itself."""
    first = np.array([[0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], np.float32)
    second = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], np.float32)
    found = look_of(np.stack([first, second])[:, None], 1, 2, True)
    np.testing.assert_allclose(found.weights[:, 0, 0], [[1.0, 0.0], [0.0, 1.0]])
    # the class token after both: 1/2 itself after the first (0.6, 0.4, 0), 1/2 the second patch (0, 0, 1)
    np.testing.assert_allclose(found.rollout[0], [0.2 / 0.7, 0.5 / 0.7], rtol=1e-6)


def bomb(width: int) -> bytes:
    """A small PNG that claims to be huge."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 422, "not a whole png"),
        (b"not an image", 422, "not a whole png"),
        (png(1)[:80], 422, "not a whole png"),
        (b"GIF89a" + b"\0" * 100, 422, "not a whole png"),
        (bomb(6000), 422, "6000 x 6000 pixels"),
        (bomb(20_000), 422, "too many pixels"),
        (b"\0" * 60_000, 413, "larger than 50,000 bytes"),
        (b"\0" * 600_000, 413, "larger than 50,000 bytes"),
    ],
)
def test_bad_images(client: TestClient, body: bytes, status: int, says: str) -> None:
    for path in ("/predict", "/encode", "/look"):
        answer = client.post(path, content=body, headers=PNG)
        assert answer.status_code == status, answer.text
        assert says in answer.json()["error"]
        assert "\n" not in answer.json()["error"]


def test_texts_are_never_taken_for_paths(client: TestClient, folder: Path) -> None:
    """A model of images opens the paths that it is given; over HTTP it must not."""
    path = str(sorted((folder / "in").rglob("*.png"))[0])
    for route, body in (
        ("/predict", {"texts": [path], "model": "vit"}),
        ("/encode", {"text": path, "model": "vit"}),
        ("/similarity", {"first": path, "second": path, "model": "vit"}),
        ("/v1/embeddings", {"input": path, "model": "vit"}),
    ):
        answer = client.post(route, json=body)
        assert answer.status_code == 422, answer.text
        assert "reads images" in answer.text
    assert client.post("/predict", json={"texts": [path]}).status_code == 422
    answer = client.post("/predict", content=png(0), headers=PNG, params={"model": "word2vec"})
    assert "cannot do this (predict images): ask vit, swin" in answer.json()["error"]


def test_bodies(client: TestClient) -> None:
    for body, says in (
        ({"images": ["a"]}, "images.0"),
        ({"images": []}, "images"),
        ({"images": ["aaaa"], "texts": ["a"]}, "give one of"),
        ({"images": ["aaaa"] * 65}, "images"),
    ):
        answer = client.post("/predict", json=body)
        assert answer.status_code == 422
        assert says in answer.json()["error"]
    assert "or an image as image/png" in client.post("/predict", content=b"a", headers={"content-type": "a/b"}).text
    assert client.post("/fill", content=png(0), headers=PNG).status_code == 415
    content = client.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "image/png", "image/jpeg", "image/webp"}


def test_the_page_begins_with_an_image_of_the_corpus(client: TestClient, folder: Path) -> None:
    """As a PNG file that others read, with the same pixels."""
    from firth.corpus.images import ImageCorpus

    models = {one["name"]: one for one in client.get("/models").json()["models"]}
    coded = models["vit"]["examples"]["image"]
    with Image.open(io.BytesIO(base64.b64decode(coded))) as found:
        pixels = np.asarray(found.convert("RGB"))
    assert np.array_equal(pixels, ImageCorpus.open(folder / "corpus").heldout.pixels[0].transpose(1, 2, 0))
