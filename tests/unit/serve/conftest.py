"""A server with a few small models, asked without a network."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import firth
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import ServedModels, load_models
from sample_text import english

Start = Callable[..., TestClient]


@pytest.fixture(scope="session")
def vectors_folder(words_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "word2vec"
    firth.pretrain("word2vec", corpus=words_folder, out=folder, dim=16, min_count=1)
    return folder


@pytest.fixture(scope="session")
def mood_folder(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mood")
    rows = [f"{english(number)}\t{'good' if number % 2 else 'bad'}" for number in range(24)]
    (folder / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    firth.finetune("classify", base=run_folder, train=folder / "train.tsv", out=folder / "mood", epochs=1)
    return folder / "mood"


@pytest.fixture(scope="session")
def models(run_folder: Path, vectors_folder: Path, gpt_folder: Path, mood_folder: Path) -> ServedModels:
    return load_models([run_folder, vectors_folder, gpt_folder, mood_folder])


@pytest.fixture
def start(models: ServedModels) -> Iterator[Start]:
    """Starts a server with some settings and gives a client."""
    begun: list[Server] = []

    def build(**settings: object) -> TestClient:
        begun.append(Server(models, ServeSettings.build({"threads": 1, **settings}, "test")))
        begun[-1].start()
        return TestClient(begun[-1].app, base_url="http://localhost", raise_server_exceptions=True)

    yield build
    for server in begun:
        server.finish()


@pytest.fixture
def client(start: Start) -> TestClient:
    return start()
