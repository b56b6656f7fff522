"""Every route answers what the library answers."""

import base64
import re
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import firth
from firth.serve.models import ServedModels
from sample_text import english

TEXTS = ["The old doctor found a broken clock.", "An apple!", ""]


def ask(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_health_and_models(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok", "version": firth.__version__, "queue": 0}
    models = {one["name"]: one for one in client.get("/models").json()["models"]}
    assert list(models) == ["bert", "word2vec", "gpt", "mood"]
    assert {"encode", "fill", "attention", "context", "map", "occurrences"} <= set(models["bert"]["abilities"])
    assert {"encode", "nearest", "analogy", "map"} <= set(models["word2vec"]["abilities"])
    assert "fill" not in models["gpt"]["abilities"]
    assert "generate" in models["gpt"]["abilities"]
    assert models["bert"]["mask"] == "[MASK]"
    assert models["gpt"]["mask"] is None
    assert (models["mood"]["task"], sorted(models["mood"]["labels"])) == ("classify", ["bad", "good"])


@pytest.mark.parametrize("name", ["bert", "word2vec", "gpt", "mood"])
def test_encode(client: TestClient, models: ServedModels, name: str) -> None:
    answer = ask(client, "/encode", texts=TEXTS, model=name)
    assert answer["model"] == name
    expected = models.by_name[name].model.encode(TEXTS)
    np.testing.assert_allclose(np.asarray(answer["vectors"], np.float32), expected, atol=1e-6)
    one = ask(client, "/encode", text=TEXTS[0], model=name, layer=0)
    np.testing.assert_allclose(one["vectors"], models.by_name[name].model.encode(TEXTS[:1], 0), atol=1e-6)


def test_the_first_model_that_can_answers(client: TestClient) -> None:
    assert ask(client, "/encode", texts=["a"])["model"] == "bert"
    assert ask(client, "/nearest", word="river")["model"] == "word2vec"
    assert ask(client, "/predict", texts=["a"])["model"] == "mood"


def test_words(client: TestClient, models: ServedModels) -> None:
    model = models.by_name["word2vec"].model
    found = ask(client, "/nearest", word="river", top=3)["found"]
    assert [(one["word"], pytest.approx(one["score"])) for one in found] == model.nearest("river", 3)
    found = ask(client, "/analogy", first="river", second="book", third="map", top=2, method="mul")["found"]
    assert [one["word"] for one in found] == [word for word, _ in model.analogy("river", "book", "map", 2, "mul")]
    same = ask(client, "/similarity", first="river", second="river", model="word2vec")["similarity"]
    assert same == pytest.approx(1, abs=1e-5)
    found = ask(client, "/map", words=["river", "book", "map", "no-such-word"], model="word2vec")
    assert found["missing"] == ["no-such-word"]
    assert [point["word"] for point in found["points"]] == ["river", "book", "map"]


def test_masks_attention_and_layers(client: TestClient, models: ServedModels) -> None:
    model = models.by_name["bert"].model
    text = "The old [MASK] found a clock."
    found = ask(client, "/fill", text=text, top=3)["masks"]
    assert [one["token"] for one in found[0]] == [guess.token for guess in model.fill(text, 3)[0]]
    found = ask(client, "/attention", text="The old doctor.", second="A clock!")
    weights = np.asarray(found["weights"])
    assert weights.shape == (2, 2, len(found["tokens"]), len(found["tokens"]))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-2)
    assert [tuple(span) for span in found["offsets"][1:3]] == [(0, 3), (4, 7)]
    found = ask(client, "/layers", text="An apple", model="bert")
    np.testing.assert_allclose(found["hidden"], model.layers("An apple").hidden, atol=1e-5)


def test_words_in_context(client: TestClient) -> None:
    sentences = [{"text": english(number), "word": english(number).split()[1]} for number in range(4)]
    found = ask(client, "/context", sentences=sentences)
    assert [point["text"][point["start"] : point["end"]] for point in found["points"]] == [
        one["word"] for one in sentences
    ]
    np.testing.assert_allclose(np.diag(found["similarity"]), 1, atol=1e-5)
    found = ask(client, "/occurrences", sentence="The captain sold the map.", word="map", top=3, model="bert")["found"]
    assert len(found) == 3
    assert all(one["sentence"][one["start"] : one["end"]] == one["word"] for one in found)


def test_generate(client: TestClient, models: ServedModels) -> None:
    answer = ask(client, "/generate", text="The old", max_tokens=5, temperature=0.5, seed=3, number=2)
    expected = models.by_name["gpt"].model.generate("The old", max_tokens=5, temperature=0.5, seed=3, num=2)
    assert [one["text"] for one in answer["continuations"]] == [one.text for one in expected]
    assert answer["trace"] is None
    traced = ask(client, "/generate", text="The old", max_tokens=3, beams=2, trace=True)
    assert {node["fate"] for node in traced["trace"]["nodes"]} >= {"kept"}


def test_predict(client: TestClient, models: ServedModels) -> None:
    answer = ask(client, "/predict", texts=TEXTS[:2])
    expected = models.by_name["mood"].model.predict(TEXTS[:2])
    assert [one["label"] for one in answer["predictions"]] == [one["label"] for one in expected]
    refused = client.post("/predict", json={"pairs": [{"text": "a", "second": "b"}]})
    assert refused.status_code == 422
    assert refused.json() == {"error": "the model 'mood' reads texts: give these"}


def test_openai(client: TestClient, models: ServedModels) -> None:
    answer = ask(client, "/v1/embeddings", input=TEXTS[:2], model="bert")
    rows = np.asarray([one["embedding"] for one in answer["data"]])
    expected = models.by_name["bert"].model.encode(TEXTS[:2])
    np.testing.assert_allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] > 0
    packed = ask(client, "/v1/embeddings", input=TEXTS[0], encoding_format="base64")["data"][0]["embedding"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(packed), "<f4"), rows[0], atol=1e-6)
    short = np.asarray(ask(client, "/v1/embeddings", input=TEXTS[0], dimensions=3)["data"][0]["embedding"])
    np.testing.assert_allclose(short, expected[0, :3] / np.linalg.norm(expected[0, :3]), atol=1e-6)
    refused = client.post("/v1/embeddings", json={"input": "a", "dimensions": 4000})
    assert refused.status_code == 422
    assert "dimensions" in refused.json()["error"]["message"]
    assert [one["id"] for one in client.get("/v1/models").json()["data"]] == list(models.by_name)


