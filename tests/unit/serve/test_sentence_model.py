"""A served sentence model answers as its modules say."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from torch import nn

from firth.models.shared.sentences import SentenceConfig, SentenceModules
from firth.nn.sentences import Normalize
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import ServedModels, load_models

TEXTS = ["The old doctor found a broken clock.", "An apple!"]


@pytest.fixture(scope="module")
def models(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> ServedModels:
    folder = tmp_path_factory.mktemp("served") / "sentences"
    shutil.copytree(run_folder, folder)
    config = SentenceConfig(pool=("cls",), prompts={"query": "question: "})
    SentenceModules(config, nn.Sequential(Normalize())).save(folder, 32)
    return load_models([folder])


@pytest.fixture
def client(models: ServedModels) -> Iterator[TestClient]:
    server = Server(models, ServeSettings.build({"threads": 1}, "test"))
    server.start()
    yield TestClient(server.app, base_url="http://localhost")
    server.finish()


def test_modules_are_obeyed(client: TestClient, models: ServedModels) -> None:
    model = models.by_name["sentences"].model
    layers = [model.layers(text).hidden[-1] for text in TEXTS]
    first = np.stack([hidden[0] / np.linalg.norm(hidden[0]) for hidden in layers])
    found = np.asarray(client.post("/encode", json={"texts": TEXTS}).json()["vectors"])
    np.testing.assert_allclose(found, first, atol=1e-5)
    rows = client.post("/v1/embeddings", json={"input": TEXTS}).json()["data"]
    np.testing.assert_allclose([row["embedding"] for row in rows], first, atol=1e-5)
    mean = client.post("/encode", json={"texts": TEXTS, "pool": "mean"}).json()["vectors"]
    np.testing.assert_allclose(mean, [hidden.mean(0) for hidden in layers], atol=1e-5)


def test_prompt(client: TestClient, models: ServedModels) -> None:
    asked = client.post("/encode", json={"text": TEXTS[0], "prompt": "query"}).json()["vectors"]
    expected = models.by_name["sentences"].model.encode(["question: " + TEXTS[0]])
    np.testing.assert_allclose(asked, expected, atol=1e-5)
