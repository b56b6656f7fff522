"""Who may ask, how much, and what is said otherwise: always one sentence."""

import json
import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from firth.core.errors import FirthError
from firth.serve.answers import ServedFacts
from firth.serve.guard import Problem
from firth.serve.models import Served, ServedModels, find_runs, free_name, load_models
from firth.serve.running import listen

HEADERS = {"content-type": "application/json"}


def refused(client: TestClient, status: int, path: str, body: Any = None, **more: Any) -> str:
    """The sentence of an answer that must have this status."""
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = client.post(path, content=content, headers=HEADERS, **more)
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert list(found) == ["error"]
    assert "\n" not in found["error"]
    assert 10 < len(found["error"]) <= 600
    return str(found["error"])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        ([], "should be an object"),
        ({}, "give either texts (a list) or text"),
        ({"text": "a", "texts": ["a"]}, "give either texts (a list) or text"),
        ({"texts": "a"}, "texts: "),
        ({"texts": [1]}, "texts.0: "),
        ({"text": "a", "lyaer": 1}, "did you mean 'layer'?"),
        ({"text": "a", "layer": "1"}, "layer: "),
        ({"text": "a", "layer": 77}, "layer 77 does not exist"),
        ({"text": "a", "pool": "median"}, "unknown pool 'median'"),
        (b'{"text": "\\ud800"}', "not valid JSON"),
    ],
)
def test_bad_bodies(client: TestClient, body: Any, says: str) -> None:
    assert says in refused(client, 422, "/encode", body)


def test_unknown_models_and_abilities(client: TestClient) -> None:
    assert "there is no model 'brt': did you mean 'bert'?" in refused(
        client, 404, "/encode", {"text": "a", "model": "brt"}
    )
    assert "ask bert" in refused(client, 422, "/fill", {"text": "a [MASK]", "model": "gpt"})
    assert "(translate)" in refused(client, 422, "/translate", {"text": "a"})
    assert "no [MASK]" in refused(client, 422, "/fill", {"text": "a"})
    assert "not among the" in refused(client, 422, "/nearest", {"word": "no-such-word"})


def test_routes_and_methods(client: TestClient) -> None:
    assert client.get("/nowhere").json() == {"error": "there is no such route: see /docs"}
    answer = client.get("/encode")
    assert (answer.status_code, answer.json()) == (405, {"error": "this route takes POST only"})
    answer = client.post("/encode", content=b"{}", headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    assert client.get("/static/../application.py").status_code == 404
    assert client.get("/static/%2e%2e/application.py").status_code == 404


def test_sizes(start: Any) -> None:
    client = start(max_body_bytes=2000, max_text_bytes=100, max_texts=3)
    assert "4 texts, more than 3" in refused(client, 413, "/encode", {"texts": ["a"] * 4})
    assert "bytes of text, more than 100" in refused(client, 413, "/encode", {"texts": ["é" * 60]})
    assert "larger than 2,000 bytes" in refused(client, 413, "/encode", {"text": "a" * 2001})
    assert "larger than 2,000 bytes" in refused(client, 413, "/encode", {"text": "a" * 100_000})
    pair = {"first": "a" * 60, "second": "b" * 60}
    assert "120 bytes of text" in refused(client, 413, "/similarity", pair)


def test_answers_that_would_be_too_large(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.serve.endpoints._MAX_NUMBERS", 10)
    assert "more than 10" in refused(client, 422, "/attention", {"text": "a b"})


@pytest.mark.slow
def test_a_request_that_takes_too_long(start: Any, models: ServedModels, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start(timeout_s=0.2)
    model = models.by_name["bert"].model
    monkeypatch.setattr(model, "fill_many", lambda texts, top: time.sleep(0.6) or [[]], raising=False)
    assert "no answer within 0.2 s" in refused(client, 504, "/fill", {"text": "a"})
    assert "no answer within 0.2 s" in refused(client, 504, "/encode", {"text": "a"})  # the worker is not free yet
    time.sleep(0.5)
    assert client.post("/encode", json={"text": "a"}).status_code == 200


def test_a_mistake_of_the_server_is_not_shown(
    client: TestClient, models: ServedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(texts: list[str], top: int) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(models.by_name["bert"].model, "fill_many", broken, raising=False)
    assert "secret" not in refused(client, 500, "/fill", {"text": "a"})


def test_token(start: Any) -> None:
    client = start(token="open sesame")
    assert client.get("/health").status_code == 200
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic open sesame"}):
        answer = client.get("/models", headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert client.get("/metrics").status_code == 401
    assert client.post("/v1/embeddings", json={"input": "a"}).json()["error"]["type"] == "invalid_request_error"
    assert client.get("/models", headers={"authorization": "Bearer open sesame"}).status_code == 200


def test_names_and_origins(start: Any) -> None:
    client = start(allowed_hosts=("models.example.org",))
    assert client.get("/health", headers={"host": "evil.example"}).status_code == 421
    for host in ("127.0.0.1:8000", "localhost", "[::1]:9", "MODELS.example.org:443"):
        assert client.get("/health", headers={"host": host}).status_code == 200, host
    assert client.get("/health", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/health", headers={"origin": "null"}).status_code == 403
    assert client.get("/health", headers={"origin": "http://localhost"}).status_code == 200
    assert start(host="0.0.0.0").get("/health", headers={"host": "anything"}).status_code == 200


def test_headers(client: TestClient) -> None:
    answer = client.get("/health")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers


def test_names_of_runs(tmp_path: Any, tmp_path_factory: Any, run_folder: Any, mood_folder: Any) -> None:
    assert free_name("bert", ["bert", "bert-2"]) == "bert-3"
    assert list(load_models([run_folder, run_folder]).by_name) == ["bert", "bert-2"]
    task = tmp_path_factory.mktemp("tasks") / "bert"
    shutil.copytree(mood_folder, task)
    assert list(load_models([run_folder, task]).by_name) == ["bert", "bert-classify"]
    assert find_runs(tmp_path) == []
    inner = tmp_path / "en" / "bert"
    inner.mkdir(parents=True)
    for source in run_folder.iterdir():
        if source.is_file():
            (inner / source.name).write_bytes(source.read_bytes())
    assert find_runs(tmp_path) == [inner]
    with pytest.raises(FirthError, match="no such run or model"):
        load_models([tmp_path / "nothing"])


def test_a_port_in_use() -> None:
    taken = listen("127.0.0.1", 0)
    assert taken.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's algorithm on
    taken.listen()
    with pytest.raises(FirthError, match="cannot be listened on"):
        listen("127.0.0.1", taken.getsockname()[1])
    taken.close()


def test_a_translator_is_not_given_a_text_whose_attention_fills_the_memory() -> None:
    """It reads a text as a whole, and no positions bound its length."""
    model: Any = SimpleNamespace(count_tokens=len)
    summary: Any = {}
    facts = ServedFacts(name="t5", kind="translator", abilities=("translate",), dim=8, parameters=0)
    served = Served("t5", model, facts, summary, Path("t5"), None, [])
    served.check_lengths(["a" * 4096, "b"])
    with pytest.raises(
        Problem, match="a text has 4,097 tokens, but 't5' reads at most 4,096 at once: shorten it"
    ) as error:
        served.check_lengths(["b", "a" * 4097])
    assert error.value.status == 422
    replace(served, facts=facts.replace(abilities=("encode",))).check_lengths(["a" * 100_000])  # in windows