def test_runs_and_reports(client: TestClient) -> None:
    runs = {one["name"]: one for one in client.get("/runs").json()["runs"]}
    assert runs["bert"]["curve"][-1]["step"] == 6
    assert runs["bert"]["report"]
    assert "/" not in runs["bert"]["corpus"]  # paths are private
    answer = client.get("/runs/bert/report")
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src" not in answer.headers["content-security-policy"]
    assert client.get("/runs/nobody/report").status_code == 404
    assert client.get("/runs/..%2f..%2fetc/report").status_code == 404


def test_documentation_and_metrics(client: TestClient) -> None:
    ask(client, "/encode", text="a")
    schema = client.get("/openapi.json").json()
    assert {"/encode", "/v1/embeddings", "/health"} <= set(schema["paths"])
    assert "/encode" in client.get("/docs").text
    text = client.get("/metrics").text
    assert 'firth_requests_total{route="/encode",status="200"} 1.0' in text
    assert "firth_batch_requests_bucket" in text


def test_the_manual(client: TestClient) -> None:
    """Pages of docs/ as HTML without a script; links stay within it, what is not in it is no link, nothing else is read."""
    found = client.get("/manual/story/05-elmo")
    assert found.status_code == 200
    assert "script" not in found.headers["content-security-policy"]
    assert "<!--" not in found.text
    assert '<img src="/manual/pictures/05-elmo.svg"' in found.text
    assert client.get("/manual/pictures/05-elmo.svg").headers["content-type"] == "image/svg+xml"
    links = set(re.findall(r'href="(/[^"#]*)', found.text))
    assert any(link.startswith("/manual/story/") for link in links)
    assert all(client.get(link).status_code == 200 for link in links)
    results = client.get("/manual/compare").text
    assert "benchmarks/RESULTS.md" not in re.findall(r'href="([^"]*)"', results)
    for name in ("../README", "story/../../pyproject.toml", "nothing", "build_site.py", ""):
        assert client.get(f"/manual/{name}").status_code == 404, name
    assert "data-manual" in client.get("/").text


def test_modules_are_named_in_advance(client: TestClient) -> None:
    page = client.get("/").text
    named = re.findall(r'<link rel="modulepreload" href="(static/[^"]+)">', page)
    assert "static/main.js" in named
    assert len(named) > 40
    assert all(client.get(f"/{name}").headers["content-type"].startswith("text/javascript") for name in named)
